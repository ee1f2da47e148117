// SPDX-License-Identifier: Apache-2.0
//
// A warp's piece of the product of two tiles in shared memory: accumulators in registers, which the
// epilogue asks for a slab of rows at a time.
#ifndef KBD_CUDA_PRODUCT_CUH_
#define KBD_CUDA_PRODUCT_CUH_

#include <cstdint>
#include <type_traits>

#include "cuda/number.cuh"
#include "cuda/ptx.h"
#include "cuda/traits.h"

namespace kbd {

// Fused multiply-adds. The lanes of a warp are 4 x 8; a lane has rows ty + 4 i, and four columns
// from 4 tx + 32 j on.
template <class Traits>
class FmaProduct {
 public:
  using T = typename Traits::Number;

  __device__ __forceinline__ FmaProduct() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (float& sum : row) {
        sum = 0.f;
      }
    }
  }

  // Adds the product of rows of A and columns of B, from the warp's first on.
  __device__ __forceinline__ void add(const T* a, const T* b) {
    const int lane = int(threadIdx.x) % 32, ty = lane / 8, tx = lane % 8;
#pragma unroll kUnroll
    for (int k = 0; k < Traits::kK; k += kStep) {
      float left[kRows][kStep];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        load(a + (ty + 4 * i) * Traits::kLdA + k, left[i]);
      }
#pragma unroll
      for (int kk = 0; kk < kStep; ++kk) {
        float right[kColumns];
#pragma unroll
        for (int j = 0; j < kColumns; j += 4) {
          float four[4];
          load(b + (k + kk) * Traits::kLdB + 4 * tx + 8 * j, four);
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            right[j + c] = four[c];
          }
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            sums_[i][j] = fmaf(left[i][kk], right[j], sums_[i][j]);
          }
        }
      }
    }
  }

  // Writes rows [4 slab, 4 slab + 4) of the piece to [4, kLdSlab].
  __device__ __forceinline__ void write_slab(int slab, float* to) const {
    const int lane = int(threadIdx.x) % 32, ty = lane / 8, tx = lane % 8;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (i == slab) {
#pragma unroll
        for (int j = 0; j < kColumns; j += 4) {
          *reinterpret_cast<float4*>(to + ty * Traits::kLdSlab + 4 * tx + 8 * j) =
              make_float4(sums_[i][j], sums_[i][j + 1], sums_[i][j + 2], sums_[i][j + 3]);
        }
      }
    }
  }

 private:
  static constexpr int kRows = Traits::kWarpM / 4;
  static constexpr int kColumns = Traits::kWarpN / 8;
  // With 8 x 8 sums, loads of four numbers of A, or turns that are unrolled, make registers spill.
  static constexpr bool kFull = kRows * kColumns >= 64;
  static constexpr int kStep = kFull ? 2 : 4;
  static constexpr int kUnroll = kFull ? 1 : Traits::kK / kStep;
  static_assert(sizeof(T) == 4 && kColumns % 4 == 0, "float, four columns at a time");

  __device__ static __forceinline__ void load(const float* from, float (&to)[2]) {
    const float2 v = *reinterpret_cast<const float2*>(from);
    to[0] = v.x, to[1] = v.y;
  }
  __device__ static __forceinline__ void load(const float* from, float (&to)[4]) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
  }

  float sums_[kRows][kColumns];
};

// Tensor cores: fragments of 16 x 8, laid out as ptx.h says.
template <class Traits>
class MmaProduct {
 public:
  using T = typename Traits::Number;

  __device__ __forceinline__ MmaProduct() {
#pragma unroll
    for (auto& row : sums_) {
#pragma unroll
      for (auto& fragment : row) {
#pragma unroll
        for (float& sum : fragment) {
          sum = 0.f;
        }
      }
    }
  }

  __device__ __forceinline__ void add(const T* a, const T* b) {
    if constexpr (kHasMma) {
      add_with(a, b);
    } else {
      add_without(a, b);
    }
  }

  // Writes rows [16 slab, 16 slab + 16) of the piece to [16, kLdSlab].
  __device__ __forceinline__ void write_slab(int slab, float* to) const {
    const int lane = int(threadIdx.x) % 32, group = lane / 4, member = lane % 4;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (i == slab) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          float* at = to + group * Traits::kLdSlab + 8 * j + 2 * member;
          *reinterpret_cast<float2*>(at) = make_float2(sums_[i][j][0], sums_[i][j][1]);
          *reinterpret_cast<float2*>(at + 8 * Traits::kLdSlab) =
              make_float2(sums_[i][j][2], sums_[i][j][3]);
        }
      }
    }
  }

 private:
  static constexpr bool kTf32 = Traits::kMath == Math::kTf32;
  static constexpr bool kHasMma = kTf32                         ? kHasTf32Mma
                                  : std::is_same_v<T, Bfloat16> ? kHasBf16Mma
                                                                : kHasF16Mma;
  static constexpr int kDepth = kTf32 ? 8 : 16;
  static constexpr int kRows = Traits::kWarpM / 16;
  static constexpr int kColumns = Traits::kWarpN / 8;
  // With 64 sums, what is staged through registers leaves none for more than a turn at a time.
  static constexpr int kUnroll = kRows * kColumns >= 16 ? 1 : Traits::kK / kDepth;
  static_assert(kColumns % 2 == 0, "columns of B are loaded 16 at a time");

  // A[16, kDepth]: to ldmatrix, TF32 is two 16-bit columns.
  __device__ static __forceinline__ void load_left(const T* a, uint32_t (&left)[4]) {
    const int lane = int(threadIdx.x) % 32;
    ldmatrix_x4(left, a + lane % 16 * Traits::kLdA + lane / 16 * (kDepth / 2));
#if defined(KBD_MUTATION) && KBD_MUTATION == 3  // A defect that the tests must find.
    const uint32_t other = left[1];
    left[1] = left[2];
    left[2] = other;
#endif
    if constexpr (kTf32) {
#pragma unroll
      for (uint32_t& value : left) {
        value = to_tf32(__uint_as_float(value));
      }
    }
  }

  // B[kDepth, 8 kColumns].
  __device__ static __forceinline__ void load_right(const T* b, uint32_t (&right)[kColumns][2]) {
    const int lane = int(threadIdx.x) % 32;
    if constexpr (kTf32) {
      const float* at = b + lane % 4 * Traits::kLdB + lane / 4;
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        right[j][0] = to_tf32(at[8 * j]);
        right[j][1] = to_tf32(at[8 * j + 4 * Traits::kLdB]);
      }
    } else {
      const T* at = b + lane % 16 * Traits::kLdB + lane / 16 * 8;
#pragma unroll
      for (int j = 0; j < kColumns; j += 2) {
        uint32_t both[4];
        ldmatrix_x4_trans(both, at + 8 * j);
        right[j][0] = both[0], right[j][1] = both[1];
        right[j + 1][0] = both[2], right[j + 1][1] = both[3];
      }
    }
  }

  __device__ __forceinline__ void add_with(const T* a, const T* b) {
#pragma unroll kUnroll
    for (int k = 0; k < Traits::kK; k += kDepth) {
      uint32_t left[kRows][4], right[kColumns][2];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        load_left(a + 16 * i * Traits::kLdA + k, left[i]);
      }
      load_right(b + k * Traits::kLdB, right);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          multiply(sums_[i][j], left[i], right[j]);
        }
      }
    }
  }

  __device__ static __forceinline__ void multiply(float (&sum)[4], const uint32_t (&left)[4],
                                                  const uint32_t (&right)[2]) {
    if constexpr (kTf32) {
      mma_m16n8k8_tf32(sum, left, right);
    } else if constexpr (std::is_same_v<T, Bfloat16>) {
      mma_m16n8k16_bf16(sum, left, right);
    } else {
      mma_m16n8k16_f16(sum, left, right);
    }
  }

  // For a device that lacks the instruction (bfloat16 before sm_80): right, and slow.
  __device__ __forceinline__ void add_without(const T* a, const T* b) {
    const int lane = int(threadIdx.x) % 32, group = lane / 4, member = lane % 4;
#pragma unroll 1
    for (int k = 0; k < Traits::kK; ++k) {
      float right[kColumns][2];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const T* at = b + k * Traits::kLdB + 8 * j + 2 * member;
        right[j][0] = to_float(at[0]), right[j][1] = to_float(at[1]);
      }
#pragma unroll
      for (int i = 0; i < 2 * kRows; ++i) {
        const float left = to_float(a[(8 * i + group) * Traits::kLdA + k]);
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          float (&sum)[4] = sums_[i / 2][j];
          sum[i % 2 * 2] = fmaf(left, right[j][0], sum[i % 2 * 2]);
          sum[i % 2 * 2 + 1] = fmaf(left, right[j][1], sum[i % 2 * 2 + 1]);
        }
      }
    }
  }

  float sums_[kRows][kColumns][4];
};

template <class Traits>
using Product =
    std::conditional_t<Traits::kMath == Math::kFma, FmaProduct<Traits>, MmaProduct<Traits>>;

}  // namespace kbd

#endif  // KBD_CUDA_PRODUCT_CUH_
