// SPDX-License-Identifier: Apache-2.0
//
// How a chain is run: the strategy, the multiply-adds that it leaves, the tasks that threads share
// and the memory they take, for machines of 1 to 64 threads; compared with what a run does, in a
// pool that is only simulated.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "check.h"
#include "cpu/plan.h"
#include "network.h"

namespace {

using kbd::ChainPlan;

constexpr int64_t kThreads[] = {1, 2, 8, 64};
constexpr double kMegabyte = 1 << 20;

// A chain of sizes alone: plan_chain() looks at no number.
template <class T>
struct Sizes {
  std::vector<Step<T>> steps;
  Chain<T> chain{};

  Sizes(const std::vector<int64_t>& widths, double input_rate, double rate, int64_t rows,
        int64_t samples, bool shared = true) {
    for (size_t l = 0; l + 1 < widths.size(); ++l) {
      Step<T> step{};
      step.in = widths[l];
      step.out = widths[l + 1];
      step.noise = Noise::kBernoulli;
      step.activation = Activation::kRelu;
      step.threshold = uint32_t((l == 0 ? input_rate : rate) * 4294967296.0);
      steps.push_back(step);
    }
    chain.rows = rows;
    chain.entries = 1;
    chain.num_samples = samples;
    chain.shared = shared;
    chain.num_steps = int(steps.size());
  }

  ChainPlan plan(int64_t threads, Strategy strategy = Strategy::kAuto) {
    chain.steps = steps.data();
    return kbd::plan_chain(chain, threads, strategy);
  }
};

const std::vector<int64_t> kLarge = {784, 1200, 1200, 1200, 1200, 10};
const std::vector<int64_t> kVggHead = {25088, 4096, 4096, 1000};
const std::vector<int64_t> kWide = {100000, 512, 10};

void check_near(double value, double wanted, double relative, const char* what) {
  if (!check(std::fabs(value - wanted) <= relative * wanted, what)) {
    std::printf("  %g, expected %g within %g\n", value, wanted, relative);
  }
}

void check_share(const ChainPlan& plan, Strategy strategy, bool subtracts, double share,
                 const char* what) {
  if (!check(plan.strategy == strategy && plan.subtracts == subtracts, what)) {
    std::printf("  strategy %d, subtracts %d\n", int(plan.strategy), int(plan.subtracts));
  }
  check_near(plan.multiply_adds / plan.whole_multiply_adds, share, 1e-6, what);
}

// Which way is taken, and the share of the multiply-adds that it leaves.
template <class T>
void strategies() {
  const double first = 784 * 1200, hidden = 3 * 1200 * 1200, last = 1200 * 10;
  const double whole = first + hidden + last;
  const auto large = [](double input_rate, double rate, int64_t rows, bool shared = true) {
    return Sizes<T>(kLarge, input_rate, rate, rows, 50, shared);
  };
  // A product of a single panel is dense.
  const double tail = kbd::chosen_isa<T>().panel_columns < 10 ? 0.5 : 1;
  for (int64_t threads : kThreads) {
    // x times the first kernel once, and 0.2 of it for each of the 50 samples.
    const double cut = (first * (0.2 * 0.5 + 1 / 50.0) + hidden / 4 + last / 2) / whole;
    check_share(large(0.2, 0.5, 256).plan(threads), Strategy::kCut, true, cut, "subtract, cut");
    const double direct = (first / 4 + hidden / 4 + last / 2) / whole;
    check_share(large(0.5, 0.5, 256).plan(threads), Strategy::kCut, false, direct, "cut");
    // A mask that keeps half makes the products sparse; one that keeps 0.8 does not.
    const double half = (first + hidden / 2 + last * tail) / whole;
    check_share(large(0.2, 0.5, 256, false).plan(threads), Strategy::kMasked, false, half,
                "independent masks");
    const double one = (first * (0.2 + 1 / 50.0) + hidden / 2 + last * tail) / whole;
    check_share(large(0.2, 0.5, 1).plan(threads), Strategy::kColumns, true, one, "one row");
  }
  // An activation of the whole row needs all columns.
  Sizes<T> softmax({300, 200, 10}, 0.5, 0.5, 300, 4);
  softmax.steps[0].activation = Activation::kSoftmax;
  check_share(softmax.plan(2), Strategy::kCut, false, 0.5, "softmax in between");
  Sizes<T> gaussian({300, 200, 10}, 0.5, 0.5, 300, 4);
  gaussian.steps[1].noise = Noise::kGaussian;
  check(gaussian.plan(2).strategy == Strategy::kMasked, "noise that cannot be cut");
  check(gaussian.plan(2, Strategy::kCut).strategy == Strategy::kMasked, "asked for what is not");
  Sizes<T> empty({}, 0, 0, 0, 0);
  check(empty.plan(2).tasks == 0 && empty.plan(2).multiply_adds == 0, "empty chain");
}

// How much of a machine is busy if tasks are handed out one by one.
double busy(const ChainPlan& plan, int64_t threads) {
  const int64_t rounds = (plan.tasks + threads - 1) / threads;
  return double(plan.tasks) / double(rounds * threads);
}

template <class T>
void tasks() {
  // 8 and 2 samples are what two cores take at a time.
  for (int64_t samples : {2, 8, 32}) {
    for (const std::vector<int64_t>& widths :
         {kVggHead, std::vector<int64_t>{4096, 4096, 1000}, kLarge, kWide}) {
      for (bool shared : {true, false}) {
        for (int64_t threads : kThreads) {
          const ChainPlan plan = Sizes<T>(widths, 0.5, 0.5, 256, samples, shared).plan(threads);
          if (!check(busy(plan, threads) >= 0.75, "threads stay idle")) {
            std::printf("  %d wide, %d samples: %d tasks, %d threads\n", int(widths[0]),
                        int(samples), int(plan.tasks), int(threads));
          }
          if (plan.strategy == Strategy::kCut && samples >= 2 * threads && sizeof(T) == 4) {
            check(plan.tasks == samples, "rows are split without need");
          }
        }
      }
    }
  }
  // One row has its columns to share.
  check(Sizes<T>(kLarge, 0.2, 0.5, 1, 50).plan(8).tasks >= 16, "one row");
}

// Each thread has one piece of scratch. A forward pass of 256 rows holds 256 * (25088 + 4096)
// floats at once, which are 29 MB.
template <class T>
void bytes() {
  const double size = double(sizeof(T)) / 4;
  for (int64_t threads : kThreads) {
    for (const std::vector<int64_t>& widths : {kVggHead, kWide, kLarge}) {
      for (int64_t rows : {1, 32, 256, 2000}) {
        const ChainPlan plan = Sizes<T>(widths, 0.5, 0.5, rows, 32).plan(threads, Strategy::kCut);
        // What does not depend on the rows: a block of a kernel, sums of a slab, words and lists
        // of units.
        const double fixed = 0.4 * kMegabyte * size + 36.0 * double(widths[0]);
        const double activations = 2.1 * double(plan.tile_rows) * 4128 * double(sizeof(T));
        if (!check(double(plan.task_bytes) <= fixed + activations, "bytes of a task")) {
          std::printf("  %g MB, %d wide, %d rows\n", double(plan.task_bytes) / kMegabyte,
                      int(widths[0]), int(rows));
        }
        check(double(plan.task_bytes) <= fixed + 17 * kMegabyte, "bytes of a task, any rows");
        check(double(threads * plan.task_bytes) <=
                  double(threads) * (fixed + 3 * kMegabyte * size) + 256 * kMegabyte,
              "bytes of all tasks");
        check(plan.call_bytes == 0, "bytes of the call");
      }
    }
  }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// A pool of so many threads, simulated: counts the tasks of the last piece of work.
kbd::ParallelFor counting(int64_t threads, int64_t* tasks) {
  const auto share = [tasks](int64_t total, int64_t cost, const kbd::ParallelFor::Task& task) {
    check(cost >= 1, "cost");
    *tasks = total;
    for (int64_t i = 0; i < total; ++i) {
      task(i, i + 1);
    }
  };
  return {share, threads};
}

// A run hands out the tasks of its plan, and does the multiply-adds that it announces.
template <class T>
void runs() {
  for (bool shared : {true, false}) {
    for (double rate : {0.2, 0.5}) {
      Shape shape;
      shape.widths = std::vector<int64_t>{301, 260, 7};
      shape.rows = 64;
      shape.samples = 40;
      shape.shared = shared;
      // Without relu, no element but a dropped one is zero.
      const Network<T> network(shape, rate, Noise::kBernoulli, Activation::kTanh);
      Sizes<T> sizes(shape.widths, rate, rate, shape.rows, shape.samples, shared);
      for (Step<T>& step : sizes.steps) {
        step.activation = Activation::kTanh;
      }
      const bool minus = shared && rate < 0.25;
      for (Strategy strategy :
           {Strategy::kAuto, Strategy::kCut, Strategy::kMasked, Strategy::kColumns}) {
        std::vector<T> first;
        for (int64_t threads : kThreads) {
          int64_t done = 0, counted = 0;
          Call call;
          call.strategy = strategy;
          call.parallel_for = counting(threads, &counted);
          call.done = &done;
          const std::vector<T> values = network.run(call);
          const ChainPlan plan = sizes.plan(threads, strategy);
          if (plan.strategy != Strategy::kColumns) {
            check(counted == plan.tasks, "tasks of a run");
          }
          // The kept units of 40 samples at 301 and 260: a share of 0.8 or 0.5 has a relative
          // deviation of at most sqrt((1/301 + 1/260) / 40) = 0.013; of 0.2 twice that.
          check_near(double(done), plan.multiply_adds, minus ? 0.1 : 0.06,
                     "multiply-adds of a run");
          first = first.empty() ? values : first;
          check(same_bits(first, values), "threads change the result");
        }
      }
      const double share = sizes.plan(2).multiply_adds / sizes.plan(2).whole_multiply_adds;
      check(shared        ? share < 0.65
            : rate < 0.25 ? share == 1
                          : std::fabs(share - 0.5) < 0.02,
            "share that is left");
    }
  }
}

// Zeros of relu are skipped besides.
template <class T>
void relu_skips() {
  Shape shape;
  shape.widths = std::vector<int64_t>{40, 200, 200, 9};
  shape.rows = 30;
  shape.shared = false;
  const Network<T> network(shape, 0.1, Noise::kNone, Activation::kRelu);
  int64_t done = 0;
  Call call;
  call.done = &done;
  network.run(call);
  const double vectors = double(shape.rows * shape.samples);
  // The last step is a single panel, and dense.
  const double most = vectors * (40 * 200 + 200 * 200 + 200 * 9);
  const double least = vectors * (40 * 200 + 200 * 9);
  check(double(done) < 0.8 * most && double(done) > least, "zeros of relu");
}

template <class T>
void all() {
  strategies<T>();
  tasks<T>();
  bytes<T>();
  runs<T>();
  relu_skips<T>();
}

}  // namespace

int main() {
  std::printf("instruction set: %s\n", kbd::isa_name());
  all<float>();
  all<double>();
  return report();
}
