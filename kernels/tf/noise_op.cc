// SPDX-License-Identifier: Apache-2.0
//
// The interface of `KerasBayesdrop>Noise`: inputs, attributes, shapes.
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace kbd {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// `Compute` repeats all of this: eager calls skip it.
absl::Status infer_shape(InferenceContext* c) {
  bool x_per_sample;
  std::vector<bool> varies;
  TF_RETURN_IF_ERROR(c->GetAttr("x_per_sample", &x_per_sample));
  TF_RETURN_IF_ERROR(c->GetAttr("varies", &varies));
  ShapeHandle x, unused;
  const int lead = x_per_sample ? 2 : 1;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), lead + int(varies.size()), &x));
  for (int input : {1, 2, 4, 5, 6}) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(input), 0, &unused));
  }
  TF_RETURN_IF_ERROR(c->Merge(c->input(3), c->Vector(3), &unused));
  constexpr int kNumSamples = 5;
  DimensionHandle samples;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(kNumSamples, &samples));
  std::vector<DimensionHandle> dims{c->Dim(x, 0), samples};
  for (int axis = lead; axis < c->Rank(x); ++axis) {
    dims.push_back(c->Dim(x, axis));
  }
  c->set_output(0, c->MakeShape(dims));
  return absl::OkStatus();
}

REGISTER_OP("KerasBayesdrop>Noise")
    .Input("x: T")
    .Input("seed: uint64")
    .Input("threshold: uint32")
    .Input("parameters: double")
    .Input("first_sample: int64")
    .Input("num_samples: int64")
    .Input("first_row: int64")
    .Output("y: T")
    .Attr("T: {float, double}")
    .Attr("site: int >= 0")
    .Attr("varies: list(bool) >= 0")
    .Attr(
        "effect: {'mask', 'gaussian', 'added_gaussian', 'alpha', 'uniform', "
        "'log_normal'}")
    .Attr("masks: {'shared', 'independent'}")
    .Attr("draws: {'balanced', 'independent'}")
    .Attr("x_per_sample: bool = false")
    .SetShapeFn(infer_shape)
    .Doc(R"doc(
Puts the noise of one site on a tensor, for a block of samples.

Every random number is a function of (seed, site, sample, row, unit). With parameters (a, b, c), a
word w, u = (w + 0.5) * 2^-32 and z the normal quantile of u, a number x becomes

    mask            x * (a if w >= threshold, else 0)
    gaussian        x * (1 + a * z)
    added_gaussian  x + a * z
    alpha           a * (x if w >= threshold, else c) + b
    uniform         x * (b + a * u)
    log_normal      x * exp(b + a * z)

x: [rows, dims...]; with `x_per_sample` [rows, samples, dims...].
seed: Key of the counter-based generator.
threshold: Of words, for masks.
parameters: [3].
first_sample: Number of the first sample.
num_samples: How many samples.
first_row: Index of the first row of `x` in the whole input.
y: [rows, samples, dims...].
site: Number of the noise site.
varies: Per axis of the dims, whether the noise differs along it. Units are counted over these axes.
effect: What a word does to a number.
masks: Whether a sample has one draw for all rows.
draws: Whether the 16 samples of a block share out the strata of the words.
x_per_sample: Whether `x` differs between samples.
)doc");

}  // namespace
}  // namespace kbd
