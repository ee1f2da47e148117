// SPDX-License-Identifier: Apache-2.0
#include "cpu/plan.h"

#include <algorithm>
#include <limits>

#include "cpu/isa.h"

namespace kbd {
namespace {

// Vectors that pass through a network together. Cut networks are packed once for each such block,
// so a batch of 256 should not need two: two pairs of noisy runs gave 0.33 and 0.27 of the ceiling
// for two blocks, 0.27 and 0.24 for one, with the dense product only. For masked networks 84, 168
// and 252 could not be told apart.
constexpr int64_t kCutRows = 516;
constexpr int64_t kMaskedRows = 168;
// Fewer are not worth a tile of their own, for the sake of memory; nor, for that of threads.
constexpr int64_t kLeastRows = 84;
constexpr int64_t kLeastSplitRows = 7;
// What the vectors of a tile may take, and of all tiles that run at once: 504 vectors of 4,096
// floats in and out.
constexpr int64_t kTileBytes = 16 << 20;
constexpr int64_t kAllTilesBytes = 256 << 20;
// Up to so many vectors of a call go step by step, whatever the network; and more where they take
// less than half of the memory of the packed kernels, if there are columns for all threads: 800
// vectors of the large network take 18 ms instead of 29 (benchmarks/lab/02_core/01_chain, "sixteen
// rows", one thread).
constexpr int64_t kMostColumnsRows = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
double drop_fraction(const Step<T>& step) {
  return step.noise == Noise::kBernoulli ? double(step.threshold) * 0x1p-32 : 0.0;
}

// Whether every noise of the chain can be cut out of the network.
template <class T>
bool can_cut(const Chain<T>& chain) {
  if (!chain.shared) {
    return false;
  }
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    if (step.noise == Noise::kGaussian ||
        std::max(step.in, step.out) > std::numeric_limits<int32_t>::max()) {
      return false;
    }
  }
  return true;
}

// How many sets of masks a sample has: one, or one per entry.
template <class T>
int64_t mask_sets(const Chain<T>& chain) {
  for (int l = 0; l < chain.num_steps; ++l) {
    if (chain.steps[l].noise == Noise::kBernoulli && chain.steps[l].per_entry) {
      return chain.entries;
    }
  }
  return 1;
}

template <class T>
bool can_subtract(const Chain<T>& chain) {
  return chain.steps[0].noise == Noise::kBernoulli && !chain.x_per_sample;
}

// Only the chain itself may be looked at here, for the rounding depends on it.
template <class T>
bool should_subtract(const Chain<T>& chain) {
  // At a rate of 0.25 the error is 1.4 times that of the direct way (kMostDropped in isa.h). Of few
  // units a few carry most.
  constexpr double kMostRate = 0.25;
  constexpr int64_t kLeastUnits = 128;
  return can_subtract(chain) && can_cut(chain) && chain.steps[0].in >= kLeastUnits &&
         drop_fraction(chain.steps[0]) <= kMostRate;
}

// The share of a step's rows that take part in its product.
template <class T>
double share_of_rows(const Chain<T>& chain, int l, bool subtract) {
  const double dropped = drop_fraction(chain.steps[l]);
  return l == 0 && subtract ? dropped : 1.0 - dropped;
}

// The share of a step's columns that a cut network has.
template <class T>
double share_of_columns(const Chain<T>& chain, int l) {
  const bool cuts = l + 1 < chain.num_steps && chain.steps[l].activation != Activation::kSoftmax;
  return cuts ? 1.0 - drop_fraction(chain.steps[l + 1]) : 1.0;
}

template <class T>
double size_of(const Step<T>& step) {
  return double(step.in) * double(step.out);
}

// Cost model, in multiply-adds of the dense product. The two constants were fitted by hand to
// benchmarks/lab/02_core/01_chain ("shared" and "sixteen rows", AVX2, on a busy machine): they tell
// cut from masked where these differ much, and are no measurement of either.
//
// A product over the elements that are not zero runs at this share of the dense rate.
constexpr double kSparseRate = 0.65;
// Packing an element of the surviving rows of a kernel, which is done for every sample.
constexpr double kPackCost = 20;

// What the network costs for one vector: cut, or masked.
template <class T>
double network_work(const Chain<T>& chain, bool subtract, bool cut) {
  double work = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const double rows = share_of_rows(chain, l, subtract);
    // Half of what comes from a relu is zero.
    double density = l > 0 && chain.steps[l - 1].activation == Activation::kRelu ? 0.5 : 1.0;
    double size = size_of(chain.steps[l]);
    if (cut) {
      size *= rows * share_of_columns(chain, l);
    } else {
      density *= rows;
    }
    work += size * std::min(1.0, density / kSparseRate);
  }
  return work;
}

// What packing costs: the rows that survive, for each set of masks; or all, once.
template <class T>
double pack_work(const Chain<T>& chain, bool subtract, bool cut) {
  double work = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const double rows = cut ? share_of_rows(chain, l, subtract) : 1.0;
    work += kPackCost * rows * size_of(chain.steps[l]);
  }
  return work;
}

// The multiply-adds of a plan, see there.
template <class T>
double multiply_adds(const Chain<T>& chain, const ChainPlan& plan) {
  const double vectors = double(chain.rows * chain.entries);
  double per_vector = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const double rows = share_of_rows(chain, l, plan.subtracts);
    const double size = size_of(chain.steps[l]);
    if (plan.strategy == Strategy::kCut) {
      per_vector += size * rows * share_of_columns(chain, l);
    } else {
      const Step<T>& step = chain.steps[l];
      const bool sparse =
          rows < kMostSparse && may_be_sparse(step.in, step.out, chosen_isa<T>().panel_columns);
      per_vector += size * (sparse ? rows : 1.0);
    }
  }
  const double base = plan.subtracts ? vectors * size_of(chain.steps[0]) : 0.0;
  return base + double(chain.num_samples) * vectors * per_vector;
}

// Vectors of a tile that take so many bytes each.
int64_t rows_within(int64_t most, int64_t threads, int64_t row_bytes) {
  const int64_t bytes = std::min(kTileBytes, kAllTilesBytes / threads);
  return std::min(most, std::max(kLeastRows, bytes / std::max<int64_t>(row_bytes, 1)));
}

// Cuts the vectors of each of some networks in tiles, as few as may be. Where there are fewer than
// two tasks a thread, tiles become smaller, if that pays: each of them costs `pack` besides `work`
// per vector. Returns the time of the longest thread if tasks are handed out one by one.
double make_tiles(int64_t networks, int64_t vectors, int64_t most_rows, int64_t threads,
                  double work, double pack, ChainPlan* plan) {
  const int64_t fewest = ceil_div(vectors, most_rows);
  const int64_t most =
      std::min(ceil_div(2 * threads, networks), ceil_div(vectors, kLeastSplitRows));
  double best = std::numeric_limits<double>::infinity();
  for (int64_t tiles = fewest; tiles <= std::max(fewest, most); ++tiles) {
    const int64_t rows = ceil_div(vectors, tiles);
    const int64_t tasks = networks * ceil_div(vectors, rows);
    const double time = double(ceil_div(tasks, threads)) * (double(rows) * work + pack);
    if (time < best) {
      best = time;
      plan->tiles = ceil_div(vectors, rows);
      plan->tile_rows = rows;
      plan->tasks = tasks;
    }
  }
  return best;
}

template <class T>
double tile_cut(const Chain<T>& chain, const Isa<T>& isa, int64_t threads, ChainPlan* plan) {
  const int64_t row_bytes = isa.cut_scratch(chain, 1) - isa.cut_scratch(chain, 0);
  const double time = make_tiles(
      chain.num_samples * plan->sets, chain.rows * chain.entries / plan->sets,
      rows_within(kCutRows, threads, row_bytes), threads,
      network_work(chain, plan->subtracts, true), pack_work(chain, plan->subtracts, true), plan);
  plan->task_bytes = isa.cut_scratch(chain, plan->tile_rows);
  return time;
}

template <class T>
double tile_masked(const Chain<T>& chain, const Isa<T>& isa, int64_t threads, ChainPlan* plan) {
  const int64_t row_bytes = isa.masked_scratch(chain, 1) - isa.masked_scratch(chain, 0);
  const double time = make_tiles(1, chain.num_samples * chain.rows * chain.entries,
                                 rows_within(kMaskedRows, threads, row_bytes), threads,
                                 network_work(chain, plan->subtracts, false), 0.0, plan);
  plan->task_bytes = isa.masked_scratch(chain, plan->tile_rows);
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    plan->call_bytes +=
        step.in * ceil_div(step.out, isa.panel_columns) * isa.panel_columns * int64_t(sizeof(T));
  }
  return time + pack_work(chain, plan->subtracts, false) / double(threads);
}

template <class T>
void tile_columns(const Chain<T>& chain, const Isa<T>& isa, int64_t threads, ChainPlan* plan) {
  const int64_t total = chain.num_samples * chain.rows * chain.entries;
  plan->tiles = 1;
  plan->tile_rows = total;
  for (int l = 0; l < chain.num_steps; ++l) {
    const int64_t out = chain.steps[l].out;
    plan->tasks = std::max(plan->tasks, ceil_div(out, columns_of_task(isa, out, threads)));
  }
  plan->task_bytes = isa.columns_scratch(chain);
  plan->call_bytes = isa.rows_bytes(chain, total);
}

}  // namespace

template <class T>
int64_t columns_of_task(const Isa<T>& isa, int64_t out, int64_t threads) {
  constexpr int64_t kLeastPanels = 2;  // one is not wide enough for the sparse product
  const int64_t panels = ceil_div(out, isa.panel_columns);
  int64_t wide = isa.slab_columns / isa.panel_columns;
  while (wide > kLeastPanels && ceil_div(panels, wide) < 2 * threads) {
    --wide;
  }
  return wide * isa.panel_columns;
}

template <class T>
ChainPlan plan_chain(const Chain<T>& chain, int64_t threads, Strategy strategy, Subtract subtract) {
  ChainPlan plan;
  if (is_empty(chain)) {
    return plan;
  }
  const Isa<T>& isa = chosen_isa<T>();
  const int64_t vectors = chain.rows * chain.entries;
  threads = std::max<int64_t>(threads, 1);
  plan.subtracts = subtract == Subtract::kAuto
                       ? should_subtract(chain)
                       : subtract == Subtract::kWherePossible && can_subtract(chain);
  ChainPlan cut = plan, masked = plan, columns = plan;
  cut.strategy = Strategy::kCut;
  columns.strategy = Strategy::kColumns;
  cut.sets = mask_sets(chain);
  const double cut_time = can_cut(chain) && strategy != Strategy::kMasked
                              ? tile_cut(chain, isa, threads, &cut)
                              : std::numeric_limits<double>::infinity();
  const double masked_time = tile_masked(chain, isa, threads, &masked);
  tile_columns(chain, isa, threads, &columns);
  if (strategy == Strategy::kAuto) {
    const bool few = chain.num_samples * vectors <= kMostColumnsRows ||
                     (2 * columns.call_bytes <= masked.call_bytes && columns.tasks >= 2 * threads);
    strategy = cut_time < masked_time ? Strategy::kCut
               : few                  ? Strategy::kColumns
                                      : Strategy::kMasked;
  }
  const bool cuts = strategy == Strategy::kCut && can_cut(chain);
  plan = cuts ? cut : strategy == Strategy::kColumns ? columns : masked;
  if (plan.subtracts) {
    const int64_t panels = ceil_div(chain.steps[0].out, isa.panel_columns);
    plan.call_bytes += vectors * (panels * isa.panel_columns + 1) * int64_t(sizeof(T));
  }
  plan.multiply_adds = multiply_adds(chain, plan);
  for (int l = 0; l < chain.num_steps; ++l) {
    plan.whole_multiply_adds +=
        double(chain.num_samples) * double(vectors) * size_of(chain.steps[l]);
  }
  return plan;
}

int64_t cost_of(double multiply_adds) {
  return int64_t(std::min(std::max(2 * multiply_adds, 1.0), 1e15));
}

template <class T>
int64_t task_cost(const Chain<T>& chain, const ChainPlan& plan) {
  const bool cut = plan.strategy == Strategy::kCut;
  const double work = double(plan.tile_rows) * network_work(chain, plan.subtracts, cut);
  return cost_of(work + (cut ? pack_work(chain, plan.subtracts, cut) : 0.0));
}

#define KBD_INSTANTIATE(T)                                                        \
  template int64_t columns_of_task<T>(const Isa<T>&, int64_t, int64_t);           \
  template ChainPlan plan_chain<T>(const Chain<T>&, int64_t, Strategy, Subtract); \
  template int64_t task_cost<T>(const Chain<T>&, const ChainPlan&)
KBD_INSTANTIATE(float);
KBD_INSTANTIATE(double);
#undef KBD_INSTANTIATE

}  // namespace kbd
