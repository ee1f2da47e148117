// SPDX-License-Identifier: Apache-2.0
//
// `KerasBayesdrop>ChainPlan`: how a call of `KerasBayesdrop>DropoutChain` would be run on the CPU,
// by the very function that its kernel asks.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cpu/plan.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/platform/tstring.h"
#include "tf/chain_call.h"

namespace kbd {
namespace {

constexpr int kNumCounts = 4;
constexpr int kNumWork = 2;

REGISTER_OP("KerasBayesdrop>ChainPlan")  // Python: keras_bayesdrop_chain_plan
    .Input("sizes: int64")
    .Input("thresholds: uint32")
    .Input("call: int64")
    .Output("strategy: string")
    .Output("subtracts: bool")
    .Output("work: double")
    .Output("counts: int64")
    .Attr("T: {float, double}")
    .Attr("L: int >= 1")
    .Attr("M: int = 0")
    .Attr("K: int >= 0")
    .Attr("has_bias: list(bool) >= 1")
    .Attr("noise: list({'none', 'bernoulli', 'gaussian', 'table'}) >= 1")
    .Attr("per_entry: list(bool) >= 1")
    .Attr(
        "activations: list({'linear', 'relu', 'sigmoid', 'tanh', 'softmax', 'elu', 'selu', "
        "'gelu', 'silu', 'softplus', 'leaky_relu'}) >= 1")
    .Attr("masks: {'shared', 'independent'}")
    .Attr("draws: {'balanced', 'independent'} = 'independent'")
    .Attr("x_per_sample: bool = false")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      c->set_output(1, c->Scalar());
      c->set_output(2, c->Vector(kNumWork));
      c->set_output(3, c->Vector(kNumCounts));
      return absl::OkStatus();
    })
    .Doc(R"doc(
Says how a call of DropoutChain would be run on the CPU.

sizes: [L + 1], the width of the input and of each step's output.
thresholds: [L], as for DropoutChain.
call: Rows, entries, samples, and threads (0: those of this machine).
strategy: 'cut', 'masked' or 'columns'; 'nothing' if there is nothing to do.
subtracts: Whether the first step subtracts what is dropped from a product made once.
work: Multiply-adds that the noise leaves, on average; and those of the whole network.
counts: Tasks, bytes of scratch of a task, bytes that all tasks share, threads.
T: Type of the numbers of the chain.
L: How many steps.
M: How many biases: none are needed.
K: How many steps have a table.
has_bias: Per step, false.
noise: As for DropoutChain, like the rest.
)doc");

const char* name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::kCut:
      return "cut";
    case Strategy::kColumns:
      return "columns";
    case Strategy::kMasked:
    case Strategy::kAuto:
      break;
  }
  return "masked";
}

template <class T>
class ChainPlanOp : public tensorflow::OpKernel {
 public:
  explicit ChainPlanOp(tensorflow::OpKernelConstruction* ctx) : tensorflow::OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, settings_.read(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const int64_t steps = settings_.num_steps();
    constexpr int64_t kCallSize = 4;
    const int64_t wanted[] = {steps + 1, steps, kCallSize};
    for (int i = 0; i < 3; ++i) {
      OP_REQUIRES(ctx, ctx->input(i).dims() == 1 && ctx->input(i).dim_size(0) == wanted[i],
                  refuse("input ", i, " of ChainPlan has the wrong shape. Expected [", wanted[i],
                         "]. Received: ", ctx->input(i).shape().DebugString()));
    }
    const int64_t* sizes = data_of<const int64_t>(ctx->input(0));
    const uint32_t* thresholds = data_of<const uint32_t>(ctx->input(1));
    const int64_t* call = data_of<const int64_t>(ctx->input(2));
    for (int64_t i = 0; i < steps + 1 + kCallSize; ++i) {
      const int64_t size = i <= steps ? sizes[i] : call[i - steps - 1];
      OP_REQUIRES(
          ctx, 0 <= size && size <= std::numeric_limits<int32_t>::max(),
          refuse("a size of ChainPlan is out of range. Expected 0 to 2^31 - 1. Received: ", size));
    }
    std::vector<Step<T>> plain(static_cast<size_t>(steps));
    for (size_t l = 0; l < plain.size(); ++l) {
      plain[l].in = sizes[l];
      plain[l].out = sizes[l + 1];
      plain[l].activation = settings_.activations[l];
      plain[l].noise = settings_.noise[l];
      plain[l].threshold = thresholds[l];
      plain[l].per_entry = settings_.per_entry[l];
    }
    Chain<T> chain{};
    chain.x_per_sample = settings_.x_per_sample;
    chain.rows = call[0];
    chain.entries = call[1];
    chain.num_samples = call[2];
    chain.shared = settings_.shared;
    chain.steps = plain.data();
    chain.num_steps = int(steps);
    const int64_t threads =
        call[3] > 0 ? call[3]
                    : ctx->device()->tensorflow_cpu_worker_threads()->workers->NumThreads();
    write(ctx, is_empty(chain) ? "nothing" : nullptr, plan_chain(chain, threads), threads);
  }

 private:
  static void write(tensorflow::OpKernelContext* ctx, const char* name, const ChainPlan& plan,
                    int64_t threads) {
    tensorflow::Tensor *strategy, *subtracts, *work, *counts;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &strategy));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, {}, &subtracts));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, {kNumWork}, &work));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(3, {kNumCounts}, &counts));
    strategy->scalar<tensorflow::tstring>()() = name ? name : name_of(plan.strategy);
    subtracts->scalar<bool>()() = plan.subtracts;
    const double multiply_adds[kNumWork] = {plan.multiply_adds, plan.whole_multiply_adds};
    const int64_t numbers[kNumCounts] = {plan.tasks, plan.task_bytes, plan.call_bytes, threads};
    std::copy_n(multiply_adds, kNumWork, data_of<double>(*work));
    std::copy_n(numbers, kNumCounts, data_of<int64_t>(*counts));
  }

  ChainSettings settings_;
};

REGISTER_KERNEL_BUILDER(
    Name("KerasBayesdrop>ChainPlan").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
    ChainPlanOp<float>);
REGISTER_KERNEL_BUILDER(
    Name("KerasBayesdrop>ChainPlan").Device(tensorflow::DEVICE_CPU).TypeConstraint<double>("T"),
    ChainPlanOp<double>);

}  // namespace
}  // namespace kbd
