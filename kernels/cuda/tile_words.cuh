// SPDX-License-Identifier: Apache-2.0
//
// A tile in shared memory as words of 4 bytes, and the words of each thread: all in one column of
// words, some rows apart. For numbers that come through registers, or 4 bytes at a time.
#ifndef KBD_CUDA_TILE_WORDS_CUH_
#define KBD_CUDA_TILE_WORDS_CUH_

#include <cstdint>

#include "cuda/platform.h"

namespace kbd {

// Of a tile [kRows, kColumns] whose rows are kLd numbers apart.
template <class Traits, int kRows, int kColumns, int kLd>
struct TileWords {
  using T = typename Traits::Number;

  static constexpr int kRowWords = kColumns / Traits::kWord;
  static constexpr int kCount = kRows * kRowWords / Traits::kThreads;  // of a thread

  // The first number of this thread's words in a row.
  __device__ static __forceinline__ int column() {
    return int(threadIdx.x) % kRowWords * Traits::kWord;
  }

  // The row of this thread's word i.
  __device__ static __forceinline__ int row(int i) {
    return int(threadIdx.x) / kRowWords + i * (Traits::kThreads / kRowWords);
  }

  __device__ static __forceinline__ void store(T* tile, const uint32_t (&words)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      *reinterpret_cast<uint32_t*>(tile + row(i) * kLd + column()) = words[i];
    }
  }
};

}  // namespace kbd

#endif  // KBD_CUDA_TILE_WORDS_CUH_
