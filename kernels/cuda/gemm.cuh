// SPDX-License-Identifier: Apache-2.0
//
// The matrix product of a step: x numbers tiles of rows, y tiles of columns, z samples. Kept rows
// and columns of the kernel are gathered on the way to shared memory; with `kNoisy`, noise is put
// on A on the same way. Sizes differ between samples: the grid is that of the largest, and blocks
// with nothing to do leave at once.
#ifndef KBD_CUDA_GEMM_CUH_
#define KBD_CUDA_GEMM_CUH_

#include <algorithm>
#include <type_traits>

#include "cuda/epilogue.cuh"
#include "cuda/gemm.h"
#include "cuda/params.h"
#include "cuda/place.cuh"
#include "cuda/product.cuh"
#include "cuda/ptx.h"
#include "cuda/stage_a.cuh"
#include "cuda/stage_b.cuh"
#include "cuda/tile_loop.cuh"
#include "cuda/traits.h"

namespace kbd {

template <class Traits, bool kNoisy>
constexpr size_t kGemmSharedBytes = Traits::kBufferBytes + sizeof(RowTable<Traits, kNoisy>);

// Before sm_80 shared memory has no room for a second block with tensor cores.
template <class Traits>
constexpr int kGemmBlocks = kArch < 800 && Traits::kMath != Math::kFma ? 1 : Traits::kBlocks;

template <class Traits, bool kNoisy>
__global__ void __launch_bounds__(Traits::kThreads, kGemmBlocks<Traits>)
    gemm_kernel(const __grid_constant__ GemmParams<typename Traits::Number> p) {
  using T = typename Traits::Number;
  using StageA = std::conditional_t<kNoisy, NoisyA<Traits>, PlainA<Traits>>;
  {
    const Place<Traits> place(p);
    if (place.first_column >= place.width) {
      return;
    }
  }
  unsigned char* shared = dynamic_shared<unsigned char>();
  Product<Traits> product;
  {
    const Place<Traits> place(p);
    auto* table = reinterpret_cast<typename StageA::Table*>(shared + Traits::kBufferBytes);
    table->fill(p, place.z, place.first_row);
    StageA stage_a(p, table, p.a_gathered ? place.rows : nullptr, place.depth);
    StageB<Traits> stage_b(p, place.rows, place.columns, place.depth, place.width,
                           place.first_column);
    tile_loop<Traits>(stage_a, stage_b, reinterpret_cast<T*>(shared), place.depth, product);
  }
  epilogue<Traits>(p, Place<Traits>(p), product, reinterpret_cast<float*>(shared));
}

// Launcher: shapes the grid, reports the error.
template <class Traits, bool kNoisy>
cudaError_t launch_tiles(GemmParams<typename Traits::Number> p, int64_t samples,
                         int64_t most_blocks, cudaStream_t stream) {
  constexpr int64_t kMostBlocksX = 2147483647;
  const int64_t tiles_x = (p.grid_rows + Traits::kM - 1) / Traits::kM;
  const int64_t tiles_y = (p.out + int64_t(Traits::kN) - 1) / Traits::kN;
  if (tiles_x > kMostBlocksX || samples > most_blocks) {
    return cudaErrorInvalidConfiguration;
  }
  for (int64_t y = 0; y < tiles_y; y += most_blocks) {
    p.first_column = int32_t(y * Traits::kN);
    const dim3 grid(unsigned(tiles_x), unsigned(std::min(most_blocks, tiles_y - y)),
                    unsigned(samples));
    const cudaError_t status = launch(gemm_kernel<Traits, kNoisy>, grid, Traits::kThreads,
                                      kGemmSharedBytes<Traits, kNoisy>, stream, p);
    if (status != cudaSuccess) {
      return status;
    }
  }
  return cudaSuccess;
}

template <class T, Math kMath, GpuTile kTile>
cudaError_t launch_tile(const GemmParams<T>& p, int64_t samples, int64_t most_blocks,
                        cudaStream_t stream) {
  return p.noise.noise == Noise::kNone
             ? launch_tiles<typename TraitsOf<T, kMath, kTile, false>::type, false>(
                   p, samples, most_blocks, stream)
             : launch_tiles<typename TraitsOf<T, kMath, kTile, true>::type, true>(
                   p, samples, most_blocks, stream);
}

template <class T, Math kMath>
cudaError_t launch_gemm(GpuTile tile, const GemmParams<T>& p, int64_t samples, int64_t most_blocks,
                        cudaStream_t stream) {
  switch (tile) {
    case GpuTile::kLarge:
      return launch_tile<T, kMath, GpuTile::kLarge>(p, samples, most_blocks, stream);
    case GpuTile::kSmall:
      return launch_tile<T, kMath, GpuTile::kSmall>(p, samples, most_blocks, stream);
    case GpuTile::kMedium:
    case GpuTile::kAuto:
      break;
  }
  return launch_tile<T, kMath, GpuTile::kMedium>(p, samples, most_blocks, stream);
}

}  // namespace kbd

#endif  // KBD_CUDA_GEMM_CUH_
