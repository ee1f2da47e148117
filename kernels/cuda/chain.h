// SPDX-License-Identifier: Apache-2.0
//
// Runs a dropout chain on a GPU. Neither TensorFlow nor CUDA is needed to include this.
#ifndef KBD_CUDA_CHAIN_H_
#define KBD_CUDA_CHAIN_H_

#include <cstddef>
#include <cstdint>

#include "kbd/chain.h"

namespace kbd {

// 16-bit floating point numbers as they lie in memory: IEEE binary16, and the upper half of a
// float.
struct Half {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};

// What of a kernel a sample computes. Both give the same bits without tensor cores (if the kernels
// are finite); with them the products are grouped otherwise.
enum class GpuWay {
  kAuto,
  kCut,     // with shared masks, only what survives
  kMasked,  // everything, the dropped inputs as zeros
};

// Size of the piece of a product that a block of threads computes. All give the same bits.
enum class GpuTile {
  kAuto,
  kLarge,   // 128 x 128; where noise is made, 64 x 128
  kMedium,  // 64 x 64
  kSmall,   // 16 x 128: few rows
};

struct GpuOptions {
  bool allow_tf32 = false;    // float32 may go through tensor cores, rounded to TF32
  int sm = 80;                // compute capability of the device, times ten
  int multiprocessors = 108;  // of the device
  int64_t workspace_limit = int64_t(64) << 20;  // bytes; more only if one sample needs more
  // For tests:
  GpuWay way = GpuWay::kAuto;
  GpuTile tile = GpuTile::kAuto;
  int64_t most_blocks = 65535;  // blocks of a grid along y and z, 65535 or less
};

// Bytes of device memory that run_chain_gpu needs for its own.
template <class T>
size_t workspace_bytes(const Chain<T>& chain, const GpuOptions& options);

// Puts the chain on `stream` (a cudaStream_t) and returns without waiting for it. x, kernels,
// biases and out are device memory, and so is the workspace; the steps themselves are read at once.
// T is float, Half or Bfloat16. The caller has checked shapes, and that their products do not
// overflow; sizes may be zero. Returns 0, or a code that gpu_error explains.
//
// The result of a row and a sample does not depend on which others are in the call, nor on the
// options but `allow_tf32` and `way`.
template <class T>
int run_chain_gpu(const Chain<T>& chain, const GpuOptions& options, void* workspace, size_t bytes,
                  void* stream);

// What a code of run_chain_gpu means.
const char* gpu_error(int code);

}  // namespace kbd

#endif  // KBD_CUDA_CHAIN_H_
