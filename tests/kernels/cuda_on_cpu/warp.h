// SPDX-License-Identifier: Apache-2.0
//
// What the lanes of a warp, or the threads of a block, do together. The intrinsics of device.h and
// the wrappers of kernels/cuda/ptx.h are written in these terms.
#ifndef KBD_CUDA_ON_CPU_WARP_H_
#define KBD_CUDA_ON_CPU_WARP_H_

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

// Where in the source a thread waits.
struct Site {
  const char* file;
  int line;
};

enum class Shuffle { kIndex, kUp, kDown, kXor };
enum class Reduce { kAdd, kMin, kMax, kMinSigned, kMaxSigned, kAnd, kOr, kXor };

struct Votes {
  int ones;   // threads whose predicate held
  int total;  // threads that met
};

Votes block_barrier(bool predicate, Site site);
void warp_barrier(uint32_t mask, Site site);
uint64_t shuffle(Shuffle way, uint32_t mask, uint64_t value, int operand, int width, Site site);
uint32_t ballot(uint32_t mask, bool predicate, Site site);
uint32_t match_any(uint32_t mask, uint64_t value, Site site);
uint32_t reduce(Reduce way, uint32_t mask, uint32_t value, Site site);

// d += a * b over the fragments of PTX; operands of TF32 lose their low 13 bits.
void mma_tf32(float* d, const uint32_t* a, const uint32_t* b, Site site);  // m16n8k8
void mma_f16(float* d, const uint32_t* a, const uint32_t* b, Site site);   // m16n8k16
void mma_bf16(float* d, const uint32_t* a, const uint32_t* b, Site site);  // m16n8k16
void ldmatrix(uint32_t* d, const void* row, int matrices, bool transposed, Site site);

// A copy lands when its group is waited for; until then its destination holds rubbish.
void copy_async(void* shared, const void* global, size_t bytes, bool valid, Site site);
void commit_copies();
void wait_for_copies(int pending_groups);

// Says that the calling thread updates these bytes as one; then the caller does so.
void atomic_access(const void* address, size_t bytes);

// The dynamic shared memory of the block.
void* dynamic_shared();

// Ends the launch, which fails.
[[noreturn]] void trap();

}  // namespace cuda_on_cpu

#endif  // KBD_CUDA_ON_CPU_WARP_H_
