// SPDX-License-Identifier: Apache-2.0
//
// TensorFlow's thread pool, as kbd_core uses it.
#ifndef KBD_TF_THREADS_H_
#define KBD_TF_THREADS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "kbd/chain.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"

namespace kbd {

// Splits the work in blocks that are large enough to be worth handing to a thread (about 10 us),
// and small enough that threads finish together.
inline void share(tensorflow::thread::ThreadPool& pool, int64_t total, int64_t cost,
                  const std::function<void(int64_t, int64_t)>& task) {
  using ThreadPool = tensorflow::thread::ThreadPool;
  constexpr int64_t kBlockCost = 500 * 1000;
  constexpr int64_t kBlocksPerThread = 16;
  const int64_t unit = std::max<int64_t>(cost, 1);
  const int64_t threads = pool.NumThreads();
  if (threads < 2 || total <= kBlockCost / unit) {
    task(0, total);
    return;
  }
  const int64_t worth = (kBlockCost + unit - 1) / unit;
  const int64_t even = std::max<int64_t>(total / (threads * kBlocksPerThread), 1);
  // TensorFlow 2.21 would have this called by its new name, which 2.18 does not know.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const ThreadPool::SchedulingParams blocks(ThreadPool::SchedulingStrategy::kFixedBlockSize,
                                            std::nullopt, std::max(worth, even));
#pragma GCC diagnostic pop
  pool.ParallelFor(total, blocks, task);
}

// The threads of the device that runs an op.
inline ParallelFor threads_of(tensorflow::OpKernelContext* ctx) {
  tensorflow::thread::ThreadPool* pool = ctx->device()->tensorflow_cpu_worker_threads()->workers;
  return {[pool](int64_t total, int64_t cost, const ParallelFor::Task& task) {
            share(*pool, total, cost, task);
          },
          pool->NumThreads()};
}

}  // namespace kbd

#endif  // KBD_TF_THREADS_H_
