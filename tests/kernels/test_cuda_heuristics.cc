// SPDX-License-Identifier: Apache-2.0
//
// How a chain would be run on a GPU: no CUDA, no GPU.
#include <cstdint>
#include <vector>

#include "check.h"
#include "cuda/chain.h"
#include "cuda/heuristics.h"

namespace {

using kbd::Activation;
using kbd::Chain;
using kbd::GpuOptions;
using kbd::GpuTile;
using kbd::GpuWay;
using kbd::Half;
using kbd::Math;
using kbd::Noise;
using kbd::Step;

// Bernoulli noise of rate one half on every step.
template <class T>
struct Example {
  std::vector<Step<T>> steps;
  Chain<T> chain{};

  Example(const std::vector<int64_t>& widths, int64_t rows, int64_t samples) {
    for (size_t l = 0; l + 1 < widths.size(); ++l) {
      Step<T> step{};
      step.in = widths[l];
      step.out = widths[l + 1];
      step.activation = Activation::kRelu;
      step.noise = Noise::kBernoulli;
      step.threshold = 0x80000000u;
      steps.push_back(step);
    }
    chain.rows = rows;
    chain.entries = 1;
    chain.num_samples = samples;
    chain.shared = true;
    chain.num_steps = int(steps.size());
    chain.steps = steps.data();
  }
};

void arithmetic() {
  GpuOptions options;
  check(kbd::choose_math<float>(options) == Math::kFma, "float32 stays float32");
  options.allow_tf32 = true;
  check(kbd::choose_math<float>(options) == Math::kTf32, "TF32 where allowed");
  options.sm = 75;
  check(kbd::choose_math<float>(options) == Math::kFma, "no TF32 before sm_80");
  check(kbd::choose_math<Half>(options) == Math::kMma, "16 bits");
}

void ways() {
  GpuOptions options;
  const std::vector<int64_t> widths{784, 1200, 1200, 10};
  check(kbd::choose_way(Example<float>(widths, 256, 50).chain, options) == GpuWay::kCut,
        "many rows are cut");
  check(kbd::choose_way(Example<float>(widths, 1, 50).chain, options) == GpuWay::kMasked,
        "samples of one row share tiles");
  check(kbd::choose_way(Example<float>(widths, 1, 1).chain, options) == GpuWay::kCut,
        "one sample of one row is cut");
  options.allow_tf32 = true;
  for (int64_t rows : {1, 256}) {
    check(kbd::choose_way(Example<float>(widths, rows, 50).chain, options) == GpuWay::kCut &&
              kbd::choose_way(Example<Half>(widths, rows, 50).chain, options) == GpuWay::kCut,
          "with tensor cores the rows do not matter");
  }
  options.way = GpuWay::kMasked;
  check(kbd::choose_way(Example<float>(widths, 256, 50).chain, options) == GpuWay::kMasked,
        "a way that is asked for");
}

void tiles() {
  GpuOptions options;
  const auto tile = [&options](int64_t rows, int64_t columns, int64_t samples,
                               bool makes_noise = false) {
    return kbd::choose_tile(options, rows, columns, samples, makes_noise);
  };
  check(tile(256, 1200, 50) == GpuTile::kLarge, "large");
  check(tile(256, 1200, 1) == GpuTile::kMedium, "too few large tiles for the device");
  check(tile(100000, 10, 50) == GpuTile::kMedium, "large tiles would be empty");
  check(tile(70, 128, 200) == GpuTile::kMedium, "large tiles would be half empty");
  check(tile(60, 128, 200) == GpuTile::kMedium && tile(60, 128, 200, true) == GpuTile::kLarge,
        "tiles that make noise have half the rows");
  check(tile(32, 1200, 50) == GpuTile::kSmall && tile(1, 1, 1) == GpuTile::kSmall, "few rows");
  options.tile = GpuTile::kLarge;
  check(tile(1, 1, 1) == GpuTile::kLarge, "a tile that is asked for");
}

void steps() {
  Example<float> example({8, 8, 8, 8, 8, 8}, 4, 3);
  example.steps[2].noise = Noise::kGaussian;
  example.steps[3].activation = Activation::kSoftmax;
  const Chain<float>& chain = example.chain;
  const auto plan = [&chain](int l) { return kbd::plan_step(chain, GpuWay::kCut, l); };
  check(plan(0).cuts_rows && !plan(0).a_compact && plan(0).cuts_columns, "x is gathered");
  check(plan(1).cuts_rows && plan(1).a_compact && !plan(1).cuts_columns,
        "columns that get Gaussian noise are not cut");
  check(!plan(2).cuts_rows && plan(2).makes_noise && plan(2).cuts_columns && plan(2).samples_apart,
        "Gaussian noise, then columns cut");
  check(plan(3).a_compact && !plan(3).cuts_columns, "a softmax needs its whole row");
  check(plan(4).cuts_rows && !plan(4).a_compact, "what follows a softmax is gathered");
  const kbd::StepPlan masked = kbd::plan_step(chain, GpuWay::kMasked, 1);
  check(!masked.cuts_rows && !masked.cuts_columns && masked.makes_noise && !masked.samples_apart,
        "masked: all samples in one");
  example.chain.shared = false;
  check(!plan(0).cuts_rows && plan(0).makes_noise && !plan(0).samples_apart, "independent masks");
  example.chain.shared = true;
  example.chain.entries = 3;
  example.steps[0].per_entry = true;
  check(!plan(0).cuts_rows && plan(0).makes_noise && plan(1).cuts_rows, "noise of an entry");
  example.chain.entries = 1;
  check(plan(0).cuts_rows, "noise of the one entry");
}

void memory() {
  GpuOptions options;
  const std::vector<int64_t> widths{784, 1200, 1200, 10};
  Example<float> example(widths, 256, 1000);
  kbd::WorkspaceLayout layout = kbd::plan_workspace(example.chain, options, GpuWay::kCut);
  const int64_t limit = options.workspace_limit;
  check(layout.buffer == 256 * 1200 * 4 && layout.lists == 4 * (785 + 1201 + 1201) &&
            layout.logits == 0,
        "bytes of a sample");
  check(layout.samples > 1 && layout.samples < 1000, "a block of samples");
  check(layout.bytes <= limit + limit / 100 && layout.bytes > limit / 2, "the limit is used");
  options.workspace_limit = 1;
  layout = kbd::plan_workspace(example.chain, options, GpuWay::kCut);
  check(layout.samples == 1 && layout.bytes < 3000000, "one sample at least");
  options.workspace_limit = limit;
  options.most_blocks = 7;
  layout = kbd::plan_workspace(example.chain, options, GpuWay::kCut);
  check(layout.samples == 7, "a grid's limit");
  check(kbd::plan_workspace(example.chain, options, GpuWay::kMasked).lists == 0, "no lists");
  Example<Half> half(widths, 256, 10);
  half.steps[2].activation = Activation::kSoftmax;
  layout = kbd::plan_workspace(half.chain, options, GpuWay::kCut);
  check(layout.buffer == 256 * 1200 * 2 && layout.logits == 256 * 16 * 4, "logits in float32");
}

}  // namespace

int main() {
  arithmetic();
  ways();
  tiles();
  steps();
  memory();
  return report();
}
