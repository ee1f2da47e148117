// SPDX-License-Identifier: Apache-2.0
//
// What the loaded library is: one line of text that `keras_bayesdrop.info` shows.
#include "absl/strings/str_cat.h"
#include "cpu/chain.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/tstring.h"

namespace kbd {
namespace {

REGISTER_OP("KerasBayesdrop>Build")  // Python: keras_bayesdrop_build
    .Output("description: string")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Describes the library: `isa=<name>;isa_problem=<text>`.

description: The instruction set in use, and why it is not the one that the environment variable
  KBD_ISA names (empty if it is, or if KBD_ISA is unset).
)doc");

class BuildOp : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const char* problem = isa_problem();
    tensorflow::Tensor* description = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({}), &description));
    description->scalar<tensorflow::tstring>()() =
        absl::StrCat("isa=", isa_name(), ";isa_problem=", problem == nullptr ? "" : problem);
  }
};

REGISTER_KERNEL_BUILDER(Name("KerasBayesdrop>Build").Device(tensorflow::DEVICE_CPU), BuildOp);

}  // namespace
}  // namespace kbd
