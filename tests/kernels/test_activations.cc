// SPDX-License-Identifier: Apache-2.0
//
// Activations and normal draws against long double, in units in the last place, over the whole
// range of numbers; what is not a number, and infinities.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "check.h"
#include "network.h"

namespace {

// The activation of each value, one vector of one element each.
template <class T>
std::vector<T> apply(Activation activation, const std::vector<T>& values) {
  const T one = 1;
  Step<T> step{};
  step.kernel = &one;
  step.in = step.out = 1;
  step.activation = activation;
  Chain<T> chain{};
  std::vector<T> result(values.size());
  chain.x = values.data();
  chain.rows = int64_t(values.size());
  chain.entries = 1;
  chain.steps = &step;
  chain.num_steps = 1;
  chain.num_samples = 1;
  chain.out = result.data();
  check(kbd::run_chain(chain, pieces(1 << 30)), "memory");
  return result;
}

long double truth(Activation activation, long double x) {
  const long double e = std::exp(-std::fabs(x));
  const long double sigmoid = (x < 0 ? e : 1) / (1 + e);
  switch (activation) {
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kSigmoid:
      return sigmoid;
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kElu:
      return x > 0 ? x : std::expm1(x);
    case Activation::kSelu:
      return 1.0507009873554804934193349852946L *
             (x > 0 ? x : 1.6732632423543772848170429916717L * std::expm1(x));
    case Activation::kGelu:
      return 0.5L * x * std::erfc(-x * 0.70710678118654752440084436210485L);
    case Activation::kSilu:
      return x * sigmoid;
    case Activation::kSoftplus:
      return (x > 0 ? x : 0) + std::log1p(e);
    case Activation::kLeakyRelu:
      return x < 0 ? 0.2L * x : x;
    default:
      return x;
  }
}

// |value - truth| in units in the last place of T at the truth; in the smallest number below.
template <class T>
double error_in_ulps(T value, long double truth) {
  const T rounded = T(truth);
  if (std::isnan(truth) || std::isinf(rounded)) {
    return std::isnan(truth) ? (std::isnan(value) ? 0 : 1e9) : (value == rounded ? 0 : 1e9);
  }
  const T size = std::max(std::fabs(rounded), std::numeric_limits<T>::min());
  const T unit = std::nextafter(size, std::numeric_limits<T>::infinity()) - size;
  const double error = double(std::fabs((long double)(value)-truth) / (long double)(unit));
  return error >= 0 ? error : 1e9;
}

template <class T>
std::vector<T> values_of_all_sizes() {
  std::mt19937_64 bits(11);
  std::vector<T> values = {T(0),
                           T(-0.0),
                           std::numeric_limits<T>::infinity(),
                           -std::numeric_limits<T>::infinity(),
                           std::numeric_limits<T>::quiet_NaN(),
                           std::numeric_limits<T>::max(),
                           std::numeric_limits<T>::lowest(),
                           std::numeric_limits<T>::min(),
                           -std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::denorm_min(),
                           -std::numeric_limits<T>::denorm_min()};
  for (int i = 0; i < 40000; ++i) {
    uint64_t word = bits();
    T value;
    std::memcpy(&value, &word, sizeof(T));  // any bits at all
    values.push_back(value);
    const double uniform = double(bits()) * 0x1p-64;
    values.push_back(T((uniform - 0.5) * 8));
    values.push_back(T((uniform - 0.5) * 80));
    values.push_back(T((uniform - 0.5) * (sizeof(T) == 4 ? 220 : 1500)));
  }
  return values;
}

template <class T>
void accuracy() {
  const std::vector<T> values = values_of_all_sizes<T>();
  for (int a = 0; a < kbd::kNumActivations; ++a) {
    const Activation activation = Activation(a);
    if (activation == Activation::kSoftmax) {
      continue;
    }
    const std::vector<T> results = apply(activation, values);
    double worst = 0;
    T where = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      double error = error_in_ulps(results[i], truth(activation, values[i]));
      if (activation == Activation::kSilu && values[i] < -80) {
        // x times a sigmoid that may be too small for a normal number, as in TensorFlow.
        error /= std::max(1.0, std::min(1000.0, double(-values[i])));
      }
      if (error > worst) {
        worst = error, where = values[i];
      }
    }
    std::printf("  activation %2d, %zu bytes: %.2f ulp at %g\n", a, sizeof(T), worst,
                double(where));
    check(worst <= 4, "activation: accuracy");
  }
}

template <class T>
void softmax() {
  std::mt19937 bits(5);
  std::normal_distribution<double> normal;
  for (int64_t size : {1, 2, 7, 10, 16, 33, 1000}) {
    std::vector<T> identity(size_t(size * size));
    for (int64_t i = 0; i < size; ++i) {
      identity[size_t(i * size + i)] = 1;
    }
    std::vector<T> x(size_t(3 * size)), out(x.size());
    for (T& value : x) {
      value = T(10 * normal(bits));
    }
    Step<T> step{};
    step.kernel = identity.data();
    step.in = step.out = size;
    step.activation = Activation::kSoftmax;
    Chain<T> chain{};
    chain.x = x.data();
    chain.rows = 3;
    chain.entries = chain.num_samples = 1;
    chain.steps = &step;
    chain.num_steps = 1;
    chain.out = out.data();
    check(kbd::run_chain(chain, pieces(1)), "memory");
    for (int64_t row = 0; row < 3; ++row) {
      const T* from = &x[size_t(row * size)];
      long double largest = from[0], sum = 0;
      for (int64_t i = 0; i < size; ++i) {
        largest = std::max(largest, (long double)(from[i]));
      }
      for (int64_t i = 0; i < size; ++i) {
        sum += std::exp((long double)(from[i]) - largest);
      }
      for (int64_t i = 0; i < size; ++i) {
        const long double exact = std::exp((long double)(from[i]) - largest) / sum;
        // The difference from the largest is rounded before the exponential, and the sum too.
        const double allowed = 16 + double(largest - (long double)(from[i]));
        const double error = error_in_ulps(out[size_t(row * size + i)], exact);
        if (!check(error <= allowed, "softmax")) {
          std::printf("  %g of size %d: %g ulp, allowed %g\n", double(from[i]), int(size), error,
                      allowed);
        }
      }
    }
  }
}

// The noise of a chain with one unit per row and a deviation of one is the draw itself.
template <class T>
void normal_draws() {
  const T one = 1;
  Step<T> step{};
  step.kernel = &one;
  step.in = step.out = 1;
  step.noise = Noise::kGaussian;
  step.scale = 1;
  const int64_t rows = 100000;
  std::vector<T> x(size_t(rows), T(1)), out(x.size());
  Chain<T> chain{};
  chain.x = x.data();
  chain.rows = rows;
  chain.entries = chain.num_samples = 1;
  chain.steps = &step;
  chain.num_steps = 1;
  chain.out = out.data();
  check(kbd::run_chain(chain, pieces(1000)), "memory");
  double worst = 0, square = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const kbd::Stream stream = kbd::stream_of(0, 0, 0, uint64_t(row), 1);
    const uint32_t word = kbd::philox(stream.key, stream.low, stream.high).word[0];
    const double draw = kbd::normal_of_word<double>(word);
    square += draw * draw;
    // The inverse: P(normal < draw) is the word's probability.
    const double p = (double(word) + 0.5) * 0x1p-32;
    check(std::fabs(0.5 * std::erfc(-draw * 0.70710678118654752440) - p) < 1e-14, "quantile");
    worst = std::max(worst, std::fabs(double(out[size_t(row)]) - (1 + draw)));
  }
  // 1 + draw is rounded twice, at a size of up to 8.
  if (!check(worst <= 8 * double(std::numeric_limits<T>::epsilon()), "normal draws")) {
    std::printf("  error %g\n", worst);
  }
  // Four standard errors of a mean square: 4 sqrt(2 / 100000).
  check(std::fabs(square / double(rows) - 1) < 0.018, "variance of normal draws");
}

}  // namespace

int main() {
  std::printf("instruction set: %s\n", kbd::isa_name());
  accuracy<float>();
  accuracy<double>();
  softmax<float>();
  softmax<double>();
  normal_draws<float>();
  normal_draws<double>();
  return report();
}
