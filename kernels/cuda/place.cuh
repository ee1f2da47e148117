// SPDX-License-Identifier: Apache-2.0
//
// Which part of a step's product a block of threads computes.
#ifndef KBD_CUDA_PLACE_CUH_
#define KBD_CUDA_PLACE_CUH_

#include <cstdint>

#include "cuda/params.h"
#include "cuda/platform.h"

namespace kbd {

// Made anew where it is needed: kept through the loop over the depth, it would cost registers.
template <class Traits>
struct Place {
  int64_t z;
  int64_t first_row;
  int32_t first_column;
  const int32_t* rows;     // of the kernel, those that are kept; null: all
  const int32_t* columns;  // likewise
  int32_t depth;           // how many rows
  int32_t width;           // how many columns

  __device__ __forceinline__ explicit Place(const GemmParams<typename Traits::Number>& p)
      : z(blockIdx.z),
        first_row(int64_t(blockIdx.x) * Traits::kM),
        first_column(p.first_column + int32_t(blockIdx.y) * Traits::kN),
        rows(p.rows.index ? p.rows.index + z * p.rows.stride : nullptr),
        columns(p.columns.index ? p.columns.index + z * p.columns.stride : nullptr),
        depth(p.rows.index ? p.rows.count[z] : p.in),
        width(p.columns.index ? p.columns.count[z] : p.out) {}
};

}  // namespace kbd

#endif  // KBD_CUDA_PLACE_CUH_
