// SPDX-License-Identifier: Apache-2.0
//
// Instructions that CUDA C++ has no name for: asynchronous copies to shared memory, and products of
// small matrices by a warp (tensor cores). Fragments are laid out as in the PTX manual: with
// group = lane / 4 and member = lane % 4, for m16n8k8 of TF32
//
//     a[0] (group, member)      a[1] (group + 8, member)       row, column of A[16, 8]
//     a[2] (group, member + 4)  a[3] (group + 8, member + 4)
//     b[0] (member, group)      b[1] (member + 4, group)       row, column of B[8, 8]
//     d[0], d[1] (group, 2 member + 0, 1)                      row, column of D[16, 8]
//     d[2], d[3] (group + 8, 2 member + 0, 1)
//
// and for m16n8k16 of 16-bit types, two to a register, the lower column (of B: row) in the low half
//
//     a[0] (group, 2 member + 0, 1)      a[1] (group + 8, 2 member + 0, 1)      of A[16, 16]
//     a[2] (group, 2 member + 8, 9)      a[3] (group + 8, 2 member + 8, 9)
//     b[0] (2 member + 0, 1, group)      b[1] (2 member + 8, 9, group)          of B[16, 8]
//     d as above.
//
// All lanes of a warp take part. Before sm_80 copies are plain loads and stores, and mma exists for
// float16 only: ask kHasTf32Mma and kHasBf16Mma, in `if constexpr`, before using them (calls trap).
#ifndef KBD_CUDA_PTX_H_
#define KBD_CUDA_PTX_H_

#include <cstdint>

#include "cuda/platform.h"

namespace kbd {

// What the code is compiled for, times ten: 750, 800, ... Only device code may ask.
#if defined(__CUDA_ARCH__)
constexpr int kArch = __CUDA_ARCH__;
#elif defined(KBD_CUDA_ON_CPU_ARCH)
constexpr int kArch = KBD_CUDA_ON_CPU_ARCH;
#elif defined(KBD_CUDA_ON_CPU)
constexpr int kArch = 800;
#else
constexpr int kArch = 0;
#endif

constexpr bool kHasAsyncCopy = kArch >= 800;
constexpr bool kHasTf32Mma = kArch >= 800;
constexpr bool kHasBf16Mma = kArch >= 800;
constexpr bool kHasF16Mma = kArch >= 750;

namespace ptx {

// One instruction each, chosen below by what the architecture has.
#if defined(KBD_CUDA_ON_CPU)

#define KBD_SITE {__builtin_FILE(), __builtin_LINE()}
inline void copy_16(void* shared, const void* global, bool valid) {
  cuda_on_cpu::copy_async(shared, global, 16, valid, KBD_SITE);
}
inline void copy_4(void* shared, const void* global, bool valid) {
  cuda_on_cpu::copy_async(shared, global, 4, valid, KBD_SITE);
}
inline void commit() { cuda_on_cpu::commit_copies(); }
template <int kPending>
inline void wait() {
  cuda_on_cpu::wait_for_copies(kPending);
}
inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  cuda_on_cpu::mma_tf32(d, a, b, KBD_SITE);
}
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  cuda_on_cpu::mma_f16(d, a, b, KBD_SITE);
}
inline void mma_f16_k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  const uint32_t a[4] = {a0, a1, 0, 0}, b[2] = {b0, 0};
  cuda_on_cpu::mma_f16(d, a, b, KBD_SITE);
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  cuda_on_cpu::mma_bf16(d, a, b, KBD_SITE);
}
inline void ldmatrix_x4(uint32_t (&d)[4], const void* row, bool transposed) {
  cuda_on_cpu::ldmatrix(d, row, 4, transposed, KBD_SITE);
}
#undef KBD_SITE

#else

__device__ __forceinline__ uint32_t shared_address(const void* shared) {
  return uint32_t(__cvta_generic_to_shared(shared));
}
__device__ __forceinline__ void copy_16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_4(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
__device__ __forceinline__ void mma_tf32(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_f16(float (&d)[4], const uint32_t (&a)[4],
                                        const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_f16_k8(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b0));
}
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&d)[4], const void* row, bool transposed) {
  if (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
}

#endif

}  // namespace ptx

// Copies 16 bytes, both ends aligned to 16, past the L1 cache; zeros if not `valid`, and then
// `global` is not read.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool valid) {
  if constexpr (kHasAsyncCopy) {
    ptx::copy_16(shared, global, valid);
  } else {
    *static_cast<uint4*>(shared) =
        valid ? *static_cast<const uint4*>(global) : make_uint4(0, 0, 0, 0);
  }
}

// Copies 4 bytes, both ends aligned to 4; zeros if not `valid`.
__device__ __forceinline__ void cp_async_4(void* shared, const void* global, bool valid) {
  if constexpr (kHasAsyncCopy) {
    ptx::copy_4(shared, global, valid);
  } else {
    *static_cast<uint32_t*>(shared) = valid ? *static_cast<const uint32_t*>(global) : 0u;
  }
}

// Closes the group of the copies that this thread began since the last call.
__device__ __forceinline__ void cp_async_commit() {
  if constexpr (kHasAsyncCopy) {
    ptx::commit();
  }
}

// Waits until at most kPending of this thread's groups, the latest, are under way. The other
// threads' copies are there after a __syncthreads.
template <int kPending>
__device__ __forceinline__ void cp_async_wait() {
  if constexpr (kHasAsyncCopy) {
    ptx::wait<kPending>();
  }
}

// The nearest number of TF32 (10 bits of mantissa), ties away from zero.
__device__ __forceinline__ uint32_t to_tf32(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t result;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(value));
  return result;
#else
  const uint32_t bits = __float_as_uint(value);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : (bits + 0x1000u) & 0xffffe000u;
#endif
}

// d += a * b, m16n8k8.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2]) {
  if constexpr (kHasTf32Mma) {
    ptx::mma_tf32(d, a, b);
  } else {
    __trap();
  }
}

// d += a * b, m16n8k16.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2]) {
  if constexpr (kArch >= 800) {
    ptx::mma_f16(d, a, b);
  } else if constexpr (kHasF16Mma) {
    ptx::mma_f16_k8(d, a[0], a[1], b[0]);
    ptx::mma_f16_k8(d, a[2], a[3], b[1]);
  } else {
    __trap();
  }
}

// d += a * b, m16n8k16.
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4],
                                                  const uint32_t (&b)[2]) {
  if constexpr (kHasBf16Mma) {
    ptx::mma_bf16(d, a, b);
  } else {
    __trap();
  }
}

// Loads four 8 x 8 matrices of 16-bit elements: lane i gives the address of row i % 8 of matrix
// i / 8 (16 bytes, aligned), and d[j] gets elements 2 member + 0, 1 of row `group` of matrix j.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&d)[4], const void* row) {
  ptx::ldmatrix_x4(d, row, false);
}

// The same of the transposed matrices.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&d)[4], const void* row) {
  ptx::ldmatrix_x4(d, row, true);
}

}  // namespace kbd

#endif  // KBD_CUDA_PTX_H_
