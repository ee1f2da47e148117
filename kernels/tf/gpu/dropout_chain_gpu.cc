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

// What a code of the CUDA runtime says, 0 being success.
absl::Status status_of(int code) {
  if (code == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat("DropoutChain failed on the GPU. Expected its kernels to start. Received: ",
                   gpu_error(code)));
}

template <class T>
class DropoutChainGpu : public ChainKernel<T> {
  using ChainKernel<T>::ChainKernel;

  absl::Status run(tensorflow::OpKernelContext* ctx, const Chain<T>& chain) override {
    for (int l = 0; l < chain.num_steps; ++l) {
      if (chain.steps[l].table != nullptr) {
        return absl::UnimplementedError(
            "DropoutChain has no GPU kernel for masks of a table. Expected noise 'none', "
            "'bernoulli' or 'gaussian'. Received: 'table'");
      }
    }
    auto* stream = ctx->op_device_context()->stream();
    GpuOptions options;
    options.allow_tf32 = tensorflow::tensor_float_32_execution_enabled();
    TF_RETURN_IF_ERROR(status_of(use_device(stream->parent()->device_ordinal(), &options)));
    const int64_t bytes = int64_t(workspace_bytes(chain, options));
    tensorflow::Tensor workspace;
    TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_UINT8, {bytes}, &workspace));
    return status_of(run_chain_gpu(chain, options, workspace.data(), size_t(bytes),
                                   stream->platform_specific_handle().stream));
  }
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
                              .HostMemory("first_row")        \
                              .HostMemory("tables"),          \
                          DropoutChainGpu<type>)

KBD_REGISTER(float, float);
KBD_REGISTER(Eigen::half, Half);
KBD_REGISTER(Eigen::bfloat16, Bfloat16);

#undef KBD_REGISTER

}  // namespace
}  // namespace kbd
