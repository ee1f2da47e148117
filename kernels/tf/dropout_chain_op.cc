// SPDX-License-Identifier: Apache-2.0
//
// The interface of `KerasBayesdrop>DropoutChain`: inputs, attributes, shapes.
#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace kbd {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status check_vector(InferenceContext* c, const char* name, int64_t size) {
  std::vector<ShapeHandle> handles;
  TF_RETURN_IF_ERROR(c->input(name, &handles));
  ShapeHandle unused;
  return c->Merge(handles[0], c->Vector(size), &unused);
}

absl::Status check_scalar(InferenceContext* c, const char* name, ShapeHandle* scalar) {
  std::vector<ShapeHandle> handles;
  TF_RETURN_IF_ERROR(c->input(name, &handles));
  *scalar = handles[0];
  ShapeHandle unused;
  return c->WithRank(handles[0], 0, &unused);
}

// `Compute` repeats all of this: eager calls skip it.
absl::Status infer_shape(InferenceContext* c) {
  int num_steps;
  bool x_per_sample;
  std::vector<bool> has_bias;
  std::vector<std::string> noise;
  TF_RETURN_IF_ERROR(c->GetAttr("L", &num_steps));
  TF_RETURN_IF_ERROR(c->GetAttr("x_per_sample", &x_per_sample));
  TF_RETURN_IF_ERROR(c->GetAttr("has_bias", &has_bias));
  TF_RETURN_IF_ERROR(c->GetAttr("noise", &noise));
  ShapeHandle x = c->input(0);
  const int least = x_per_sample ? 3 : 2;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(x, least, &x));
  TF_RETURN_IF_ERROR(c->WithRankAtMost(x, least + 1, &x));

  std::vector<ShapeHandle> kernels, biases, tables;
  TF_RETURN_IF_ERROR(c->input("kernels", &kernels));
  TF_RETURN_IF_ERROR(c->input("biases", &biases));
  TF_RETURN_IF_ERROR(c->input("tables", &tables));
  DimensionHandle width = c->RankKnown(x) ? c->Dim(x, -1) : c->UnknownDim();
  size_t next_bias = 0, next_table = 0;
  for (int l = 0; l < num_steps; ++l) {
    ShapeHandle kernel;
    TF_RETURN_IF_ERROR(c->WithRank(kernels[size_t(l)], 2, &kernel));
    DimensionHandle unused;
    TF_RETURN_IF_ERROR(c->Merge(width, c->Dim(kernel, 0), &unused));
    if (size_t(l) < noise.size() && noise[size_t(l)] == "table" && next_table < tables.size()) {
      ShapeHandle table;
      TF_RETURN_IF_ERROR(c->WithRank(tables[next_table++], 2, &table));
      TF_RETURN_IF_ERROR(c->Merge(c->Dim(kernel, 0), c->Dim(table, 1), &unused));
    }
    width = c->Dim(kernel, 1);
    if (size_t(l) < has_bias.size() && has_bias[size_t(l)] && next_bias < biases.size()) {
      ShapeHandle bias;
      TF_RETURN_IF_ERROR(c->WithRank(biases[next_bias++], 1, &bias));
      TF_RETURN_IF_ERROR(c->Merge(width, c->Dim(bias, 0), &width));
    }
  }
  for (const char* name : {"thresholds", "scales", "sites"}) {
    TF_RETURN_IF_ERROR(check_vector(c, name, num_steps));
  }
  ShapeHandle scalar;
  for (const char* name : {"seed", "first_sample", "num_samples", "first_row"}) {
    TF_RETURN_IF_ERROR(check_scalar(c, name, &scalar));
  }
  if (!c->RankKnown(x)) {
    c->set_output(0, c->UnknownShape());
    return absl::OkStatus();
  }
  DimensionHandle samples = c->UnknownDim();
  // Inputs: x, kernels, biases, seed, thresholds, scales, sites, first_sample, num_samples.
  TF_RETURN_IF_ERROR(
      c->MakeDimForScalarInput(1 + int(kernels.size() + biases.size()) + 5, &samples));
  std::vector<DimensionHandle> dims{samples};
  for (int axis = x_per_sample ? 1 : 0; axis + 1 < c->Rank(x); ++axis) {
    dims.push_back(c->Dim(x, axis));
  }
  dims.push_back(width);
  c->set_output(0, c->MakeShape(dims));
  return absl::OkStatus();
}

REGISTER_OP("KerasBayesdrop>DropoutChain")
    .Input("x: T")
    .Input("kernels: L * T")
    .Input("biases: M * T")
    .Input("seed: uint64")
    .Input("thresholds: uint32")
    .Input("scales: double")
    .Input("sites: uint32")
    .Input("first_sample: int64")
    .Input("num_samples: int64")
    .Input("first_row: int64")
    .Input("tables: K * uint8")
    .Output("y: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("L: int >= 1")
    .Attr("M: int >= 0")
    .Attr("K: int >= 0")
    .Attr("has_bias: list(bool) >= 1")
    .Attr("noise: list({'none', 'bernoulli', 'gaussian', 'table'}) >= 1")
    .Attr("per_entry: list(bool) >= 1")
    .Attr(
        "activations: list({'linear', 'relu', 'sigmoid', 'tanh', 'softmax', 'elu', 'selu', "
        "'gelu', 'silu', 'softplus', 'leaky_relu'}) >= 1")
    .Attr("masks: {'shared', 'independent'}")
    .Attr("draws: {'balanced', 'independent'}")
    .Attr("x_per_sample: bool = false")
    .SetShapeFn(infer_shape)
    .Doc(R"doc(
Runs a chain of dense layers with noise on their inputs, for a block of samples.

    h[0] = x,    h[l + 1] = activation_l((noise_l * h[l]) kernels_l + bias_l)

Every random number is a function of (seed, site, sample, row, unit): the result of a row and a
sample does not depend on which others are in the call.

x: [rows, k] or [rows, entries, k]; with `x_per_sample` preceded by an axis of samples.
kernels: One [in, out] per step.
biases: One [out] per step that has one.
seed: Key of the counter-based generator.
thresholds: Per step. Bernoulli noise keeps a unit iff its word is at least this.
scales: Per step. Factor of kept units, or the standard deviation of Gaussian noise.
sites: Per step, the number of its noise site.
first_sample: Number of the first sample.
num_samples: How many samples.
first_row: Index of the first row of `x` in the whole input.
tables: One [masks, in] per step with noise 'table', not zero where a unit is kept. Sample t has mask
  t mod masks, and row r of independent masks (t + r) mod masks. The threshold of such a step is the
  share of zeros, which decides how the chain is run, and not what is kept.
y: [samples, rows, n] or [samples, rows, entries, n].
has_bias: Per step.
noise: Per step, the noise on its input.
per_entry: Per step, whether the entries of a row have noise of their own.
activations: Per step, by its Keras name.
masks: Whether a sample has one mask for all rows.
draws: Whether the 16 samples of a block share out the strata of the words.
x_per_sample: Whether `x` differs between samples.
)doc");

}  // namespace
}  // namespace kbd
