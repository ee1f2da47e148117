// SPDX-License-Identifier: Apache-2.0
//
// How fast the core runs the chains that matter, beside the machine's own rate.
//
//   cmake -S . -B build/lab -DKBD_LAB=ON && cmake --build build/lab --target lab_chain
//   build/lab/kernels/lab_chain [threads] [case, or its beginning] [way, beside the ceiling]
//
// Checks that all strategies give the same bits, then times them in turn; the best of several
// rounds counts. The ceiling is the product alone: a chain without noise on as many vectors, its
// kernels packed once (run_chain with Strategy::kMasked). "of ceiling" counts the multiply-adds
// that survive, with and without those that subtraction saves.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cpu/chain.h"

namespace {

using kbd::Activation;
using kbd::Chain;
using kbd::Noise;
using kbd::Step;
using kbd::Strategy;

double wall() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Processor time of all threads: what others take from the machine does not count.
double processor() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

int num_threads = 1;

void parallel_for(int64_t total, int64_t, const std::function<void(int64_t, int64_t)>& task) {
  if (num_threads == 1 || total < 2) {
    task(0, total);
    return;
  }
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t i = next++; i < total; i = next++) {
      task(i, i + 1);
    }
  };
  std::vector<std::thread> workers;
  for (int t = 1; t < num_threads; ++t) {
    workers.emplace_back(work);
  }
  work();
  for (std::thread& worker : workers) {
    worker.join();
  }
}

struct Case {
  const char* name;
  std::vector<int64_t> widths;
  double input_rate, rate;
  int64_t rows, samples;
  bool shared;
  Noise noise = Noise::kBernoulli;
  Activation activation = Activation::kRelu;
};

struct Times {
  double wall = 1e30, processor = 1e30;
};

void run(const Case& c, const char* only, const char* only_way) {
  if (only && std::strncmp(c.name, only, std::strlen(only)) != 0) {
    return;
  }
  std::mt19937 bits(1);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> kernels, biases;
  std::vector<Step<float>> steps;
  double survive = 0, subtracted = 0, whole = 0;
  const size_t count = c.widths.size() - 1;
  for (size_t l = 0; l < count; ++l) {
    kernels.emplace_back(size_t(c.widths[l] * c.widths[l + 1]));
    biases.emplace_back(size_t(c.widths[l + 1]), 0.01f);
    for (float& value : kernels[l]) {
      value = normal(bits) / std::sqrt(float(c.widths[l]));
    }
  }
  for (size_t l = 0; l < count; ++l) {
    const double rate = l == 0 ? c.input_rate : c.rate;
    Step<float> step{};
    step.kernel = kernels[l].data();
    step.bias = biases[l].data();
    step.in = c.widths[l];
    step.out = c.widths[l + 1];
    step.activation = l + 1 < count ? c.activation : Activation::kLinear;
    step.noise = c.noise;
    step.threshold = uint32_t(rate * 4294967296.0);
    step.scale = c.noise == Noise::kGaussian ? std::sqrt(rate / (1 - rate)) : 1 / (1 - rate);
    step.site = uint32_t(l);
    steps.push_back(step);
    const double size = double(step.in) * double(step.out);
    const double columns = l + 1 < count ? 1 - c.rate : 1;
    whole += size;
    survive += size * (1 - rate) * columns;
    subtracted += size * (l == 0 && rate <= 0.25 ? rate : 1 - rate) * columns;
  }
  std::vector<float> x(size_t(c.rows * c.widths[0]));
  for (float& value : x) {
    value = std::fabs(normal(bits));
  }
  std::vector<float> out(size_t(c.samples * c.rows * c.widths.back()));
  Chain<float> chain{};
  chain.x = x.data();
  chain.rows = c.rows;
  chain.entries = 1;
  chain.steps = steps.data();
  chain.num_steps = int(count);
  chain.seed = 5;
  chain.num_samples = c.samples;
  chain.shared = c.shared;
  chain.out = out.data();

  std::vector<Step<float>> quiet = steps;
  for (Step<float>& step : quiet) {
    step.noise = Noise::kNone;
    step.activation = Activation::kLinear;
  }
  Chain<float> bare = chain;
  std::vector<float> bare_out(out.size());
  bare.steps = quiet.data();
  bare.out = bare_out.data();

  struct Way {
    const char* name;
    const Chain<float>* chain;
    Strategy strategy;
  };
  std::vector<Way> ways = {{"ceiling", &bare, Strategy::kMasked},
                           {"auto", &chain, Strategy::kAuto},
                           {"masked", &chain, Strategy::kMasked}};
  if (c.shared && c.noise != Noise::kGaussian) {
    ways.push_back({"cut", &chain, Strategy::kCut});
  }
  if (c.rows * c.samples <= 4096) {
    ways.push_back({"columns", &chain, Strategy::kColumns});
  }
  if (only_way) {
    const auto other = [&](const Way& way) {
      return way.chain == &chain && std::strcmp(way.name, only_way) != 0;
    };
    ways.erase(std::remove_if(ways.begin(), ways.end(), other), ways.end());
  }
  std::vector<float> first;
  for (const Way& way : ways) {
    if (!kbd::run_chain(*way.chain, {parallel_for, num_threads}, way.strategy)) {
      std::printf("no memory\n");
      std::exit(1);
    }
    if (way.chain == &chain) {
      if (first.empty()) {
        first = out;
      }
      if (std::memcmp(first.data(), out.data(), out.size() * sizeof(float)) != 0) {
        std::printf("%s: other bits\n", way.name);
        std::exit(1);
      }
    }
  }
  std::vector<Times> times(ways.size());
  const double begun = wall();
  for (int round = 0; round < 15 && (round < 4 || wall() - begun < 6); ++round) {
    for (size_t w = 0; w < ways.size(); ++w) {
      // Small cases several times in a row: the kernels are in cache, as for one who calls often.
      for (int again = 0; again < (c.rows * c.samples <= 4096 ? 4 : 1); ++again) {
        const double before = wall(), used = processor();
        kbd::run_chain(*ways[w].chain, {parallel_for, num_threads}, ways[w].strategy);
        times[w].wall = std::min(times[w].wall, wall() - before);
        times[w].processor = std::min(times[w].processor, processor() - used);
      }
    }
  }
  const double vectors = double(c.rows * c.samples);
  const double ceiling = whole * vectors / times[0].processor;
  std::printf("%s\n", c.name);
  std::printf("  %-8s %10s %10s %9s %9s %11s %11s\n", "way", "cpu ms", "wall ms", "GFLOP/s",
              "/ ceiling", "of ceiling", "subtracting");
  for (size_t w = 0; w < ways.size(); ++w) {
    const double seconds = times[w].processor;
    std::printf("  %-8s %10.3f %10.3f %9.1f %9.3f", ways[w].name, 1e3 * seconds,
                1e3 * times[w].wall, 2e-9 * (w ? survive : whole) * vectors / seconds,
                seconds / times[0].processor);
    if (w > 0) {
      std::printf(" %11.3f %11.3f", survive * vectors / seconds / ceiling,
                  subtracted * vectors / seconds / ceiling);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  num_threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const char* only = argc > 2 ? argv[2] : nullptr;
  const char* way = argc > 3 ? argv[3] : nullptr;
  std::printf("instruction set %s, %d threads\n", kbd::isa_name(), num_threads);
  const std::vector<int64_t> large = {784, 1200, 1200, 1200, 1200, 10};
  run({"shared", large, 0.2, 0.5, 256, 50, true}, only, way);
  run({"independent", large, 0.2, 0.5, 256, 50, false}, only, way);
  run({"tenth, shared", large, 0.1, 0.1, 256, 50, true}, only, way);
  run({"small, shared", {13, 50, 1}, 0.05, 0.05, 51, 10000, true}, only, way);
  run({"small, independent", {13, 50, 1}, 0.05, 0.05, 51, 10000, false}, only, way);
  run({"one row, shared", large, 0.2, 0.5, 1, 50, true}, only, way);
  run({"one row, independent", large, 0.2, 0.5, 1, 50, false}, only, way);
  run({"sixteen rows, shared", large, 0.2, 0.5, 16, 50, true}, only, way);
  run({"gaussian", large, 0.2, 0.5, 64, 50, false, Noise::kGaussian}, only, way);
  run({"gelu", large, 0.2, 0.5, 64, 50, true, Noise::kBernoulli, Activation::kGelu}, only, way);
  return 0;
}
