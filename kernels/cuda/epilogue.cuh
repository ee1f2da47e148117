// SPDX-License-Identifier: Apache-2.0
//
// What becomes of sums: scale, bias, activation, store. Each warp passes its accumulators through
// shared memory, a slab of rows at a time. That puts neighbouring columns in neighbouring lanes,
// four each, for wide stores; and the code of the activations is there once, not once per
// accumulator.
#ifndef KBD_CUDA_EPILOGUE_CUH_
#define KBD_CUDA_EPILOGUE_CUH_

#include <cstdint>

#include "cuda/activation.cuh"
#include "cuda/number.cuh"
#include "cuda/params.h"
#include "cuda/place.cuh"
#include "cuda/platform.h"

namespace kbd {

// Stores those of four neighbours that lie before column `stored`.
template <class U>
__device__ __forceinline__ void store(U* to, const float (&value)[4], int32_t n, int32_t stored,
                                      bool vector) {
  if (vector) {
    store_four(to, value);
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (n + j < stored) {
      to[j] = from_float<U>(value[j]);
    }
  }
}

// `buffer` is shared memory.
template <class Traits, class Product>
__device__ __forceinline__ void epilogue(const GemmParams<typename Traits::Number>& p,
                                         const Place<Traits>& place, const Product& product,
                                         float* buffer) {
  constexpr int kRowLanes = Traits::kWarpN / 4;  // lanes that take one row
  constexpr int kPassRows = 32 / kRowLanes;
  static_assert(32 % kRowLanes == 0 && Traits::kSlabRows % kPassRows == 0, "whole passes");
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  float* slab_buffer = buffer + warp * Traits::kSlabSize;
  const int64_t first_row =
      place.first_row + warp / Traits::kWarpsN * Traits::kWarpM + lane / kRowLanes;
  const int32_t n =
      place.first_column + warp % Traits::kWarpsN * Traits::kWarpN + lane % kRowLanes * 4;
  const int32_t width = place.width;
  const int32_t stored =
      p.d_padded ? (width + Traits::kVector - 1) / Traits::kVector * Traits::kVector : width;
  float bias[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    bias[j] = p.bias != nullptr && n + j < width
                  ? to_float(p.bias[place.columns ? place.columns[n + j] : n + j])
                  : 0.f;
  }
#pragma unroll 1
  for (int slab = 0; slab < Traits::kSlabs; ++slab) {
    product.write_slab(slab, slab_buffer);
    __syncwarp();
#pragma unroll 1
    for (int row = 0; row < Traits::kSlabRows; row += kPassRows) {
      const int64_t m = first_row + slab * Traits::kSlabRows + row;
      if (m < p.grid_rows && n < stored) {
        const float4 sum = *reinterpret_cast<const float4*>(
            slab_buffer + (row + lane / kRowLanes) * Traits::kLdSlab + lane % kRowLanes * 4);
        float value[4] = {fmaf(sum.x, p.scale, bias[0]), fmaf(sum.y, p.scale, bias[1]),
                          fmaf(sum.z, p.scale, bias[2]), fmaf(sum.w, p.scale, bias[3])};
        activate(p.activation, value);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          value[j] = n + j < width ? value[j] : 0.f;
        }
        const int64_t at = (place.z * p.vectors + m) * p.d_stride + n;
        if (sizeof(*p.d) == sizeof(float) || p.logits == nullptr) {
          store(p.d + at, value, n, stored, p.d_vector);
        } else {
          store(p.logits + at, value, n, stored, p.d_vector);
        }
      }
    }
    __syncwarp();
  }
}

}  // namespace kbd

#endif  // KBD_CUDA_EPILOGUE_CUH_
