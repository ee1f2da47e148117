// SPDX-License-Identifier: Apache-2.0
//
// Subtraction at the first step: x W once, and per sample only the part of the dropped units.
//
//   (keep * x) W = x W - (drop * x) W
//
// Where the dropped units carry most of x the difference would lose its digits, so each vector of
// each sample decides by the share of its squared norm that is dropped. The decision depends on
// the vector and the sample alone. And where a column of W hangs on a few large weights, the units
// with those would carry it: then nothing is subtracted at all.
#ifndef KBD_CPU_ISA_BASE_H_
#define KBD_CPU_ISA_BASE_H_

#include "cpu/isa/noise.h"
#include "cpu/isa/pack.h"
#include "cpu/isa/product.h"

namespace kbd {
namespace {

template <class T>
int64_t base_columns(const Chain<T>& chain, const Base<T>& base, int64_t column, int64_t width,
                     void* memory) {
  const Step<T>& step = chain.steps[0];
  const Epilogue<T> nothing{T(1), nullptr, Activation::kLinear};
  return product_of_kernel<T>(step, column, width, chain.rows * chain.entries, chain.x, step.in,
                              {nullptr, 0}, static_cast<T*>(memory), nullptr, base.sums,
                              padded<T>(step.out), false, nothing);
}

// Whether every one of some columns is made of many weights, none of them much larger than the
// rest. (Of 1,200 x 784 normal weights the largest square is 28 times the mean.)
template <class T>
bool is_even(const Step<T>& step, int64_t first, int64_t width) {
  constexpr T kMostTimesMean = 64;
  const int64_t rest = step.out - first;
  const int64_t count = rest < width ? rest : width;
  T sum[Lanes<T>::kSlab] = {}, largest[Lanes<T>::kSlab] = {};
  for (int64_t k = 0; k < step.in; ++k) {
    const T* from = step.kernel + k * step.out + first;
    for (int64_t j = 0; j < count; ++j) {
      const T square = from[j] * from[j];
      sum[j] += square;
      largest[j] = square > largest[j] ? square : largest[j];
    }
  }
  for (int64_t j = 0; j < count; ++j) {
    // Not true of what is not finite.
    if (!(largest[j] * T(step.in) <= kMostTimesMean * sum[j])) {
      return false;
    }
  }
  return true;
}

template <class T>
void base_norms(const Chain<T>& chain, const Base<T>& base, int64_t begin, int64_t end) {
  const Step<T>& step = chain.steps[0];
  // Squares of smaller numbers may have been lost below the smallest normal one.
  constexpr T kLeast = sizeof(T) == 4 ? T(1e-30) : T(1e-290);
  const int64_t width = padded<T>(step.out);
  const int64_t written = round_up(step.out, Lanes<T>::kWidth);
  for (int64_t v = begin; v < end; ++v) {
    Vec<T> test{};
    for (int64_t j = 0; j < written; j += Lanes<T>::kWidth) {
      test += load(base.sums + v * width + j) * T(0);  // NaN if not finite
    }
    const T norm = squared_norm<T>(chain.x + v * step.in, nullptr, step.in);
    const bool finite = sum_of_lanes<T>(test) == T(0) && norm - norm == T(0);
    base.norm[v] = finite && norm >= kLeast ? norm : T(-1);
  }
}

// Whether vector v of the rows, with values x, is got by subtraction under this mask.
template <class T>
bool subtracts(const Base<T>& base, int64_t v, const T* x, const typename Lanes<T>::Int* keep,
               int64_t units) {
  const T norm = base.norm[v];
  return norm >= T(0) && squared_norm<T>(x, keep, units) <= T(kMostDropped) * norm;
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_BASE_H_
