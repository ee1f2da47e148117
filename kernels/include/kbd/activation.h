// SPDX-License-Identifier: Apache-2.0
//
// Activations as Keras defines them, and the normal quantile of a counter word.
#ifndef KBD_ACTIVATION_H_
#define KBD_ACTIVATION_H_

#include <cmath>
#include <cstdint>

#include "kbd/chain.h"

namespace kbd {
namespace {

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;
constexpr double kLeakySlope = 0.2;
constexpr double kInverseSqrt2 = 0.70710678118654752440;

template <class T>
inline T sigmoid(T x) {
  // Never the exponential of a large positive number.
  const T e = std::exp(-std::fabs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

template <class T>
inline T activation_of(Activation activation, T x) {
  switch (activation) {
    case Activation::kRelu:
      return x < T(0) ? T(0) : x;
    case Activation::kSigmoid:
      return sigmoid(x);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kElu:
      return x > T(0) ? x : std::expm1(x);
    case Activation::kSelu:
      return T(kSeluScale) * (x > T(0) ? x : T(kSeluAlpha) * std::expm1(x));
    case Activation::kGelu:
      return T(0.5) * x * std::erfc(-x * T(kInverseSqrt2));
    case Activation::kSilu:
      return x * sigmoid(x);
    case Activation::kSoftplus:
      return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
    case Activation::kLeakyRelu:
      return x < T(0) ? T(kLeakySlope) * x : x;
    case Activation::kLinear:
    case Activation::kSoftmax:
      break;
  }
  return x;
}

template <class T>
inline void softmax(int64_t n, T* y) {
  T largest = y[0];
  for (int64_t i = 1; i < n; ++i) {
    largest = y[i] > largest ? y[i] : largest;
  }
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    y[i] = std::exp(y[i] - largest);
    sum += y[i];
  }
  for (int64_t i = 0; i < n; ++i) {
    y[i] /= sum;
  }
}

template <class T>
inline void apply_activation(Activation activation, int64_t n, T* y) {
  if (activation == Activation::kSoftmax) {
    if (n > 0) {
      softmax(n, y);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    y[i] = activation_of(activation, y[i]);
  }
}

// The normal quantile (Wichura, 1988, AS 241: 16 digits): coefficients of its two rational
// functions, the highest first. The third, for probabilities below 1.4e-11, is not needed: the
// smallest of a word is 2^-33.
constexpr double kCentreTop[] = {
    2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
    13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608};
constexpr double kCentreBottom[] = {
    5226.495278852545925,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
    5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
constexpr double kTailTop[] = {7.7454501427834140764e-4, 0.0227238449892691845833,
                               0.24178072517745061177,   1.27045825245236838258,
                               3.64784832476320460504,   5.7694972214606914055,
                               4.6303378461565452959,    1.42343711074968357734};
constexpr double kTailBottom[] = {1.05075007164441684324e-9, 5.475938084995344946e-4,
                                  0.0151986665636164571966,  0.14810397642748007459,
                                  0.68976733498510000455,    1.6763848301838038494,
                                  2.05319162663775882187,    1.0};

inline double horner(const double (&coefficient)[8], double r) {
  double sum = coefficient[0];
  for (int i = 1; i < 8; ++i) {
    sum = sum * r + coefficient[i];
  }
  return sum;
}

// The normal quantile of a probability from 2^-33 to one half.
inline double lower_normal_quantile(double p) {
  const double q = p - 0.5;
  if (q > -0.425) {
    const double r = 0.180625 - q * q;
    return q * horner(kCentreTop, r) / horner(kCentreBottom, r);
  }
  const double r = std::sqrt(-std::log(p)) - 1.6;
  return -horner(kTailTop, r) / horner(kTailBottom, r);
}

// ndtri((word + 0.5) * 2^-32), the upper half as the mirror image of the lower.
template <class T>
inline T normal_of_word(uint32_t word) {
  const bool upper = word >= 0x80000000u;
  const double tail = (double(upper ? ~word : word) + 0.5) * 0x1p-32;
  const double draw = lower_normal_quantile(tail);
  return T(upper ? -draw : draw);
}

}  // namespace
}  // namespace kbd

#endif  // KBD_ACTIVATION_H_
