// SPDX-License-Identifier: Apache-2.0
//
// Prints as JSON how kernels/cuda would run a chain of Bernoulli noise and dense layers: the blocks
// of samples, and for each the tiles of its products. By the very heuristics that run it.
//
//   gpu_plan <shared> <tf32> <sm> <multiprocessors> <rows> <samples> <width> (<rate> <width>)...
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda/chain.h"
#include "cuda/heuristics.h"

namespace {

void print_step(const kbd::Chain<float>& chain, const kbd::GpuOptions& options, kbd::GpuWay way,
                int l, int64_t samples) {
  const kbd::StepPlan plan = kbd::plan_step(chain, way, l);
  const kbd::Step<float>& step = chain.steps[l];
  const double kept = plan.cuts_columns ? kbd::kept_fraction(chain, l + 1) : 1.0;
  const int64_t grid_rows = plan.samples_apart ? chain.rows : samples * chain.rows;
  const kbd::GpuTile tile = kbd::choose_tile(options, grid_rows, int64_t(kept * double(step.out)),
                                             plan.samples_apart ? samples : 1, plan.makes_noise);
  const kbd::TileSize size =
      tile == kbd::GpuTile::kLarge   ? kbd::tile_size<kbd::GpuTile::kLarge>(plan.makes_noise)
      : tile == kbd::GpuTile::kSmall ? kbd::tile_size<kbd::GpuTile::kSmall>(plan.makes_noise)
                                     : kbd::tile_size<kbd::GpuTile::kMedium>(plan.makes_noise);
  std::printf(
      "%s{\"tile\": [%d, %d], \"cuts_rows\": %s, \"cuts_columns\": %s, \"gathers\": %s, "
      "\"makes_noise\": %s, \"samples_apart\": %s}",
      l ? ", " : "", size.rows, size.columns, plan.cuts_rows ? "true" : "false",
      plan.cuts_columns ? "true" : "false", plan.cuts_rows && !plan.a_compact ? "true" : "false",
      plan.makes_noise ? "true" : "false", plan.samples_apart ? "true" : "false");
}

}  // namespace

int main(int count, char** given) {
  if (count < 10 || count % 2 != 0) {
    std::fprintf(stderr, "wrong number of arguments\n");
    return 1;
  }
  kbd::GpuOptions options;
  options.allow_tf32 = std::atoi(given[2]) != 0;
  options.sm = std::atoi(given[3]);
  options.multiprocessors = std::atoi(given[4]);
  std::vector<kbd::Step<float>> steps;
  for (int at = 7; at + 2 < count; at += 2) {
    kbd::Step<float> step{};
    step.in = std::atoll(given[at]);
    step.out = std::atoll(given[at + 2]);
    step.noise = kbd::Noise::kBernoulli;
    step.threshold = uint32_t(std::lround(std::atof(given[at + 1]) * 0x1p32));
    step.activation = at + 3 < count ? kbd::Activation::kRelu : kbd::Activation::kSoftmax;
    steps.push_back(step);
  }
  kbd::Chain<float> chain{};
  chain.shared = std::atoi(given[1]) != 0;
  chain.rows = std::atoll(given[5]);
  chain.num_samples = std::atoll(given[6]);
  chain.entries = 1;
  chain.steps = steps.data();
  chain.num_steps = int(steps.size());
  const kbd::GpuWay way = kbd::choose_way(chain, options);
  const int64_t most = kbd::plan_workspace(chain, options, way).samples;
  for (int64_t first = 0; first < chain.num_samples; first += most) {
    const int64_t samples = std::min(most, chain.num_samples - first);
    std::printf("%s{\"samples\": %lld, \"steps\": [", first ? ",\n " : "[", (long long)samples);
    for (int l = 0; l < chain.num_steps; ++l) {
      print_step(chain, options, way, l, samples);
    }
    std::printf("]}");
  }
  std::printf("]\n");
}
