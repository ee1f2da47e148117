// SPDX-License-Identifier: Apache-2.0
//
// The loop over the depth of a product: while a tile is multiplied, the next ones are on their way
// to shared memory. One barrier a tile: it shows everybody's part of the tile that is to be
// multiplied, and that the tile before is no longer needed, whose place the next copy takes.
#ifndef KBD_CUDA_TILE_LOOP_CUH_
#define KBD_CUDA_TILE_LOOP_CUH_

#include <cstdint>

#include "cuda/ptx.h"

namespace kbd {

// `tiles` is shared memory for kStages tiles of A, then of B. Ends with a barrier: what was there
// may be overwritten.
template <class Traits, class StageA, class StageB, class Product>
__device__ __forceinline__ void tile_loop(StageA& stage_a, StageB& stage_b,
                                          typename Traits::Number* tiles, int32_t depth,
                                          Product& product) {
  using T = typename Traits::Number;
  constexpr int kAhead = Traits::kStages - 1;
  const int warp = int(threadIdx.x) / 32;
  const int row = warp / Traits::kWarpsN * Traits::kWarpM;
  const int column = warp % Traits::kWarpsN * Traits::kWarpN;
  const int32_t count = (depth + Traits::kK - 1) / Traits::kK;
  const auto tile_a = [tiles](int stage) -> T* { return tiles + stage * Traits::kTileA; };
  const auto tile_b = [tiles](int stage) -> T* {
    return tiles + Traits::kStages * Traits::kTileA + stage * Traits::kTileB;
  };

#pragma unroll 1
  for (int t = 0; t < kAhead; ++t) {
    if (t < count) {
      stage_a.begin(tile_a(t), t * Traits::kK);
      stage_b.begin(tile_b(t), t * Traits::kK);
      stage_b.finish(tile_b(t), t * Traits::kK);
      stage_a.finish(tile_a(t), t * Traits::kK);
    }
    cp_async_commit();
  }
  int now = 0, next = kAhead;
#pragma unroll 1
  for (int32_t t = 0; t < count; ++t) {
#if !defined(KBD_MUTATION) || KBD_MUTATION != 4  // Without: a defect that the tests must find.
    cp_async_wait<kAhead - 1>();
#endif
#if !defined(KBD_MUTATION) || KBD_MUTATION != 2  // Likewise.
    __syncthreads();
#endif
    const int32_t k_next = (t + kAhead) * Traits::kK;
    const bool more = t + kAhead < count;
    if (more) {
      stage_a.begin(tile_a(next), k_next);
      stage_b.begin(tile_b(next), k_next);
    }
    cp_async_commit();
    product.add(tile_a(now) + row * Traits::kLdA, tile_b(now) + column);
    if (more) {
      stage_b.finish(tile_b(next), k_next);  // First: noise needs the registers.
      stage_a.finish(tile_a(next), k_next);
    }
    now = now + 1 == Traits::kStages ? 0 : now + 1;
    next = next + 1 == Traits::kStages ? 0 : next + 1;
  }
  __syncthreads();
}

}  // namespace kbd

#endif  // KBD_CUDA_TILE_LOOP_CUH_
