// SPDX-License-Identifier: Apache-2.0
//
// `KerasBayesdrop>DropoutChain` on the CPU: TensorFlow's thread pool around kbd_core.
#include "absl/status/status.h"
#include "cpu/chain.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/chain_call.h"
#include "tf/threads.h"

namespace kbd {
namespace {

template <class T>
class DropoutChainCpu : public ChainKernel<T> {
  using ChainKernel<T>::ChainKernel;

  absl::Status run(tensorflow::OpKernelContext* ctx, const Chain<T>& chain) override {
    if (run_chain(chain, threads_of(ctx))) {
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
