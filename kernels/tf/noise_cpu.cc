// SPDX-License-Identifier: Apache-2.0
//
// `KerasBayesdrop>Noise` on the CPU: every shape checked, then kbd_core.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cpu/perturb.h"
#include "kbd/balanced.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tf/threads.h"

namespace kbd {
namespace {

// Refuses a call in three beats: what is wrong, what was expected, what was received.
template <class... Args>
absl::Status refuse_noise(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("Noise: ", args...));
}

template <class T>
class NoiseCpu : public tensorflow::OpKernel {
 public:
  explicit NoiseCpu(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, read_attributes(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    Perturbation<T> p = settings_;
    tensorflow::TensorShape shape;
    OP_REQUIRES_OK(ctx, read_inputs(ctx, &p, &shape));
    tensorflow::Tensor* y = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &y));
    p.out = y->flat<T>().data();
    run_perturbation(p, threads_of(ctx));
  }

 private:
  absl::Status read_attributes(tensorflow::OpKernelConstruction* ctx) {
    static const char* const kEffects[] = {"mask",  "gaussian", "added_gaussian",
                                           "alpha", "uniform",  "log_normal"};
    static_assert(sizeof(kEffects) / sizeof(kEffects[0]) == kNumEffects, "a name each");
    int64_t site;
    std::string effect, masks, draws;
    std::vector<bool> varies;
    TF_RETURN_IF_ERROR(ctx->GetAttr("site", &site));
    TF_RETURN_IF_ERROR(ctx->GetAttr("effect", &effect));
    TF_RETURN_IF_ERROR(ctx->GetAttr("masks", &masks));
    TF_RETURN_IF_ERROR(ctx->GetAttr("draws", &draws));
    TF_RETURN_IF_ERROR(ctx->GetAttr("varies", &varies));
    TF_RETURN_IF_ERROR(ctx->GetAttr("x_per_sample", &settings_.x_per_sample));
    if (site < 0 || site >= int64_t(kOrderSites)) {
      return refuse_noise("attribute `site` is out of range. Expected 0 to ", kOrderSites - 1,
                          ". Received: ", site);
    }
    if (varies.size() > size_t(kMostDims)) {
      return refuse_noise("attribute `varies` is too long. Expected at most ", kMostDims,
                          " axes. Received: ", varies.size());
    }
    int number = 0;
    while (effect != kEffects[number]) {
      ++number;  // TensorFlow has checked the name.
    }
    settings_.effect = Effect(number);
    settings_.site = uint32_t(site);
    settings_.shared = masks == "shared";
    settings_.balanced = draws == "balanced";
    settings_.num_dims = int(varies.size());
    for (size_t d = 0; d < varies.size(); ++d) {
      settings_.varies[d] = varies[d];
    }
    return absl::OkStatus();
  }

  absl::Status read_inputs(tensorflow::OpKernelContext* ctx, Perturbation<T>* p,
                           tensorflow::TensorShape* shape) const {
    const tensorflow::Tensor& x = ctx->input(0);
    for (int input : {1, 2, 4, 5, 6}) {
      if (ctx->input(input).dims() != 0) {
        return refuse_noise("input ", input, " has the wrong shape. Expected a scalar. Received: ",
                            ctx->input(input).shape().DebugString());
      }
    }
    if (ctx->input(3).dims() != 1 || ctx->input(3).dim_size(0) != 3) {
      return refuse_noise("`parameters` has the wrong shape. Expected [3]. Received: ",
                          ctx->input(3).shape().DebugString());
    }
    const int lead = p->x_per_sample ? 2 : 1;
    if (x.dims() != lead + p->num_dims) {
      return refuse_noise("`x` has the wrong rank. Expected ", lead + p->num_dims,
                          " axes. Received: ", x.shape().DebugString());
    }
    const auto parameters = ctx->input(3).flat<double>();
    p->seed = ctx->input(1).scalar<uint64_t>()();
    p->threshold = ctx->input(2).scalar<uint32_t>()();
    p->a = parameters(0);
    p->b = parameters(1);
    p->c = parameters(2);
    p->first_sample = ctx->input(4).scalar<int64_t>()();
    p->num_samples = ctx->input(5).scalar<int64_t>()();
    p->first_row = ctx->input(6).scalar<int64_t>()();
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 64;
    for (const auto& [name, value] :
         {std::pair<const char*, int64_t>{"first_sample", p->first_sample},
          {"num_samples", p->num_samples},
          {"first_row", p->first_row}}) {
      if (value < 0 || value > kMost) {
        return refuse_noise("`", name, "` is out of range. Expected 0 to ", kMost,
                            ". Received: ", value);
      }
    }
    if (p->x_per_sample && x.dim_size(1) != p->num_samples) {
      return refuse_noise("`x` has the wrong number of samples. Expected ", p->num_samples,
                          ". Received: ", x.shape().DebugString());
    }
    p->x = x.flat<T>().data();
    p->rows = x.dim_size(0);
    TF_RETURN_IF_ERROR(shape->AddDimWithStatus(p->rows));
    TF_RETURN_IF_ERROR(shape->AddDimWithStatus(p->num_samples));
    for (int d = 0; d < p->num_dims; ++d) {
      p->dims[d] = x.dim_size(lead + d);
      TF_RETURN_IF_ERROR(shape->AddDimWithStatus(p->dims[d]));
    }
    return absl::OkStatus();
  }

  Perturbation<T> settings_{};
};

REGISTER_KERNEL_BUILDER(
    Name("KerasBayesdrop>Noise").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
    NoiseCpu<float>);
REGISTER_KERNEL_BUILDER(
    Name("KerasBayesdrop>Noise").Device(tensorflow::DEVICE_CPU).TypeConstraint<double>("T"),
    NoiseCpu<double>);

}  // namespace
}  // namespace kbd
