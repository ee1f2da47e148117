// SPDX-License-Identifier: Apache-2.0
//
// Noise on tensors against a plain loop over the words of the contract: all effects, shapes with
// and without broadcasting, odd sizes; and the same bits for any number of threads.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "check.h"
#include "cpu/perturb.h"
#include "kbd/activation.h"
#include "kbd/balanced.h"

namespace {

using kbd::Effect;
using kbd::Perturbation;

constexpr uint64_t kSeed = 0x123456789ABCDEFull;

template <class T>
struct Case {
  std::vector<int64_t> dims;
  std::vector<bool> varies;
  Effect effect = Effect::kMask;
  int64_t rows = 3;
  int64_t samples = 5;
  bool x_per_sample = false;
  bool shared = false;
  bool balanced = false;
  int64_t first_sample = 14;
  int64_t first_row = 7;

  explicit Case(std::vector<int64_t> dims_of_row = {}, std::vector<bool> noisy = {})
      : dims(std::move(dims_of_row)), varies(std::move(noisy)) {}

  int64_t size() const {
    int64_t size = 1;
    for (int64_t dim : dims) {
      size *= dim;
    }
    return size;
  }

  std::vector<T> x() const {
    std::vector<T> x(size_t(rows * (x_per_sample ? samples : 1) * size()));
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = T(std::sin(double(i)) * 3);
    }
    return x;
  }

  Perturbation<T> settings() const {
    Perturbation<T> p{};
    p.x_per_sample = x_per_sample;
    p.rows = rows;
    p.num_dims = int(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      p.dims[d] = dims[d];
      p.varies[d] = varies[d];
    }
    p.effect = effect;
    p.threshold = 0x50000000u;
    p.a = 1.4375;
    p.b = effect == Effect::kLogNormal ? -0.5 : 0.3;
    p.c = -1.75;
    p.seed = kSeed;
    p.site = 3;
    p.first_sample = first_sample;
    p.num_samples = samples;
    p.first_row = first_row;
    p.shared = shared;
    p.balanced = balanced;
    return p;
  }

  std::vector<T> run(const kbd::ParallelFor& parallel_for = pieces(1)) const {
    const std::vector<T> from = x();
    std::vector<T> y(size_t(rows * samples * size()), T(-77));
    Perturbation<T> p = settings();
    p.x = from.data();
    p.out = y.data();
    kbd::run_perturbation(p, parallel_for);
    return y;
  }

  // The definition. Values are those of T, each operation rounded.
  std::vector<T> truth() const {
    const Perturbation<T> p = settings();
    const std::vector<T> from = x();
    int64_t units = 1;
    for (size_t d = 0; d < dims.size(); ++d) {
      units *= varies[d] ? dims[d] : 1;
    }
    std::vector<T> y;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t sample = 0; sample < samples; ++sample) {
        for (int64_t i = 0; i < size(); ++i) {
          int64_t unit = 0, stride = 1, rest = i;
          for (size_t d = dims.size(); d-- > 0;) {
            const int64_t at = rest % dims[d];
            rest /= dims[d];
            unit += varies[d] ? at * stride : 0;
            stride *= varies[d] ? dims[d] : 1;
          }
          const uint32_t word =
              kbd::word_of(kSeed, p.site, uint64_t(first_sample + sample),
                           shared ? 0 : uint64_t(first_row + row), units, unit, balanced);
          const int64_t at = x_per_sample ? row * samples + sample : row;
          y.push_back(effect_of(p, from[size_t(at * size() + i)], word));
        }
      }
    }
    return y;
  }

  static T effect_of(const Perturbation<T>& p, T x, uint32_t word) {
    const double normal = kbd::normal_of_word<double>(word);
    const double uniform = (double(word) + 0.5) * 0x1p-32;
    const bool keep = word >= p.threshold;
    switch (p.effect) {
      case Effect::kMask:
        return x * (keep ? T(p.a) : T(0));
      case Effect::kGaussian:
        return x * (T(1) + T(p.a) * T(normal));
      case Effect::kAddedGaussian:
        return x + T(p.a) * T(normal);
      case Effect::kAlpha:
        return T(p.a) * (keep ? x : T(p.c)) + T(p.b);
      case Effect::kUniform:
        return x * T(p.b + p.a * uniform);
      case Effect::kLogNormal:
        return x * T(std::exp(p.b + p.a * normal));
    }
    return x;
  }
};

template <class T>
void compare(const Case<T>& each, const char* what) {
  const std::vector<T> truth = each.truth(), y = each.run();
  bool fine = truth.size() == y.size();
  // Masks to the bit. Else values are within some roundings: those of the normal quantile (whose
  // tests allow 8), of the exponential, and of the sum with one.
  const bool exact = each.effect == Effect::kMask || each.effect == Effect::kAlpha ||
                     each.effect == Effect::kUniform;
  const double allowed = exact ? 0 : 16 * double(std::numeric_limits<T>::epsilon());
  double largest = 0;
  for (size_t i = 0; fine && i < y.size(); ++i) {
    const double size = std::fabs(double(truth[i])) + 8;
    largest = std::max(largest, std::fabs(double(truth[i]) - double(y[i])) / size);
  }
  if (!check(fine && largest <= allowed, what)) {
    std::printf("  effect %d, shared %d, balanced %d: %g, allowed %g\n", int(each.effect),
                each.shared, each.balanced, largest, allowed);
  }
  for (const kbd::ParallelFor& way : {pieces(1000), threads(4)}) {
    const std::vector<T> other = each.run(way);
    check(std::memcmp(other.data(), y.data(), y.size() * sizeof(T)) == 0, "threads");
  }
}

template <class T>
void shapes() {
  const struct {
    std::vector<int64_t> dims;
    std::vector<bool> varies;
  } shapes[] = {
      {{1}, {true}},
      {{37}, {true}},
      {{37}, {false}},
      {{5, 7, 3}, {true, true, true}},
      {{5, 7, 19}, {false, false, true}},  // spatial dropout
      {{11, 6}, {true, false}},            // one draw per step of a sequence
      {{4, 5, 6, 7}, {true, false, true, false}},
      {{4, 5, 6, 7}, {false, true, false, true}},
      {{2, 1, 3, 1, 5}, {true, false, true, true, false}},
      {{2048}, {true}},
      {{2049}, {true}},
      {{5003}, {true}},  // more than a piece
      {{3, 1500}, {true, true}},
      {{3, 2, 1500}, {true, false, true}},  // more than a piece, not in a row
      {{3, 4100}, {false, true}},
      {{1300, 3, 5}, {true, true, false}},
  };
  for (const auto& shape : shapes) {
    for (int kind = 0; kind < 8; ++kind) {
      Case<T> each(shape.dims, shape.varies);
      each.shared = kind & 1;
      each.balanced = kind & 2;
      each.x_per_sample = kind & 4;
      compare(each, "shape");
    }
  }
}

template <class T>
void effects() {
  for (int effect = 0; effect < kbd::kNumEffects; ++effect) {
    for (int kind = 0; kind < 4; ++kind) {
      Case<T> each({3, 41}, {bool(kind & 1), true});
      each.effect = Effect(effect);
      each.balanced = kind & 2;
      each.samples = 19;
      compare(each, "effect");
    }
  }
}

template <class T>
void sizes() {
  for (int64_t rows : {1, 63, 64, 65, 200}) {
    Case<T> each({17}, {true});
    each.rows = rows;
    each.shared = true;
    compare(each, "rows");
  }
  for (int zero = 0; zero < 3; ++zero) {
    Case<T> each({zero == 0 ? 0 : 3, 2}, {true, false});
    each.rows = zero == 1 ? 0 : 2;
    each.samples = zero == 2 ? 0 : 2;
    check(each.run().empty(), "zero size");
  }
  compare(Case<T>{}, "one number a row");
  Case<T> far({21}, {true});
  far.first_row = int64_t(1) << 50;
  far.first_sample = (int64_t(1) << 35) + 9;
  far.balanced = true;
  compare(far, "large counters");
}

// What is not finite stays so, kept or dropped, as in a product.
template <class T>
void not_finite() {
  Case<T> each({64}, {true});
  std::vector<T> x(size_t(each.rows * each.size()), std::numeric_limits<T>::infinity());
  std::vector<T> y(size_t(each.rows * each.samples * each.size()));
  Perturbation<T> p = each.settings();
  p.x = x.data();
  p.out = y.data();
  kbd::run_perturbation(p, pieces(1));
  for (T value : y) {
    check(!std::isfinite(value), "infinity");
  }
}

template <class T>
void all() {
  shapes<T>();
  effects<T>();
  sizes<T>();
  not_finite<T>();
}

}  // namespace

int main() {
  all<float>();
  all<double>();
  return report();
}
