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

// The normal quantile of a probability below one half (Wichura, 1988, AS 241: 16 digits).
inline double lower_normal_quantile(double p) {
  const double q = p - 0.5;
  if (q > -0.425) {
    const double r = 0.180625 - q * q;
    return q *
           (((((((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) *
                    r +
                45921.953931549871457) *
                   r +
               13731.693765509461125) *
                  r +
              1971.5909503065514427) *
                 r +
             133.14166789178437745) *
                r +
            3.387132872796366608) /
           (((((((5226.495278852545925 * r + 28729.085735721942674) * r + 39307.89580009271061) *
                    r +
                21213.794301586595867) *
                   r +
               5394.1960214247511077) *
                  r +
              687.1870074920579083) *
                 r +
             42.313330701600911252) *
                r +
            1.0);
  }
  double r = std::sqrt(-std::log(p));
  double value;
  if (r <= 5.0) {
    r -= 1.6;
    value = (((((((7.7454501427834140764e-4 * r + 0.0227238449892691845833) * r +
                  0.24178072517745061177) *
                     r +
                 1.27045825245236838258) *
                    r +
                3.64784832476320460504) *
                   r +
               5.7694972214606914055) *
                  r +
              4.6303378461565452959) *
                 r +
             1.42343711074968357734) /
            (((((((1.05075007164441684324e-9 * r + 5.475938084995344946e-4) * r +
                  0.0151986665636164571966) *
                     r +
                 0.14810397642748007459) *
                    r +
                0.68976733498510000455) *
                   r +
               1.6763848301838038494) *
                  r +
              2.05319162663775882187) *
                 r +
             1.0);
  } else {
    r -= 5.0;
    value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r +
                  0.0012426609473880784386) *
                     r +
                 0.026532189526576123093) *
                    r +
                0.29656057182850489123) *
                   r +
               1.7848265399172913358) *
                  r +
              5.4637849111641143699) *
                 r +
             6.6579046435011037772) /
            (((((((2.04426310338993978564e-15 * r + 1.4215117583164458887e-7) * r +
                  1.8463183175100546818e-5) *
                     r +
                 7.868691311456132591e-4) *
                    r +
                0.0148753612908506148525) *
                   r +
               0.13692988092273580531) *
                  r +
              0.59983220655588793769) *
                 r +
             1.0);
  }
  return -value;
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
