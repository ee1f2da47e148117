// SPDX-License-Identifier: Apache-2.0
//
// How a chain is run on a GPU: which arithmetic, what is cut, which tiles, how many samples at
// once. Host only, no CUDA: testable anywhere.
#ifndef KBD_CUDA_HEURISTICS_H_
#define KBD_CUDA_HEURISTICS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/chain.h"
#include "cuda/traits.h"

namespace kbd {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

template <class T>
Math choose_math(const GpuOptions& options) {
  if (!std::is_same_v<T, float>) {
    return Math::kMma;
  }
  return options.allow_tf32 && options.sm >= 80 ? Math::kTf32 : Math::kFma;
}

// Whether the noise of a step is the same for all vectors of a sample, and drops units.
template <class T>
bool can_cut_step(const Chain<T>& chain, int step) {
  return step < chain.num_steps && chain.shared && chain.steps[step].noise == Noise::kBernoulli &&
         (chain.entries == 1 || !chain.steps[step].per_entry);
}

template <class T>
double kept_fraction(const Chain<T>& chain, int step) {
  return can_cut_step(chain, step) ? 1 - double(chain.steps[step].threshold) * 0x1p-32 : 1.0;
}

// Cut or masked, by the multiply-adds of either, blocks of threads filled up with nothing included.
// Masked, the samples of few rows share tiles; cut, each has its own, of 16 rows at least. Noise
// is made anew for every tile of columns: some 20 instructions for each number of A, which serves
// 64 to 128 multiply-adds.
template <class T>
GpuWay choose_way(const Chain<T>& chain, const GpuOptions& options) {
  constexpr double kNoiseCost = 1.25;
  if (options.way != GpuWay::kAuto) {
    return options.way;
  }
  // With tensor cores the way changes the rounding, so it must not depend on the size of a call.
  if (choose_math<T>(options) != Math::kFma) {
    return GpuWay::kCut;
  }
  double cut = 0, masked = 0;
  const double vectors = double(chain.rows * chain.entries), samples = double(chain.num_samples);
  for (int l = 0; l < chain.num_steps; ++l) {
    const double work = double(chain.steps[l].in) * double(chain.steps[l].out);
    cut += work * kept_fraction(chain, l) * kept_fraction(chain, l + 1);
    masked += work * (chain.steps[l].noise == Noise::kNone ? 1.0 : kNoiseCost);
  }
  cut *= samples * std::max(vectors, 16.0);
  masked *= std::max(samples * vectors, 16.0);
  return masked < cut ? GpuWay::kMasked : GpuWay::kCut;
}

// The tile for `samples` products of rows x columns, or about as many.
inline GpuTile choose_tile(const GpuOptions& options, int64_t rows, int64_t columns,
                           int64_t samples, bool makes_noise) {
  if (options.tile != GpuTile::kAuto) {
    return options.tile;
  }
  if (rows <= 32) {
    return GpuTile::kSmall;
  }
  // A large tile reads half as much for a multiply-add as a medium one, if it is filled, and if
  // there are enough for every multiprocessor.
  const TileSize size = tile_size<GpuTile::kLarge>(makes_noise);
  const double large = double(ceil_div(rows, size.rows)) * double(ceil_div(columns, size.columns));
  const double filled =
      double(rows) * double(columns) / std::max(large * size.rows * size.columns, 1.0);
  const bool enough = large * double(samples) >= double(options.multiprocessors);
  return filled >= 0.6 && enough ? GpuTile::kLarge : GpuTile::kMedium;
}

// What is done at one step.
struct StepPlan {
  bool cuts_rows;      // its dropped inputs are left out
  bool cuts_columns;   // and those of the next step
  bool a_compact;      // the step before has left them out already
  bool makes_noise;    // noise is put on the input on its way to shared memory
  bool samples_apart;  // z is the sample
};

template <class T>
StepPlan plan_step(const Chain<T>& chain, GpuWay way, int step) {
  const bool cuts = way == GpuWay::kCut;
  StepPlan plan;
  plan.cuts_rows = cuts && can_cut_step(chain, step);
  // An activation that looks at the whole row needs the whole row.
  plan.cuts_columns =
      cuts && can_cut_step(chain, step + 1) && chain.steps[step].activation != Activation::kSoftmax;
  plan.a_compact =
      plan.cuts_rows && step > 0 && chain.steps[step - 1].activation != Activation::kSoftmax;
  plan.makes_noise = chain.steps[step].noise != Noise::kNone && !plan.cuts_rows;
  plan.samples_apart = plan.cuts_rows || plan.cuts_columns;
  return plan;
}

// The memory of a block of samples, in bytes for one sample each.
struct WorkspaceLayout {
  int64_t samples;  // of a block
  int64_t lists;    // kept units of all sites that are cut, and their number
  int64_t buffer;   // one of two for activations
  int64_t logits;   // of a softmax in 16 bits
  int64_t bytes;    // of all, for the block

  static constexpr int64_t kAlign = 128;  // bytes; what begins in the workspace begins at these
};

// From vector to vector of a step's output, in numbers.
template <class T>
int64_t padded_width(int64_t width) {
  return round_up(width, 16 / int64_t(sizeof(T)));
}

template <class T>
WorkspaceLayout plan_workspace(const Chain<T>& chain, const GpuOptions& options, GpuWay way) {
  WorkspaceLayout layout{};
  const int64_t vectors = chain.rows * chain.entries;
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    if (plan_step(chain, way, l).cuts_rows) {
      layout.lists += 4 * (step.in + 1);
    }
    const int64_t numbers = vectors * padded_width<T>(step.out);
    if (l + 1 < chain.num_steps) {
      layout.buffer = std::max(layout.buffer, numbers * int64_t(sizeof(T)));
    }
    if (step.activation == Activation::kSoftmax && sizeof(T) == 2) {
      layout.logits = std::max(layout.logits, numbers * 4);
    }
  }
  const int64_t each = std::max<int64_t>(layout.lists + 2 * layout.buffer + layout.logits, 1);
  const int64_t fits = std::max<int64_t>(options.workspace_limit / each, 1);
  layout.samples =
      std::max<int64_t>(std::min(std::min(chain.num_samples, options.most_blocks), fits), 1);
  // Every list, number and buffer may begin later than the one before ends.
  const int64_t gaps = (2 * int64_t(chain.num_steps) + 4) * WorkspaceLayout::kAlign;
  layout.bytes = layout.samples * each + gaps;
  return layout;
}

}  // namespace kbd

#endif  // KBD_CUDA_HEURISTICS_H_
