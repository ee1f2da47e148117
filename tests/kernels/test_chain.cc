// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a chain against a plain loop in long double: all noises, odd sizes, every way
// of running it; and the same bits for any way, batch, or number of threads.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "check.h"
#include "network.h"

namespace {

template <class T>
double rms_error(const std::vector<T>& values, const std::vector<long double>& truth) {
  long double sum = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const long double difference = (long double)(values[i]) - truth[i];
    sum += difference * difference;
  }
  return double(std::sqrt(sum / (long double)(std::max<size_t>(truth.size(), 1))));
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// The part of `whole` that a call of some rows and samples gives.
template <class T>
std::vector<T> part_of(const Network<T>& network, const std::vector<T>& whole, int64_t row,
                       int64_t rows, int64_t sample, int64_t samples) {
  const int64_t size = network.shape.entries * network.out();
  std::vector<T> part;
  for (int64_t s = sample; s < sample + samples; ++s) {
    const auto begin = whole.begin() + (s * network.shape.rows + row) * size;
    part.insert(part.end(), begin, begin + rows * size);
  }
  return part;
}

// Checks a network in every way. The error is at most twice that of a plain loop in T, which
// rounds more often; where both are near zero, a few units of the largest value are allowed.
template <class T>
void compare(const Network<T>& network, const char* what) {
  const std::vector<long double> truth = network.template reference<long double>();
  const double plain = rms_error(network.template reference<T>(), truth);
  double largest = 1;
  for (long double value : truth) {
    largest = std::max(largest, double(std::fabs(value)));
  }
  const double allowed = 2 * plain + 2 * double(std::numeric_limits<T>::epsilon()) * largest;
  const int64_t rows = network.shape.rows, samples = network.shape.samples;
  for (Subtract subtract : {Subtract::kNever, Subtract::kWherePossible}) {
    Call first;
    first.subtract = subtract;
    first.strategy = Strategy::kMasked;
    const std::vector<T> whole = network.run(first);
    const double error = rms_error(whole, truth);
    if (!check(error <= allowed, what)) {
      std::printf("  subtract %d: error %g, allowed %g\n", int(subtract), error, allowed);
    }
    for (Strategy strategy :
         {Strategy::kAuto, Strategy::kCut, Strategy::kMasked, Strategy::kColumns}) {
      Call call = first;
      call.strategy = strategy;
      call.parallel_for = pieces(1000);
      if (!check(same_bits(whole, network.run(call)), "the way changes the result")) {
        std::printf("  %s: strategy %d, subtract %d\n", what, int(strategy), int(subtract));
      }
      call.parallel_for = pieces(1);
      call.row = rows / 2, call.rows = 1;
      check(same_bits(part_of(network, whole, call.row, 1, 0, samples), network.run(call)),
            "the batch changes the result");
      call.row = 0, call.rows = rows;
      call.sample = samples / 2, call.samples = samples - samples / 2;
      check(
          same_bits(part_of(network, whole, 0, rows, call.sample, call.samples), network.run(call)),
          "the samples of a call change the result");
    }
  }
}

template <class T>
void all_cases() {
  const auto test = [](const char* what, std::vector<int64_t> widths, int64_t rows, double rate,
                       Noise noise, Activation activation, bool biased = true) {
    Shape shape;
    shape.widths = std::move(widths);
    shape.rows = rows;
    for (int kind = 0; kind < 4; ++kind) {
      shape.shared = kind & 1;
      shape.balanced = kind & 2;
      compare(Network<T>(shape, rate, noise, activation, biased), what);
    }
  };
  for (int a = 0; a < kbd::kNumActivations; ++a) {
    test("activation", {13, 59, 97, 5}, 7, 0.4, Noise::kBernoulli, Activation(a), a % 2 == 0);
  }
  for (double rate : {0.0, 0.1, 0.2, 0.5, 0.999999, 1.0}) {
    test("rate", {59, 33, 1}, 5, rate, Noise::kBernoulli, Activation::kRelu);
  }
  for (int64_t size : {1, 2, 3, 8, 16, 17, 59, 97, 1025}) {
    test("size", {size, size, 3}, 3, 0.2, Noise::kBernoulli, Activation::kRelu);
  }
  for (int64_t rows : {1, 2, 6, 83, 253, 521}) {
    test("rows", {9, 17, 4}, rows, 0.2, Noise::kBernoulli, Activation::kTanh, false);
  }
  // Slabs of all widths, and the edges between them.
  for (int64_t size : {17, 33, 49, 65, 79, 80, 81, 112, 129, 160, 161}) {
    test("slab", {size, size + 1, 2}, 4, 0.5, Noise::kBernoulli, Activation::kRelu);
  }
  // Wider than what a tile takes of its input at once, and all or most of some blocks dropped.
  for (int64_t size : {4096, 4097, 8500}) {
    for (double rate : {0.1, 0.5, 0.9997}) {
      test("wide", {size, 19, 2}, 3, rate, Noise::kBernoulli, Activation::kRelu);
    }
    test("wide", {size, 19, 2}, 3, 0.5, Noise::kNone, Activation::kSoftmax);
  }
  test("depth", {5, 8, 8, 8, 8, 8, 8, 8, 2}, 4, 0.2, Noise::kBernoulli, Activation::kElu);
  test("gaussian", {21, 34, 5}, 6, 0.3, Noise::kGaussian, Activation::kSilu);
  test("no noise", {21, 34, 5}, 6, 0.3, Noise::kNone, Activation::kGelu);
}

// Rows of several entries, with noise of their own or not, at widths that are not multiples of 4.
template <class T>
void entries() {
  for (int kind = 0; kind < 16; ++kind) {
    for (Noise noise : {Noise::kBernoulli, Noise::kGaussian}) {
      Shape shape;
      shape.widths = std::vector<int64_t>{13, 19, 23, 6};
      shape.balanced = kind & 8;
      shape.rows = 5;
      shape.entries = 7;
      shape.samples = 4;
      shape.shared = kind & 1;
      shape.x_per_sample = kind & 2;
      Network<T> network(shape, 0.2, noise, Activation::kRelu);
      network.steps[0].per_entry = kind & 4;
      network.steps[1].noise = noise;
      network.steps[2].per_entry = true;
      compare(network, "entries");
      network.steps[2].per_entry = false;
      compare(network, "entries");
    }
  }
}

// Counters whose lower 32 bits overflow within a vector's words, and large numbers.
template <class T>
void counters() {
  for (int64_t units : {1025, 100, 37, 300, 211, 77}) {
    const uint64_t groups = uint64_t(units + 3) / 4;
    const uint64_t before = 0xFFFFFFFFull / groups;  // the stream that holds counter 2^32 - 1
    Shape shape;
    shape.widths = std::vector<int64_t>{units, 5};
    shape.rows = 2;
    shape.samples = 2;
    shape.shared = false;
    shape.first_row = int64_t(before / 16);
    shape.first_sample = int64_t(before % 16);
    compare(Network<T>(shape, 0.5, Noise::kBernoulli, Activation::kLinear), "carry");
    shape.first_row = int64_t(1) << 55;
    shape.first_sample = (int64_t(1) << 33) + 15;
    compare(Network<T>(shape, 0.5, Noise::kBernoulli, Activation::kLinear), "large counters");
    shape.balanced = true;
    compare(Network<T>(shape, 0.5, Noise::kBernoulli, Activation::kLinear), "large orders");
    // The counters of orders overflow within a vector.
    const uint64_t orders = uint64_t(units + 7) / 8;
    shape.first_row = int64_t(0xFFFFFFFFull / orders);
    compare(Network<T>(shape, 0.5, Noise::kBernoulli, Activation::kLinear), "carry of orders");
  }
}

// Every size zero in turn: nothing is read or written that is not there.
template <class T>
void nothing() {
  for (int zero = 0; zero < 6; ++zero) {
    for (bool shared : {true, false}) {
      Shape shape;
      shape.widths = std::vector<int64_t>{5, 6, 3};
      if (zero < 3) {
        shape.widths[size_t(zero)] = 0;
      }
      shape.rows = zero == 3 ? 0 : 2;
      shape.entries = zero == 4 ? 0 : 3;
      shape.samples = zero == 5 ? 0 : 2;
      shape.shared = shared;
      for (Activation activation : {Activation::kRelu, Activation::kSoftmax}) {
        const Network<T> network(shape, 0.2, Noise::kBernoulli, activation);
        const std::vector<long double> truth = network.template reference<long double>();
        for (Strategy strategy :
             {Strategy::kAuto, Strategy::kCut, Strategy::kMasked, Strategy::kColumns}) {
          for (Subtract subtract : {Subtract::kNever, Subtract::kWherePossible}) {
            Call call;
            call.strategy = strategy;
            call.subtract = subtract;
            const std::vector<T> values = network.run(call);
            check(values.size() == truth.size() && rms_error(values, truth) < 1e-6, "zero size");
          }
        }
      }
    }
  }
  const Chain<T> empty{};
  check(kbd::run_chain(empty, pieces(1)), "empty chain");
}

// One unit outweighs the rest: where it is dropped, subtraction would leave nothing but rounding
// errors. Vector by vector, so that the largest do not hide the others.
template <class T>
void cancellation() {
  const double huge = sizeof(T) == 4 ? 1e30 : 1e200;
  for (double factor : {1e3, 1e6, huge, 1 / huge, double(INFINITY), double(NAN)}) {
    Shape shape;
    shape.widths = std::vector<int64_t>{301, 40};
    shape.rows = 3;
    shape.samples = 24;
    Network<T> network(shape, 0.2, Noise::kBernoulli, Activation::kLinear, false);
    for (int64_t r = 0; r < shape.rows; ++r) {
      for (int64_t k = 0; k < 301 && factor < 1; ++k) {
        network.x[size_t(r * 301 + k)] *= T(factor);  // and the odd one stays
      }
      T& odd = network.x[size_t(r * 301 + 17 * r)];
      odd = factor < 1 ? T(factor) * T(1e6) : T(factor);
    }
    const std::vector<long double> truth = network.template reference<long double>();
    const std::vector<T> plain = network.template reference<T>();
    for (Strategy strategy : {Strategy::kCut, Strategy::kMasked, Strategy::kColumns}) {
      Call call;
      call.strategy = strategy;
      call.subtract = Subtract::kWherePossible;
      const std::vector<T> values = network.run(call);
      for (size_t v = 0; v < truth.size() / 40; ++v) {
        long double ours = 0, theirs = 0, size = 0;
        bool finite = true;
        for (size_t i = v * 40; i < (v + 1) * 40; ++i) {
          finite &= std::isfinite(truth[i]);
          check(std::isfinite(truth[i]) == std::isfinite(values[i]), "cancellation: finite");
          ours += std::pow((long double)(values[i]) - truth[i], 2);
          theirs += std::pow((long double)(plain[i]) - truth[i], 2);
          size += truth[i] * truth[i];
        }
        const long double floor = std::numeric_limits<T>::epsilon() * std::sqrt(size);
        if (finite && !check(std::sqrt(ours) <= 2 * std::sqrt(theirs) + floor, "cancellation")) {
          std::printf("  factor %g, strategy %d: %g against %g\n", factor, int(strategy),
                      double(std::sqrt(ours)), double(std::sqrt(theirs)));
        }
      }
    }
    if (std::isfinite(factor)) {
      compare(network, "cancellation");
    }
  }
}

// Zeros of either sign, and products too small for a number: an element that is skipped and one
// that is multiplied by zero must give the same bits.
template <class T>
void zeros() {
  for (double rate : {0.2, 0.5}) {
    Shape shape;
    shape.widths = std::vector<int64_t>{90, 100, 37};
    shape.rows = 9;
    Network<T> network(shape, rate, Noise::kBernoulli, Activation::kRelu);
    for (size_t i = 0; i < network.x.size(); ++i) {
      network.x[i] *= i % 3 == 0 ? T(0) : i % 3 == 1 ? std::numeric_limits<T>::min() : T(1);
    }
    std::fill(network.x.begin(), network.x.begin() + 90, T(0));
    for (std::vector<T>& bias : network.biases) {
      std::fill(bias.begin(), bias.end(), T(-0.0));
    }
    compare(network, "zeros");
    shape.widths = std::vector<int64_t>{90, 37};
    Network<T> tiny(shape, rate, Noise::kBernoulli, Activation::kLinear);
    std::fill(tiny.x.begin(), tiny.x.end(), std::numeric_limits<T>::denorm_min());
    std::fill(tiny.biases[0].begin(), tiny.biases[0].end(), T(-0.0));
    compare(tiny, "zeros");
  }
}

// Kernels that are not finite: no crash, and no number where there is none.
template <class T>
void strange_kernels() {
  Shape shape;
  shape.widths = std::vector<int64_t>{33, 21, 4};
  shape.rows = 3;
  Network<T> network(shape, 0.2, Noise::kBernoulli, Activation::kRelu);
  for (T& value : network.kernels[0]) {
    value = std::numeric_limits<T>::quiet_NaN();
  }
  for (Strategy strategy : {Strategy::kCut, Strategy::kMasked, Strategy::kColumns}) {
    Call call;
    call.strategy = strategy;
    for (T value : network.run(call)) {
      check(std::isnan(value), "a NaN is lost");
    }
  }
}

// Kernels that begin with a cache line, and whose rows do, are read where they are by few vectors;
// not so where 64 rows fall on the same lines of a cache (256 columns).
template <class T>
void kernels_in_place() {
  for (int64_t size : {176, 240, 256}) {
    for (int64_t rows : {1, 90}) {
      for (bool shared : {true, false}) {
        Shape shape;
        shape.widths = std::vector<int64_t>{300, size, size, 5};
        shape.rows = rows;
        shape.shared = shared;
        Network<T> network(shape, 0.5, Noise::kBernoulli, Activation::kRelu);
        compare(network, "kernels anywhere");
        const std::vector<T> anywhere = network.run();
        std::vector<std::vector<T>> memory;
        for (Step<T>& step : network.steps) {
          const size_t count = size_t(step.in * step.out);
          memory.emplace_back(count + 64 / sizeof(T));
          void* place = memory.back().data();
          size_t space = memory.back().size() * sizeof(T);
          T* aligned = static_cast<T*>(std::align(64, count * sizeof(T), place, space));
          std::memcpy(aligned, step.kernel, count * sizeof(T));
          step.kernel = aligned;
        }
        compare(network, "kernels in place");
        check(same_bits(anywhere, network.run()), "the place of a kernel changes the result");
      }
    }
  }
}

template <class T>
void many_threads() {
  for (bool shared : {true, false}) {
    Shape shape;
    shape.widths = std::vector<int64_t>{61, 150, 70, 9};
    shape.rows = 300;
    shape.samples = 9;
    shape.shared = shared;
    const Network<T> network(shape, 0.2, Noise::kBernoulli, Activation::kSoftmax);
    const std::vector<T> alone = network.run();
    for (Strategy strategy : {Strategy::kCut, Strategy::kMasked, Strategy::kColumns}) {
      Call call;
      call.strategy = strategy;
      for (int count : {1, 4, 64}) {
        call.parallel_for = threads(count);
        check(same_bits(alone, network.run(call)), "threads change the result");
      }
    }
  }
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

// Computed in Python from the text of the contract.
void balanced_known_answers() {
  const uint64_t last_sample = (uint64_t(1) << 36) - 1;
  check(kbd::word_of(0, 0, 0, 0, 1, 0, true) == 0x2627e8d5u, "sample 0");
  check(kbd::word_of(0, 0, 1, 0, 1, 0, true) == 0xf8e4cca4u, "sample 1");
  check(kbd::word_of(0x123456789ABCDEFull, 3, 37, 5, 100, 98, true) == 0x31f87dacu, "another");
  check(kbd::word_of(~0ull, 0x7FFFFFFFu, last_sample, 1ull << 33, 13, 12, true) == 0x4e4e49a5u,
        "the last site and sample");
}

// Masks of a table instead of words, alone and between others.
template <class T>
void tables() {
  for (int kind = 0; kind < 16; ++kind) {
    for (double share : {0.1, 0.6}) {
      Shape shape;
      shape.widths = std::vector<int64_t>{150, 33, 21, 6};
      shape.rows = kind & 8 ? 9 : 1;
      shape.entries = kind & 4 ? 3 : 1;
      shape.samples = 5;
      shape.first_row = 4;
      shape.shared = kind & 1;
      Network<T> network(shape, 0.3, Noise::kBernoulli, Activation::kRelu);
      std::mt19937 bits(5);
      std::vector<std::vector<uint8_t>> masks;
      for (size_t l = 0; l < 3; ++l) {
        Step<T>& step = network.steps[l];
        if (l == 1 && kind & 2) {
          continue;  // this one has words
        }
        // The masks end where the memory does.
        masks.emplace_back(size_t((int64_t(l) + 1) * step.in));
        for (uint8_t& value : masks.back()) {
          value = double(bits()) * 0x1p-32 < share ? 0 : uint8_t(1 + l);
        }
        step.noise = Noise::kBernoulli;
        step.threshold = uint32_t(share * 4294967296.0);
        step.scale = 1;
        step.table = masks.back().data();
        step.num_masks = int64_t(l) + 1;
      }
      compare(network, "tables");
    }
  }
}

template <class T>
void all() {
  all_cases<T>();
  entries<T>();
  counters<T>();
  nothing<T>();
  cancellation<T>();
  zeros<T>();
  strange_kernels<T>();
  kernels_in_place<T>();
  many_threads<T>();
  tables<T>();
}

}  // namespace

int main() {
  std::printf("instruction set: %s\n", kbd::isa_name());
  if (kbd::isa_problem()) {
    std::printf("%s\n", kbd::isa_problem());
  }
  philox_known_answers();
  balanced_known_answers();
  all<float>();
  all<double>();
  return report();
}
