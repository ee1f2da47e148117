// SPDX-License-Identifier: Apache-2.0
//
// From counters to noise, four units at a time.
#ifndef KBD_CUDA_COUNTERS_CUH_
#define KBD_CUDA_COUNTERS_CUH_

#include <cstdint>

#include "cuda/params.h"
#include "cuda/platform.h"
#include "kbd/philox.h"

namespace kbd {

// The words of one vector: those of a stream from some unit on, which need not begin a counter.
struct VectorWords {
  uint64_t low;
  uint64_t high;
  int32_t skipped;  // words of the first counter that belong to other entries, 0 to 3

  // Words of the vector's units [unit, unit + 4); `unit` is a multiple of 4.
  __device__ __forceinline__ Words four(uint64_t key, int32_t unit) const {
    const uint64_t at = low + uint64_t(unit / kWordsPerCounter);
    const Words here = philox(key, at, high);
    if (skipped == 0) {
      return here;
    }
    const Words next = philox(key, at + 1, high);
    Words both;
    both.word[0] = skipped == 1 ? here.word[1] : skipped == 2 ? here.word[2] : here.word[3];
    both.word[1] = skipped == 1 ? here.word[2] : skipped == 2 ? here.word[3] : next.word[0];
    both.word[2] = skipped == 1 ? here.word[3] : skipped == 2 ? next.word[0] : next.word[1];
    both.word[3] = skipped == 1 ? next.word[0] : skipped == 2 ? next.word[1] : next.word[2];
    return both;
  }
};

// The words of vector `vector` of the block's sample `sample`.
__device__ __forceinline__ VectorWords words_of(const NoiseParams& p, int64_t sample,
                                                int64_t vector) {
  const int64_t row = p.entries == 1 ? vector : vector / p.entries;
  const int64_t first = p.per_entry ? (vector - row * p.entries) * p.in : 0;
  const Stream stream = stream_of(p.seed, p.site, p.first_sample + uint64_t(sample),
                                  p.shared ? 0 : p.first_row + uint64_t(row), p.units);
  return {stream.low + uint64_t(first / kWordsPerCounter), stream.high,
          int32_t(first % kWordsPerCounter)};
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
