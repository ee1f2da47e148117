// SPDX-License-Identifier: Apache-2.0
//
// Policy: every compile-time choice of the matrix product, and nothing else.
//
// A block of threads computes kM x kN of the result, from tiles of A[kM, kK] and B[kK, kN] in
// shared memory. Its warps are kWarpsM x kWarpsN, each with a kWarpM x kWarpN piece. All tiles add
// up in the order of k, so the choice among them does not change a bit.
#ifndef KBD_CUDA_TRAITS_H_
#define KBD_CUDA_TRAITS_H_

#include <cstddef>
#include <cstdint>

#include "cuda/chain.h"

namespace kbd {

enum class Math {
  kFma,   // float32, by fused multiply-adds
  kTf32,  // float32 rounded to TF32, by tensor cores
  kMma,   // 16-bit numbers, by tensor cores
};

template <class T, Math kMath_, int kM_, int kN_, int kWarpsM_, int kWarpsN_, int kStages_>
struct Traits {
  using Number = T;
  static constexpr Math kMath = kMath_;
  static constexpr int kM = kM_;
  static constexpr int kN = kN_;
  static constexpr int kK = 64 / int(sizeof(T));  // a row of A's tile is 64 bytes
  static constexpr int kWarpsM = kWarpsM_;
  static constexpr int kWarpsN = kWarpsN_;
  static constexpr int kStages = kStages_;  // tiles in flight, and the one that is multiplied

  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  // Of a multiprocessor: at least 16 warps are to fit, that is, a thread has up to 128 registers.
  static constexpr int kBlocks = 512 / kThreads;
  static constexpr int kWarpM = kM / kWarpsM;
  static constexpr int kWarpN = kN / kWarpsN;
  static constexpr int kVector = 16 / int(sizeof(T));  // numbers of a 16-byte copy
  static constexpr int kWord = 4 / int(sizeof(T));     // numbers of a 4-byte copy

  // From row to row of a tile. A: 20 words, so that eight rows of 16 bytes are in different banks.
  // B: 8 words (TF32) or 4 (16 bits) modulo 32, for the same reason.
  static constexpr int kLdA = kK + kVector;
  static constexpr int kLdB = kN + 8;
  static constexpr int kTileA = kM * kLdA;
  static constexpr int kTileB = kK * kLdB;

  // The epilogue takes the accumulators a slab of rows at a time, each warp its own.
  static constexpr int kSlabRows = kMath == Math::kFma ? 4 : 16;
  static constexpr int kSlabs = kWarpM / kSlabRows;
  static constexpr int kLdSlab = kWarpN + 8;
  static constexpr int kSlabSize = kSlabRows * kLdSlab;

  static constexpr size_t kTileBytes = sizeof(T) * kStages * (kTileA + kTileB);
  static constexpr size_t kSlabBytes = sizeof(float) * kSlabSize * kWarpsM * kWarpsN;
  static constexpr size_t kBufferBytes = kTileBytes > kSlabBytes ? kTileBytes : kSlabBytes;

  static_assert(kThreads % (kN / kWord) == 0, "a thread copies one word of B's columns");
  static_assert(kThreads % (kK / kWord) == 0, "a thread copies one word of A's columns");
  static_assert(kM * kK / kWord % kThreads == 0 && kK * kN / kVector % kThreads == 0,
                "whole turns");
  static_assert(kBufferBytes % 16 == 0 && kTileA * sizeof(T) % 16 == 0, "aligned tiles");
};

// Arithmetic, not measured: a tile of 128 x 128 x 64 bytes keeps the tensor cores of an A100's
// multiprocessor busy for 512 cycles, about the latency of its memory, so two more tiles are on
// their way. FMAs take eight times as long, and one suffices. A small tile is soon done: again two.
//
// Warps are 32 x 64 for FMA (8 x 8 a thread) and 64 x 32 for tensor cores in the largest tile, 32 x
// 32 and 16 x 32 in the others. Where noise is made, 64 sums a thread and Philox do not fit into
// 128 registers: half the rows then. Not half the columns, for each of them uses the same noise.
template <class T, Math kMath, GpuTile kTile, bool kNoisy>
struct TraitsOf;
template <class T, Math kMath>
struct TraitsOf<T, kMath, GpuTile::kLarge, false> {
  static constexpr bool kFma = kMath == Math::kFma;
  using type = Traits<T, kMath, 128, 128, kFma ? 4 : 2, kFma ? 2 : 4, kFma ? 2 : 3>;
};
template <class T, Math kMath>
struct TraitsOf<T, kMath, GpuTile::kLarge, true> {
  using type = Traits<T, kMath, 64, 128, 2, 4, kMath == Math::kFma ? 2 : 3>;
};
template <class T, Math kMath, bool kNoisy>
struct TraitsOf<T, kMath, GpuTile::kMedium, kNoisy> {
  using type = Traits<T, kMath, 64, 64, 2, 2, kMath == Math::kFma ? 2 : 3>;
};
template <class T, Math kMath, bool kNoisy>
struct TraitsOf<T, kMath, GpuTile::kSmall, kNoisy> {
  using type = Traits<T, kMath, 16, 128, 1, 4, 3>;
};

struct TileSize {
  int rows, columns;
};

template <GpuTile kTile>
TileSize tile_size(bool makes_noise) {
  // The same for every kind of number and arithmetic.
  using Quiet = typename TraitsOf<float, Math::kFma, kTile, false>::type;
  using Noisy = typename TraitsOf<float, Math::kFma, kTile, true>::type;
  return makes_noise ? TileSize{Noisy::kM, Noisy::kN} : TileSize{Quiet::kM, Quiet::kN};
}

}  // namespace kbd

#endif  // KBD_CUDA_TRAITS_H_
