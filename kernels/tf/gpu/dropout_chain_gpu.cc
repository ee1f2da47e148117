// SPDX-License-Identifier: Apache-2.0
//
// `KerasBayesdrop>DropoutChain` on a GPU: TensorFlow's stream and memory around kernels/cuda.
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cuda/chain.h"
#include "cuda/device.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/tensor_float_32_utils.h"
#include "tf/chain_call.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace kbd {
namespace {

absl::Status failure(int code) {
  return absl::InternalError(
      absl::StrCat("DropoutChain failed on the GPU. Expected its kernels to start. Received: ",
                   gpu_error(code)));
}

template <class T>
class DropoutChainGpu : public tensorflow::OpKernel {
 public:
  explicit DropoutChainGpu(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, settings_.read(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ChainCall<T> call;
    OP_REQUIRES_OK(ctx, call.read(ctx, settings_));
    tensorflow::Tensor* y = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, call.output_shape, &y));
    if (y->NumElements() == 0) {
      return;
    }
    Chain<T> chain = call.chain();
    chain.out = data_of<T>(*y);
    auto* stream = ctx->op_device_context()->stream();
    GpuOptions options;
    options.allow_tf32 = tensorflow::tensor_float_32_execution_enabled();
    const int code = use_device(stream->parent()->device_ordinal(), &options);
    OP_REQUIRES(ctx, code == 0, failure(code));
    const int64_t bytes = int64_t(workspace_bytes(chain, options));
    tensorflow::Tensor workspace;
    OP_REQUIRES_OK(ctx, ctx->allocate_temp(tensorflow::DT_UINT8, {bytes}, &workspace));
    const int started = run_chain_gpu(chain, options, workspace.data(), size_t(bytes),
                                      stream->platform_specific_handle().stream);
    OP_REQUIRES(ctx, started == 0, failure(started));
  }

 private:
  ChainSettings settings_;
};

// The counters and settings are read by the host.
#define KBD_REGISTER(tf_type, type)                           \
  REGISTER_KERNEL_BUILDER(Name("KerasBayesdrop>DropoutChain") \
                              .Device(tensorflow::DEVICE_GPU) \
                              .TypeConstraint<tf_type>("T")   \
                              .HostMemory("seed")             \
                              .HostMemory("thresholds")       \
                              .HostMemory("scales")           \
                              .HostMemory("sites")            \
                              .HostMemory("first_sample")     \
                              .HostMemory("num_samples")      \
                              .HostMemory("first_row"),       \
                          DropoutChainGpu<type>)

KBD_REGISTER(float, float);
KBD_REGISTER(Eigen::half, Half);
KBD_REGISTER(Eigen::bfloat16, Bfloat16);

#undef KBD_REGISTER

}  // namespace
}  // namespace kbd
