// SPDX-License-Identifier: Apache-2.0
//
// What a launch is made of, and how it is handed to the scheduler.
#ifndef KBD_CUDA_ON_CPU_SCHEDULE_H_
#define KBD_CUDA_ON_CPU_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "block.h"

namespace cuda_on_cpu {

struct Launch {
  dim3 grid;
  dim3 block;
  void (*invoke)(const void*);
  const void* closure;
};

// Runs one block; whether all of its threads came to their end. Warps and lanes take turns in an
// order drawn from `seed`, or in their own if that is 0.
bool run_block(Block& block, const Launch& launch, uint3 index, uint64_t seed);

void shuffle_order(std::vector<uint32_t>& order, uint64_t seed);

}  // namespace cuda_on_cpu

#endif  // KBD_CUDA_ON_CPU_SCHEDULE_H_
