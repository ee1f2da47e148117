// SPDX-License-Identifier: Apache-2.0
//
// Staging of B, the kernel: kept rows and columns of it go to a tile [kK, kN] in shared memory.
// begin() and finish() as for A.
#ifndef KBD_CUDA_STAGE_B_CUH_
#define KBD_CUDA_STAGE_B_CUH_

#include <cstdint>

#include "cuda/number.cuh"
#include "cuda/params.h"
#include "cuda/ptx.h"
#include "cuda/tile_words.cuh"

namespace kbd {

template <class Traits>
class StageB {
 public:
  using T = typename Traits::Number;

  // `rows` and `columns` list what is kept, if not null; there are `depth` and `width` of them.
  __device__ __forceinline__ StageB(const GemmParams<T>& p, const int32_t* rows,
                                    const int32_t* columns, int32_t depth, int32_t width,
                                    int32_t first_column)
      : w_(p.w), stride_(p.out), rows_(rows), depth_(depth), vector_(p.w_vector && !columns) {
    if (vector_) {
      // The column of this thread's 16 bytes.
      const int32_t n = first_column + int(threadIdx.x) % kRowChunks * Traits::kVector;
      column_[0] = n < width ? n : -1;
    } else {
#pragma unroll
      for (int j = 0; j < Traits::kWord; ++j) {
        const int32_t n = first_column + OwnWords::column() + j;
        column_[j] = n < width ? (columns ? columns[n] : n) : -1;
      }
    }
  }

  __device__ __forceinline__ void begin(T* tile, int32_t k0) {
    if (vector_) {
      const int at = int(threadIdx.x) % kRowChunks * Traits::kVector;
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int row = int(threadIdx.x) / kRowChunks + i * (Traits::kThreads / kRowChunks);
        const bool valid = k0 + row < depth_ && column_[0] >= 0;
        cp_async_16(tile + row * Traits::kLdB + at,
                    valid ? w_ + row_of(k0 + row) * stride_ + column_[0] : w_, valid);
      }
      return;
    }
    const int at = OwnWords::column();
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int row = OwnWords::row(i);
      const bool inside = k0 + row < depth_;
      const T* from = w_ + (inside ? row_of(k0 + row) * stride_ : 0);
      if constexpr (sizeof(T) == 4) {
        const bool valid = inside && column_[0] >= 0;
        cp_async_4(tile + row * Traits::kLdB + at, valid ? from + column_[0] : w_, valid);
      } else {
        T pair[2] = {};
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (inside && column_[j] >= 0) {
            pair[j] = from[column_[j]];
          }
        }
        words_[i] = pack_two(pair[0], pair[1]);
      }
    }
  }

  __device__ __forceinline__ void finish(T* tile, int32_t) {
    if constexpr (sizeof(T) == 2) {
      if (!vector_) {
        OwnWords::store(tile, words_);
      }
    }
  }

 private:
  static constexpr int kRowChunks = Traits::kN / Traits::kVector;
  static constexpr int kChunks = Traits::kK * kRowChunks / Traits::kThreads;
  using OwnWords = TileWords<Traits, Traits::kK, Traits::kN, Traits::kLdB>;
  static constexpr int kWords = OwnWords::kCount;

  __device__ __forceinline__ int64_t row_of(int32_t k) const {
#if defined(KBD_MUTATION) && KBD_MUTATION == 1  // A defect that the tests must find.
    k -= k > 0;
#endif
    return rows_ ? __ldg(rows_ + k) : k;
  }

  const T* w_;
  int64_t stride_;
  const int32_t* rows_;
  int32_t depth_;
  bool vector_;
  int32_t column_[Traits::kWord];
  uint32_t words_[sizeof(T) == 2 ? kWords : 1];
};

}  // namespace kbd

#endif  // KBD_CUDA_STAGE_B_CUH_
