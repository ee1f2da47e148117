// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a chain against a plain loop in double, for every strategy: odd sizes, all
// activations and noises, bit-identical results for any tiling. Exits with the number of failures.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "cpu/chain.h"
#include "kbd/activation.h"
#include "kbd/philox.h"

namespace {

using kbd::Activation;
using kbd::Chain;
using kbd::Noise;
using kbd::Step;
using kbd::Strategy;

int failures = 0;

void check(bool fine, const char* what) {
  if (!fine) {
    std::printf("FAILED: %s\n", what);
    ++failures;
  }
}

// Pieces of the work in order, in turn from both ends, or one at a time.
kbd::ParallelFor pieces(int64_t size) {
  return [size](int64_t total, int64_t, const std::function<void(int64_t, int64_t)>& task) {
    for (int64_t end = total; end > 0; end -= size) {
      task(end > size ? end - size : 0, end);
    }
  };
}

template <class T>
struct Network {
  std::vector<int64_t> widths;
  std::vector<std::vector<T>> kernels;
  std::vector<std::vector<T>> biases;
  std::vector<Step<T>> steps;
  std::vector<T> x;
  int64_t rows;

  Network(std::vector<int64_t> sizes, int64_t num_rows, double rate, Noise noise,
          Activation activation, bool biased)
      : widths(std::move(sizes)), rows(num_rows) {
    std::mt19937 bits(7);
    std::normal_distribution<double> normal;
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
      steps.push_back({kernels[l].data(), biased ? biases[l].data() : nullptr, widths[l],
                       widths[l + 1], activation, l % 3 == 1 && count > 2 ? Noise::kNone : noise,
                       uint32_t(threshold), float(scale), uint32_t(l)});
    }
    x.resize(size_t(rows * widths[0]));
    for (T& value : x) {
      value = T(normal(bits));
    }
  }

  std::vector<T> run(bool shared, Strategy strategy, int64_t samples, int64_t piece,
                     int64_t first_row = 0, int64_t num_rows = -1, int64_t first_sample = 3) {
    num_rows = num_rows < 0 ? rows : num_rows;
    std::vector<T> out(size_t(samples * num_rows * widths.back()), T(-77));
    const Chain<T> chain{x.data() + first_row * widths[0],
                         num_rows,
                         steps.data(),
                         int(steps.size()),
                         0x123456789ABCDEFull,
                         first_sample,
                         samples,
                         first_row,
                         shared,
                         out.data()};
    check(kbd::run_chain(chain, pieces(piece), strategy), "memory");
    return out;
  }

  // The definition, in double.
  std::vector<double> reference(bool shared, int64_t samples) {
    std::vector<double> out;
    for (int64_t s = 3; s < 3 + samples; ++s) {
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<double> h(x.begin() + r * widths[0], x.begin() + (r + 1) * widths[0]);
        for (const Step<T>& step : steps) {
          const kbd::Stream stream = kbd::stream_of(0x123456789ABCDEFull, step.site, uint64_t(s),
                                                    shared ? 0 : uint64_t(r), step.in);
          std::vector<double> next(size_t(step.out));
          for (int64_t k = 0; k < step.in; ++k) {
            const uint32_t word =
                kbd::philox(stream.key, stream.low + uint64_t(k / 4), stream.high).word[k % 4];
            if (step.noise == Noise::kBernoulli) {
              h[size_t(k)] *= word >= step.threshold ? double(step.scale) : 0.0;
            } else if (step.noise == Noise::kGaussian) {
              h[size_t(k)] *= 1 + double(step.scale) * kbd::normal_of_word<double>(word);
            }
            for (int64_t n = 0; n < step.out; ++n) {
              next[size_t(n)] += h[size_t(k)] * double(step.kernel[k * step.out + n]);
            }
          }
          for (int64_t n = 0; n < step.out; ++n) {
            next[size_t(n)] += step.bias ? double(step.bias[n]) : 0.0;
          }
          kbd::apply_activation(step.activation, step.out, next.data());
          h = next;
        }
        out.insert(out.end(), h.begin(), h.end());
      }
    }
    return out;
  }
};

template <class T>
void compare(Network<T>& network, bool shared, const char* what) {
  const int64_t samples = 3;
  const std::vector<double> truth = network.reference(shared, samples);
  double largest = 1;
  for (double value : truth) {
    largest = std::max(largest, std::fabs(value));
  }
  // Each step sums `in` products, with an error of at most in * epsilon of their size; errors of
  // a random sign grow as its root. Eight steps of 1025, with a margin of four.
  const double epsilon = sizeof(T) == 4 ? 6e-8 : 1.2e-16;
  const double tolerance = 4 * std::sqrt(8 * 1025.0) * epsilon * largest;
  for (Strategy strategy :
       {Strategy::kAuto, Strategy::kMasked, Strategy::kCut, Strategy::kCutSubtract}) {
    const std::vector<T> whole = network.run(shared, strategy, samples, 1);
    double error = 0;
    for (size_t i = 0; i < truth.size(); ++i) {
      const double difference = std::fabs(double(whole[i]) - truth[i]);
      error = std::max(error, difference >= 0 ? difference : 1e9);  // NaN counts
    }
    if (!(error <= tolerance)) {
      std::printf("%s strategy %d shared %d: error %g above %g\n", what, int(strategy), shared,
                  error, tolerance);
    }
    check(error <= tolerance, what);
    check(whole == network.run(shared, strategy, samples, 1000), "pieces change the result");
    if (strategy != Strategy::kAuto && network.rows > 1) {
      // One row at a time, by its index in the whole.
      const int64_t row = network.rows / 2, out = network.widths.back();
      const std::vector<T> alone = network.run(shared, strategy, samples, 1, row, 1);
      for (int64_t s = 0; s < samples; ++s) {
        check(std::memcmp(&alone[size_t(s * out)], &whole[size_t((s * network.rows + row) * out)],
                          size_t(out) * sizeof(T)) == 0,
              "the batch changes the result");
      }
    }
  }
}

template <class T>
void all_cases() {
  for (int a = 0; a < kbd::kNumActivations; ++a) {
    for (bool shared : {true, false}) {
      Network<T> network({13, 59, 97, 5}, 7, 0.4, Noise::kBernoulli, Activation(a), a % 2 == 0);
      compare(network, shared, "activation");
    }
  }
  for (double rate : {0.0, 0.1, 0.5, 0.999999, 1.0}) {
    Network<T> network({59, 33, 1}, 5, rate, Noise::kBernoulli, Activation::kRelu, true);
    compare(network, true, "rate");
    compare(network, false, "rate");
  }
  for (int64_t size : {1, 3, 59, 97, 1025}) {
    Network<T> network({size, size, 3}, 3, 0.5, Noise::kBernoulli, Activation::kRelu, true);
    compare(network, true, "size");
    compare(network, false, "size");
  }
  for (int64_t rows : {1, 2, 6, 83, 253}) {
    Network<T> network({9, 17, 4}, rows, 0.3, Noise::kBernoulli, Activation::kTanh, false);
    compare(network, true, "rows");
    compare(network, false, "rows");
  }
  Network<T> deep({5, 8, 8, 8, 8, 8, 8, 8, 2}, 4, 0.2, Noise::kBernoulli, Activation::kElu, true);
  compare(deep, true, "depth");
  Network<T> gaussian({21, 34, 5}, 6, 0.3, Noise::kGaussian, Activation::kSilu, true);
  compare(gaussian, true, "gaussian");
  compare(gaussian, false, "gaussian");
  Network<T> certain({21, 34, 5}, 6, 0.3, Noise::kNone, Activation::kGelu, true);
  compare(certain, true, "no noise");
}

void philox_known_answers() {
  const kbd::Words zero = kbd::philox(0, 0, 0);
  const uint32_t answer[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  check(std::memcmp(zero.word, answer, sizeof(answer)) == 0, "philox of zero");
  const uint64_t ones = ~0ull;
  const kbd::Words one = kbd::philox(ones, ones, ones);
  const uint32_t other[4] = {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu};
  check(std::memcmp(one.word, other, sizeof(other)) == 0, "philox of ones");
}

}  // namespace

int main() {
  std::printf("instruction set: %s\n", kbd::isa_name());
  philox_known_answers();
  all_cases<float>();
  all_cases<double>();
  std::printf("%s\n", failures == 0 ? "all passed" : "some failed");
  return failures == 0 ? 0 : 1;
}
