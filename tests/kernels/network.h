// SPDX-License-Identifier: Apache-2.0
//
// A random network for tests: runs a chain, and states what it must give by plain loops.
#ifndef KBD_TESTS_NETWORK_H_
#define KBD_TESTS_NETWORK_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "check.h"
#include "cpu/chain.h"
#include "kbd/activation.h"
#include "kbd/balanced.h"

namespace {

using kbd::Activation;
using kbd::Chain;
using kbd::Noise;
using kbd::Step;
using kbd::Strategy;
using kbd::Subtract;

constexpr uint64_t kSeed = 0x123456789ABCDEFull;

struct Shape {
  std::vector<int64_t> widths;
  int64_t rows = 1;
  int64_t entries = 1;
  int64_t samples = 3;
  int64_t first_row = 0;
  int64_t first_sample = 3;
  bool x_per_sample = false;
  bool shared = true;
  bool balanced = false;
};

// Which part of a network's rows and samples a call runs, and how.
struct Call {
  Strategy strategy = Strategy::kAuto;
  Subtract subtract = Subtract::kAuto;
  int64_t row = 0, rows = -1;        // all from `row` on
  int64_t sample = 0, samples = -1;  // all from `sample` on
  kbd::ParallelFor parallel_for = pieces(1);
  int64_t* done = nullptr;  // receives the multiply-adds
};

template <class T>
struct Network {
  Shape shape;
  std::vector<std::vector<T>> kernels, biases;
  std::vector<Step<T>> steps;
  std::vector<T> x;

  Network(Shape wanted, double rate, Noise noise, Activation activation, bool biased = true)
      : shape(std::move(wanted)) {
    std::mt19937 bits(7);
    std::normal_distribution<double> normal;
    const std::vector<int64_t>& widths = shape.widths;
    const size_t count = widths.size() - 1;
    for (size_t l = 0; l < count; ++l) {
      kernels.emplace_back(size_t(widths[l] * widths[l + 1]));
      biases.emplace_back(size_t(widths[l + 1]));
      for (T& value : kernels[l]) {
        value = T(normal(bits) / std::sqrt(double(widths[l]) + 1));
      }
      for (T& value : biases[l]) {
        value = T(0.1 * normal(bits));
      }
    }
    const double scale = noise == Noise::kGaussian ? 0.3 : rate < 1 ? 1 / (1 - rate) : 0;
    const double threshold = std::min(rate * 4294967296.0, 4294967295.0);
    for (size_t l = 0; l < count; ++l) {
      Step<T> step{};
      step.kernel = kernels[l].data();
      step.bias = biased ? biases[l].data() : nullptr;
      step.in = widths[l];
      step.out = widths[l + 1];
      step.activation = activation;
      step.noise = l % 3 == 1 && count > 2 ? Noise::kNone : noise;
      step.threshold = uint32_t(threshold);
      step.scale = scale;
      step.site = uint32_t(l);
      step.per_entry = false;
      steps.push_back(step);
    }
    x.resize(size_t((shape.x_per_sample ? shape.samples : 1) * vectors() * widths[0]));
    for (T& value : x) {
      value = T(normal(bits));
    }
  }

  int64_t vectors() const { return shape.rows * shape.entries; }
  int64_t out() const { return shape.widths.back(); }

  std::vector<T> run(const Call& call = {}) const {
    const int64_t rows = call.rows < 0 ? shape.rows - call.row : call.rows;
    const int64_t samples = call.samples < 0 ? shape.samples - call.sample : call.samples;
    const int64_t row_size = shape.entries * shape.widths[0];
    std::vector<T> part;
    for (int64_t s = 0; s < (shape.x_per_sample ? samples : 1); ++s) {
      const int64_t of_sample = shape.x_per_sample ? (call.sample + s) * shape.rows : 0;
      const auto begin = x.begin() + (of_sample + call.row) * row_size;
      part.insert(part.end(), begin, begin + rows * row_size);
    }
    std::vector<T> result(size_t(samples * rows * shape.entries * out()), T(-77));
    Chain<T> chain{};
    chain.x = part.data();
    chain.x_per_sample = shape.x_per_sample;
    chain.rows = rows;
    chain.entries = shape.entries;
    chain.steps = steps.data();
    chain.num_steps = int(steps.size());
    chain.seed = kSeed;
    chain.first_sample = shape.first_sample + call.sample;
    chain.num_samples = samples;
    chain.first_row = shape.first_row + call.row;
    chain.shared = shape.shared;
    chain.balanced = shape.balanced;
    chain.out = result.data();
    check(kbd::run_chain(chain, call.parallel_for, call.strategy, call.subtract, call.done),
          "memory");
    return result;
  }

  // The definition, in arithmetic of type R.
  template <class R>
  std::vector<R> reference() const {
    std::vector<R> result;
    for (int64_t s = 0; s < shape.samples; ++s) {
      for (int64_t v = 0; v < vectors(); ++v) {
        const T* from = x.data() + ((shape.x_per_sample ? s * vectors() : 0) + v) * shape.widths[0];
        std::vector<R> h;
        for (int64_t k = 0; k < shape.widths[0]; ++k) {
          h.push_back(R(from[k]));
        }
        for (const Step<T>& step : steps) {
          h = step_of<R>(step, s, v / shape.entries, v % shape.entries, h);
        }
        result.insert(result.end(), h.begin(), h.end());
      }
    }
    return result;
  }

 private:
  template <class R>
  std::vector<R> step_of(const Step<T>& step, int64_t s, int64_t row, int64_t entry,
                         std::vector<R> h) const {
    const int64_t units = step.per_entry ? shape.entries * step.in : step.in;
    std::vector<R> next(size_t(step.out));
    for (int64_t k = 0; k < step.in; ++k) {
      const int64_t unit = step.per_entry ? entry * step.in + k : k;
      const uint32_t word = kbd::word_of(kSeed, step.site, uint64_t(shape.first_sample + s),
                                         shape.shared ? 0 : uint64_t(shape.first_row + row), units,
                                         unit, shape.balanced);
      if (step.table) {
        const int64_t turn = shape.first_sample + s + (shape.shared ? 0 : shape.first_row + row);
        h[size_t(k)] *= R(step.table[turn % step.num_masks * step.in + k] ? step.scale : 0);
      } else if (step.noise == Noise::kBernoulli) {
        h[size_t(k)] = word >= step.threshold ? h[size_t(k)] * R(step.scale) : R(0);
      } else if (step.noise == Noise::kGaussian) {
        h[size_t(k)] *= 1 + R(step.scale) * kbd::normal_of_word<R>(word);
      }
      for (int64_t n = 0; n < step.out; ++n) {
        next[size_t(n)] += h[size_t(k)] * R(step.kernel[k * step.out + n]);
      }
    }
    for (int64_t n = 0; n < step.out; ++n) {
      next[size_t(n)] += step.bias ? R(step.bias[n]) : R(0);
    }
    kbd::apply_activation(step.activation, step.out, next.data());
    return next;
  }
};

}  // namespace

#endif  // KBD_TESTS_NETWORK_H_
