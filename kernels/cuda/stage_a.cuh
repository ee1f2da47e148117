// SPDX-License-Identifier: Apache-2.0
//
// Staging of A, the activations: from global memory to a tile [kM, kK] in shared memory. begin()
// starts the loads of a tile; finish() stores what came through registers, after the product of an
// earlier tile has hidden the latency.
#ifndef KBD_CUDA_STAGE_A_CUH_
#define KBD_CUDA_STAGE_A_CUH_

#include <cstdint>

#include "cuda/counters.cuh"
#include "cuda/number.cuh"
#include "cuda/params.h"
#include "cuda/ptx.h"
#include "cuda/tile_words.cuh"

namespace kbd {

// Where the rows of a block are, and which words they have. In shared memory: a thread copies from
// several rows.
template <class Traits, bool kNoisy>
struct RowTable {
  int64_t offset[Traits::kM];  // -1 beyond the last
  uint64_t low[kNoisy ? Traits::kM : 1];
  uint64_t high[kNoisy ? Traits::kM : 1];
  uint64_t orders_low[kNoisy ? Traits::kM : 1];
  int32_t place[kNoisy ? Traits::kM : 1];

  // Ends with a barrier.
  __device__ __forceinline__ void fill(const GemmParams<typename Traits::Number>& p, int64_t z,
                                       int64_t first_row) {
    for (int row = int(threadIdx.x); row < Traits::kM; row += Traits::kThreads) {
      const int64_t m = first_row + row;
      const int64_t turn = p.grid_rows == p.vectors ? 0 : m / p.vectors;
      const int64_t sample = z + turn, vector = m - turn * p.vectors;
      offset[row] =
          m < p.grid_rows ? sample * p.a_sample_stride + vector * p.a_vector_stride : int64_t(-1);
      if constexpr (kNoisy) {
        const VectorWords words = words_of(p.noise, sample, vector);
        low[row] = words.low;
        high[row] = words.high;
        orders_low[row] = words.orders_low;
        place[row] = words.place;
      }
    }
    __syncthreads();
  }
};

// A as it is, or some of its columns.
template <class Traits>
class PlainA {
 public:
  using T = typename Traits::Number;
  using Table = RowTable<Traits, false>;

  __device__ __forceinline__ PlainA(const GemmParams<T>& p, const Table* table,
                                    const int32_t* columns, int32_t depth)
      : a_(p.a), table_(table), columns_(columns), depth_(depth), vector_(p.a_vector) {}

  __device__ __forceinline__ void begin(T* tile, int32_t k0) {
    if (vector_) {
#pragma unroll
      for (int i = 0; i < (kChunks + Traits::kThreads - 1) / Traits::kThreads; ++i) {
        const int chunk = int(threadIdx.x) + i * Traits::kThreads;
        if (kChunks % Traits::kThreads == 0 || chunk < kChunks) {
          const int row = chunk / kRowChunks, at = chunk % kRowChunks * Traits::kVector;
          const int64_t offset = table_->offset[row];
          const bool valid = offset >= 0 && k0 + at < depth_;
          cp_async_16(tile + row * Traits::kLdA + at, valid ? a_ + offset + k0 + at : a_, valid);
        }
      }
      return;
    }
    const int at = OwnWords::column();
    int32_t column[Traits::kWord];
#pragma unroll
    for (int j = 0; j < Traits::kWord; ++j) {
      const int32_t k = k0 + at + j;
      column[j] = k < depth_ ? (columns_ ? __ldg(columns_ + k) : k) : -1;
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int row = OwnWords::row(i);
      const int64_t offset = table_->offset[row];
      if constexpr (sizeof(T) == 4) {
        const bool valid = offset >= 0 && column[0] >= 0;
        cp_async_4(tile + row * Traits::kLdA + at, valid ? a_ + offset + column[0] : a_, valid);
      } else {
        T pair[2] = {};
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (offset >= 0 && column[j] >= 0) {
            pair[j] = a_[offset + column[j]];
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
  static constexpr int kRowChunks = Traits::kK / Traits::kVector;
  static constexpr int kChunks = Traits::kM * kRowChunks;
  using OwnWords = TileWords<Traits, Traits::kM, Traits::kK, Traits::kLdA>;
  static constexpr int kWords = OwnWords::kCount;

  const T* a_;
  const Table* table_;
  const int32_t* columns_;
  int32_t depth_;
  bool vector_;
  uint32_t words_[sizeof(T) == 2 ? kWords : 1];
};

// A times noise that is made on the way, in registers.
template <class Traits>
class NoisyA {
 public:
  using T = typename Traits::Number;
  using Table = RowTable<Traits, true>;

  __device__ __forceinline__ NoisyA(const GemmParams<T>& p, const Table* table, const int32_t*,
                                    int32_t depth)
      : p_(p), table_(table), depth_(depth) {}

  __device__ __forceinline__ void begin(T*, int32_t k0) {
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      chunks_[i].clear();
      const int chunk = int(threadIdx.x) + i * Traits::kThreads;
      if (kChunks % Traits::kThreads != 0 && chunk >= kChunks) {
        continue;
      }
      const int64_t offset = table_->offset[chunk / kRowChunks];
      const int32_t k = k0 + chunk % kRowChunks * Traits::kVector;
      if (offset < 0 || k >= depth_) {
        continue;
      }
      const T* from = p_.a + offset + k;
      if (p_.a_vector) {
        chunks_[i].bits = *reinterpret_cast<const uint4*>(from);
      } else {
#pragma unroll
        for (int j = 0; j < Traits::kVector; ++j) {
          if (k + j < depth_) {
            chunks_[i].set(j, from[j]);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void finish(T* tile, int32_t k0) {
// One chunk at a time, for noise takes many registers.
#pragma unroll 1
    for (int i = 0; i < kTurns; ++i) {
      const int index = int(threadIdx.x) + i * Traits::kThreads;
      if (kChunks % Traits::kThreads != 0 && index >= kChunks) {
        continue;
      }
      Chunk<T> chunk = chunks_[0];
#pragma unroll
      for (int other = 1; other < kTurns; ++other) {
        if (other == i) {
          chunk = chunks_[other];
        }
      }
      const int row = index / kRowChunks, at = index % kRowChunks * Traits::kVector;
      if (table_->offset[row] >= 0 && k0 + at < depth_) {
        add_noise(&chunk, row, k0 + at);
      }
      *reinterpret_cast<uint4*>(tile + row * Traits::kLdA + at) = chunk.bits;
    }
  }

 private:
  static constexpr int kRowChunks = Traits::kK / Traits::kVector;
  static constexpr int kChunks = Traits::kM * kRowChunks;
  static constexpr int kTurns = (kChunks + Traits::kThreads - 1) / Traits::kThreads;

  __device__ __forceinline__ void add_noise(Chunk<T>* chunk, int row, int32_t k) {
    const VectorWords words{table_->low[row], table_->high[row], table_->orders_low[row],
                            table_->place[row]};
#pragma unroll
    for (int j = 0; j < Traits::kVector; j += kWordsPerCounter) {
      const Words four = words.four(p_.noise.seed, k + j, p_.noise.balanced);
      if (p_.noise.noise == Noise::kBernoulli) {
#pragma unroll
        for (int i = 0; i < kWordsPerCounter; ++i) {
          chunk->select(j + i, four.word[i] >= p_.noise.threshold);
        }
      } else {
#pragma unroll
        for (int i = 0; i < kWordsPerCounter; ++i) {
          const float factor = fmaf(p_.noise.deviation, normal_draw(four.word[i]), 1.f);
          chunk->set(j + i, from_float<T>(chunk->get(j + i) * factor));
        }
      }
    }
  }

  const GemmParams<T>& p_;
  const Table* table_;
  int32_t depth_;
  Chunk<T> chunks_[kTurns] = {};
};

}  // namespace kbd

#endif  // KBD_CUDA_STAGE_A_CUH_
