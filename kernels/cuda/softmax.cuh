// SPDX-License-Identifier: Apache-2.0
//
// Softmax of rows, a warp each. Lanes take every 32nd column, and a tree adds up the lanes: the
// order is the same whatever else is in the launch.
#ifndef KBD_CUDA_SOFTMAX_CUH_
#define KBD_CUDA_SOFTMAX_CUH_

#include "cuda/number.cuh"
#include "cuda/params.h"
#include "cuda/platform.h"

namespace kbd {

constexpr int kSoftmaxThreads = 128;
constexpr int kSoftmaxRows = kSoftmaxThreads / 32;

template <class T>
__global__ void __launch_bounds__(kSoftmaxThreads)
    softmax_kernel(const __grid_constant__ SoftmaxParams<T> p) {
  const int lane = int(threadIdx.x) % 32;
  const int64_t row = int64_t(blockIdx.x) * kSoftmaxRows + int(threadIdx.x) / 32;
  if (row >= p.rows) {
    return;
  }
  const float* from = p.from + row * p.stride;
  T* to = p.to + row * p.stride;
  float largest = -INFINITY;
  for (int32_t n = lane; n < p.columns; n += 32) {
    largest = fmaxf(largest, from[n]);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
  }
  float sum = 0;
  for (int32_t n = lane; n < p.columns; n += 32) {
    sum += expf(from[n] - largest);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  }
  for (int32_t n = lane; n < p.columns; n += 32) {
    to[n] = from_float<T>(expf(from[n] - largest) / sum);
  }
  for (int32_t n = p.columns + lane; n < p.padded; n += 32) {
    to[n] = from_float<T>(0.f);
  }
}

}  // namespace kbd

#endif  // KBD_CUDA_SOFTMAX_CUH_
