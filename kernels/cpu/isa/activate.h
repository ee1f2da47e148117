// SPDX-License-Identifier: Apache-2.0
//
// Activations of whole rows. Rows are padded to whole vectors, and so is what is computed: an
// element's result does not depend on where it lies.
#ifndef KBD_CPU_ISA_ACTIVATE_H_
#define KBD_CPU_ISA_ACTIVATE_H_

#include "cpu/isa/math.h"

namespace kbd {
namespace {

// Those that the product applies to its sums.
inline bool in_epilogue(Activation activation) {
  return activation == Activation::kLinear || activation == Activation::kRelu;
}

template <class T, class Function>
KBD_INLINE void apply(int64_t columns, T* y, Function function) {
  for (int64_t i = 0; i < columns; i += Lanes<T>::kWidth) {
    store<T>(y + i, function(load<T>(y + i)));
  }
}

// Largest, sum and quotient in vectors; the padding counts as minus infinity.
template <class T>
void softmax_row(int64_t columns, T* y) {
  constexpr int kWidth = Lanes<T>::kWidth;
  for (int64_t i = columns; i < round_up(columns, kWidth); ++i) {
    y[i] = -T(__builtin_inf());
  }
  Vec<T> most = load(y);
  for (int64_t i = kWidth; i < columns; i += kWidth) {
    const Vec<T> value = load(y + i);
    most = value > most ? value : most;
  }
  T largest = most[0];
  for (int lane = 1; lane < kWidth; ++lane) {
    largest = most[lane] > largest ? most[lane] : largest;
  }
  Vec<T> sum[4] = {};
  for (int64_t i = 0; i < columns; i += kWidth) {
    const Vec<T> e = exponential<T>(load(y + i) - largest);
    store<T>(y + i, e);
    sum[i / kWidth % 4] += e;
  }
  const T total = sum_of_lanes<T>((sum[0] + sum[1]) + (sum[2] + sum[3]));
  apply(columns, y, [total](Vec<T> e) { return e / total; });
}

template <class T>
void activate_row(Activation activation, int64_t columns, T* y) {
  using V = Vec<T>;
  switch (activation) {
    case Activation::kSigmoid:
      return apply(columns, y, [](V x) { return sigmoid_of<T>(x); });
    case Activation::kTanh:
      return apply(columns, y, [](V x) { return tanh_of<T>(x); });
    case Activation::kElu:
      return apply(columns, y, [](V x) { return x > T(0) ? x : expm1_below_zero<T>(x); });
    case Activation::kSelu:
      return apply(columns, y, [](V x) {
        const V below = T(kSeluScale * kSeluAlpha) * expm1_below_zero<T>(x);
        return x > T(0) ? T(kSeluScale) * x : below;
      });
    case Activation::kGelu:
      return apply(columns, y, [](V x) { return gelu_of<T>(x); });
    case Activation::kSilu:
      return apply(columns, y, [](V x) { return x * sigmoid_of<T>(x); });
    case Activation::kSoftplus:
      return apply(columns, y, [](V x) { return softplus_of<T>(x); });
    case Activation::kLeakyRelu:
      return apply(columns, y, [](V x) { return x < T(0) ? T(kLeakySlope) * x : x; });
    case Activation::kSoftmax:
      return columns > 0 ? softmax_row(columns, y) : void();
    case Activation::kLinear:
    case Activation::kRelu:
      return;
  }
}

// Activations that the product's epilogue does not know.
template <class T>
void activate(Activation activation, int64_t rows, int64_t columns, T* c, int64_t ldc) {
  if (!in_epilogue(activation)) {
    for (int64_t row = 0; row < rows; ++row) {
      activate_row(activation, columns, c + row * ldc);
    }
  }
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_ACTIVATE_H_
