// SPDX-License-Identifier: Apache-2.0
//
// Lists the kept units of every (site, sample): x is the sample, y the site. Each thread draws the
// four words of a counter; ballots and a sum over the warps before tell it where its units go, so
// the list is in order, without atomics.
#ifndef KBD_CUDA_COMPACT_CUH_
#define KBD_CUDA_COMPACT_CUH_

#include "cuda/counters.cuh"
#include "cuda/params.h"
#include "cuda/platform.h"

namespace kbd {

constexpr int kCompactThreads = 256;
constexpr int kCompactWarps = kCompactThreads / 32;
// Totals of the warps, in two sets that take turns, so that one barrier a turn is enough.
constexpr size_t kCompactSharedBytes = 2 * kCompactWarps * sizeof(int32_t);

__global__ void __launch_bounds__(kCompactThreads)
    compact_kernel(const __grid_constant__ CompactParams p) {
  const int64_t sample = blockIdx.x;
  const CompactParams::Site& site = p.sites[blockIdx.y];
  const VectorWords vector =
      words_from(p.seed, site.site, p.first_sample + uint64_t(sample), 0, site.units, 0);
  int32_t* list = site.kept.index + sample * site.kept.stride;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const uint32_t lanes_before = (1u << lane) - 1;
  int32_t* totals = dynamic_shared<int32_t>();
  int32_t count = 0;  // kept so far, the same in all threads
  for (int32_t first = 0; first < site.units; first += kCompactThreads * kWordsPerCounter) {
    const int32_t unit = first + int32_t(threadIdx.x) * kWordsPerCounter;
    const Words words = vector.four(p.seed, unit, p.balanced);
    int before = 0, total = 0;
    bool keep[kWordsPerCounter];
    for (int i = 0; i < kWordsPerCounter; ++i) {
      keep[i] = unit + i < site.units && words.word[i] >= site.threshold;
      const uint32_t kept = __ballot_sync(0xffffffffu, keep[i]);
      before += __popc(kept & lanes_before);
      total += __popc(kept);
    }
    if (lane == 0) {
      totals[warp] = total;
    }
    __syncthreads();
    int32_t at = count + before;
    for (int w = 0; w < kCompactWarps; ++w) {
      at += w < warp ? totals[w] : 0;
      count += totals[w];
    }
    for (int i = 0; i < kWordsPerCounter; ++i) {
      if (keep[i]) {
        list[at++] = unit + i;
      }
    }
    totals = dynamic_shared<int32_t>() + (totals == dynamic_shared<int32_t>() ? kCompactWarps : 0);
  }
  if (threadIdx.x == 0) {
    site.kept.count[sample] = count;
  }
}

}  // namespace kbd

#endif  // KBD_CUDA_COMPACT_CUH_
