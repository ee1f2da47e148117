// SPDX-License-Identifier: Apache-2.0
//
// `KerasBayesdrop>DropoutChain` on the CPU: TensorFlow's thread pool around kbd_core.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "cpu/chain.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tf/chain_call.h"

namespace kbd {
namespace {

using ThreadPool = tensorflow::thread::ThreadPool;

// Splits the work in blocks that are large enough to be worth handing to a thread (about 10 us),
// and small enough that threads finish together.
void share(ThreadPool& pool, int64_t total, int64_t cost,
           const std::function<void(int64_t, int64_t)>& task) {
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

template <class T>
class DropoutChainCpu : public ChainKernel<T> {
  using ChainKernel<T>::ChainKernel;

  absl::Status run(tensorflow::OpKernelContext* ctx, const Chain<T>& chain) override {
    ThreadPool* pool = ctx->device()->tensorflow_cpu_worker_threads()->workers;
    const ParallelFor parallel_for(
        [pool](int64_t total, int64_t cost, const ParallelFor::Task& task) {
          share(*pool, total, cost, task);
        },
        pool->NumThreads());
    if (run_chain(chain, parallel_for)) {
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        "DropoutChain is out of memory. Expected room for a tile of rows per thread. "
        "Received: a failed allocation; lower `batch_size`.");
  }
};

REGISTER_KERNEL_BUILDER(
    Name("KerasBayesdrop>DropoutChain").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
    DropoutChainCpu<float>);
REGISTER_KERNEL_BUILDER(
    Name("KerasBayesdrop>DropoutChain").Device(tensorflow::DEVICE_CPU).TypeConstraint<double>("T"),
    DropoutChainCpu<double>);

}  // namespace
}  // namespace kbd
