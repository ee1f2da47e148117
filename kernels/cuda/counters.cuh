// SPDX-License-Identifier: Apache-2.0
//
// From counters to noise, four units at a time.
#ifndef KBD_CUDA_COUNTERS_CUH_
#define KBD_CUDA_COUNTERS_CUH_

#include <cstdint>

#include "cuda/params.h"
#include "cuda/platform.h"
#include "kbd/balanced.h"

namespace kbd {

// Four neighbouring ones of eight numbers, from `first` on. Written so that nothing is indexed by a
// number that is known only when the kernel runs: that would take memory in place of registers.
__device__ __forceinline__ Words four_of(const Words& here, const Words& next, int32_t first) {
  Words four;
  four.word[0] = first == 0   ? here.word[0]
                 : first == 1 ? here.word[1]
                 : first == 2 ? here.word[2]
                              : here.word[3];
  four.word[1] = first == 0   ? here.word[1]
                 : first == 1 ? here.word[2]
                 : first == 2 ? here.word[3]
                              : next.word[0];
  four.word[2] = first == 0   ? here.word[2]
                 : first == 1 ? here.word[3]
                 : first == 2 ? next.word[0]
                              : next.word[1];
  four.word[3] = first == 0   ? here.word[3]
                 : first == 1 ? next.word[0]
                 : first == 2 ? next.word[1]
                              : next.word[2];
  return four;
}

// The words of one vector: those of a stream from some unit on, which need not begin a counter.
struct VectorWords {
  uint64_t low;
  uint64_t high;
  uint64_t orders_low;  // of the counters of balanced words
  int32_t place;        // number of the first unit among those of a counter of orders, 0 to 7;
                        // and, times 8, that of the sample in its block

  // Words of the vector's units [unit, unit + 4); `unit` is a multiple of 4.
  __device__ __forceinline__ Words four(uint64_t key, int32_t unit, bool balanced) const {
    const int32_t skipped = place % kWordsPerCounter;
    const uint64_t at = low + uint64_t(unit / kWordsPerCounter);
    Words words = philox(key, at, high);
    if (skipped != 0) {
      words = four_of(words, philox(key, at + 1, high), skipped);
    }
    if (balanced) {
      put_into_strata(key, unit, &words);
    }
    return words;
  }

 private:
  __device__ __forceinline__ void put_into_strata(uint64_t key, int32_t unit, Words* words) const {
    const int32_t offset = place % kHalvesPerCounter + unit;
    const int32_t number = offset % kHalvesPerCounter;  // of the first of the four
    const uint64_t at = orders_low + uint64_t(offset / kHalvesPerCounter);
    const uint64_t orders_high = high + (uint64_t(kOrderSites) << 32);
    const Words here = philox(key, at, orders_high);
    Words next{};
    if (number > kHalvesPerCounter - kWordsPerCounter) {
      next = philox(key, at + 1, orders_high);
    }
    const Words pairs = four_of(here, next, number / 2);
    const uint32_t a = pairs.word[0], b = pairs.word[1], c = pairs.word[2];
    const bool odd = number % 2 != 0;
    const uint32_t halves[kWordsPerCounter] = {
        odd ? a >> 16 : a & 0xFFFFu, odd ? b & 0xFFFFu : a >> 16, odd ? b >> 16 : b & 0xFFFFu,
        odd ? c & 0xFFFFu : b >> 16};
    const uint32_t sample = uint32_t(place) / kHalvesPerCounter;
#pragma unroll
    for (int i = 0; i < kWordsPerCounter; ++i) {
      words->word[i] = with_stratum(words->word[i], stratum_of(halves[i], sample));
    }
  }
};

// The words of unit `first` of a row on.
__device__ __forceinline__ VectorWords words_from(uint64_t seed, uint32_t site, uint64_t sample,
                                                  uint64_t row, int64_t units, int64_t first) {
  const Stream stream = stream_of(seed, site, sample, row, units);
  const Stream orders = orders_of(seed, site, sample, row, units);
  return {
      stream.low + uint64_t(first / kWordsPerCounter), stream.high,
      orders.low + uint64_t(first / kHalvesPerCounter),
      int32_t(first % kHalvesPerCounter + int64_t(sample % kSamplesPerBlock) * kHalvesPerCounter)};
}

// The words of vector `vector` of the block's sample `sample`.
__device__ __forceinline__ VectorWords words_of(const NoiseParams& p, int64_t sample,
                                                int64_t vector) {
  const int64_t row = p.entries == 1 ? vector : vector / p.entries;
  const int64_t first = p.per_entry ? (vector - row * p.entries) * p.in : 0;
  return words_from(p.seed, p.site, p.first_sample + uint64_t(sample),
                    p.shared ? 0 : p.first_row + uint64_t(row), p.units, first);
}

// The normal quantile of (word + 0.5) * 2^-32 to about 1e-7 of it (Wichura, 1988, AS 241, PPND7;
// the third of its functions, for probabilities below 1.4e-11, is not needed).
__device__ __forceinline__ float normal_draw(uint32_t word) {
  // From one half on: exact for small differences, where the quantile is small too.
  const float q = (float(int32_t(word ^ 0x80000000u)) + 0.5f) * 0x1p-32f;
  if (fabsf(q) <= 0.425f) {
    const float r = fmaf(-q, q, 0.180625f);
    const float top =
        fmaf(fmaf(fmaf(59.109374720f, r, 159.29113202f), r, 50.434271938f), r, 3.3871327179f);
    const float bottom =
        fmaf(fmaf(fmaf(67.187563600f, r, 78.757757664f), r, 17.895169469f), r, 1.f);
    return q * top / bottom;
  }
  const float tail = (float(word >= 0x80000000u ? ~word : word) + 0.5f) * 0x1p-32f;
  const float r = sqrtf(-logf(tail)) - 1.6f;
  const float top =
      fmaf(fmaf(fmaf(0.17023821103f, r, 1.3067284816f), r, 2.7568153900f), r, 1.4234372777f);
  const float bottom = fmaf(fmaf(0.12021132975f, r, 0.73700164250f), r, 1.f);
  return copysignf(top / bottom, q);
}

}  // namespace kbd

#endif  // KBD_CUDA_COUNTERS_CUH_
