// SPDX-License-Identifier: Apache-2.0
//
// Elementary functions of vectors, with errors of a few units in the last place over the whole
// range. Plain series where they converge fast; what a lane holds never depends on the others.
#ifndef KBD_CPU_ISA_MATH_H_
#define KBD_CPU_ISA_MATH_H_

#include "cpu/isa/lanes.h"
#include "kbd/activation.h"

namespace kbd {
namespace {

template <class T>
struct Numbers;

template <>
struct Numbers<float> {
  static constexpr int kMantissaBits = 23;
  static constexpr int32_t kExponentBias = 127;
  static constexpr int32_t kAbsMask = 0x7FFFFFFF;
  static constexpr int32_t kUpperHalf = int32_t(0xFFFFF000);
  static constexpr float kRounder = 0x1.8p23f;  // x + kRounder - kRounder is x, rounded
  static constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr float kExpLow = -104, kExpHigh = 89;  // beyond: zero and infinity
  static constexpr float kExpm1Low = -20;                // below: -1
  // 1/7!, ..., 1/2! and 2/11, ..., 2/3.
  static constexpr float kExp[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 1.f / 2};
  static constexpr float kLog[] = {2.f / 11, 2.f / 9, 2.f / 7, 2.f / 5, 2.f / 3};
};

template <>
struct Numbers<double> {
  static constexpr int kMantissaBits = 52;
  static constexpr int64_t kExponentBias = 1023;
  static constexpr int64_t kAbsMask = 0x7FFFFFFFFFFFFFFF;
  static constexpr int64_t kUpperHalf = int64_t(0xFFFFFFFFF8000000);
  static constexpr double kRounder = 0x1.8p52;
  static constexpr double kLn2High = 6.93145751953125e-1, kLn2Low = 1.42860682030941723212e-6;
  static constexpr double kExpLow = -746, kExpHigh = 710;
  static constexpr double kExpm1Low = -40;
  // 1/13!, ..., 1/2! and 2/21, ..., 2/3.
  static constexpr double kExp[] = {1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800,
                                    1. / 362880,     1. / 40320,     1. / 5040,     1. / 720,
                                    1. / 120,        1. / 24,        1. / 6,        1. / 2};
  static constexpr double kLog[] = {2. / 21, 2. / 19, 2. / 17, 2. / 15, 2. / 13,
                                    2. / 11, 2. / 9,  2. / 7,  2. / 5,  2. / 3};
};

// polynomial(t) with the highest coefficient first.
template <class T, int kCount>
KBD_INLINE Vec<T> polynomial(const T (&coefficient)[kCount], Vec<T> t) {
  Vec<T> sum = splat<T>(coefficient[0]);
  for (int i = 1; i < kCount; ++i) {
    sum = multiply_add(sum, t, splat<T>(coefficient[i]));
  }
  return sum;
}

template <class T>
KBD_INLINE Vec<T> absolute(Vec<T> x) {
  return Vec<T>(IntVec<T>(x) & Numbers<T>::kAbsMask);
}

// 2^n for n in the range of normal numbers.
template <class T>
KBD_INLINE Vec<T> power_of_two(IntVec<T> n) {
  return Vec<T>((n + Numbers<T>::kExponentBias) << Numbers<T>::kMantissaBits);
}

// x = n ln 2 + r with |r| <= ln 2 / 2. Returns exp(r) - 1.
template <class T>
KBD_INLINE Vec<T> reduced_expm1(Vec<T> x, IntVec<T>* n) {
  using N = Numbers<T>;
  const Vec<T> shifted =
      multiply_add(x, splat<T>(T(1.44269504088896340736)), splat<T>(N::kRounder));
  *n = IntVec<T>(shifted) - IntVec<T>(splat<T>(N::kRounder));
  const Vec<T> whole = shifted - splat<T>(N::kRounder);
  Vec<T> r = multiply_add(whole, splat<T>(-N::kLn2High), x);
  r = multiply_add(whole, splat<T>(-N::kLn2Low), r);
  return multiply_add(r * r, polynomial<T>(N::kExp, r), r);
}

template <class T>
KBD_INLINE Vec<T> exponential(Vec<T> x) {
  using N = Numbers<T>;
  x = x < N::kExpLow ? splat<T>(N::kExpLow) : x;
  x = x > N::kExpHigh ? splat<T>(N::kExpHigh) : x;
  IntVec<T> n;
  const Vec<T> e = reduced_expm1<T>(x, &n) + T(1);
  // In two steps: 2^n itself may be too large or too small for a normal number.
  const IntVec<T> half = n >> 1;
  return e * power_of_two<T>(half) * power_of_two<T>(n - half);
}

// exp(x) - 1, for x of at most zero.
template <class T>
KBD_INLINE Vec<T> expm1_below_zero(Vec<T> x) {
  x = x < Numbers<T>::kExpm1Low ? splat<T>(Numbers<T>::kExpm1Low) : x;
  x = x > T(0) ? Vec<T>{} : x;
  IntVec<T> n;
  const Vec<T> e = reduced_expm1<T>(x, &n);
  const Vec<T> power = power_of_two<T>(n);
  return multiply_add(power, e, power - T(1));
}

// log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt(2): twice the inverse hyperbolic tangent of
// f / (2 + f), as a series.
template <class T>
KBD_INLINE Vec<T> reduced_log1p(Vec<T> f) {
  const Vec<T> s = f / (f + T(2));
  const Vec<T> square = s * s;
  return multiply_add(s * square, polynomial<T>(Numbers<T>::kLog, square), s + s);
}

// log(1 + e) for e in [0, 1].
template <class T>
KBD_INLINE Vec<T> log1p_of_fraction(Vec<T> e) {
  const IntVec<T> large = e > T(0.41421356);
  const Vec<T> f = large ? (e - T(1)) * T(0.5) : e;
  return reduced_log1p<T>(f) + (large ? splat<T>(T(0.69314718055994530942)) : Vec<T>{});
}

template <class T>
KBD_INLINE Vec<T> sigmoid_of(Vec<T> x) {
  // Never the exponential of a large positive number.
  const Vec<T> e = exponential<T>(-absolute<T>(x));
  return (x < T(0) ? e : splat<T>(T(1))) / (e + T(1));
}

template <class T>
KBD_INLINE Vec<T> tanh_of(Vec<T> x) {
  const Vec<T> size = absolute<T>(x);
  const Vec<T> e = expm1_below_zero<T>(T(-2) * size);
  const Vec<T> y = -e / (e + T(2));
  return Vec<T>(IntVec<T>(y) | (IntVec<T>(x) & ~Numbers<T>::kAbsMask));
}

template <class T>
KBD_INLINE Vec<T> softplus_of(Vec<T> x) {
  const Vec<T> above = x > T(0) ? x : Vec<T>{};
  return above + log1p_of_fraction<T>(exponential<T>(-absolute<T>(x)));
}

// (1 + a) exp(a^2 / 2) P(normal draw > a) as a polynomial in (a - 4) / (a + 4), interpolated at
// Chebyshev points over all a >= 0. Relative errors: 8e-9 and 3e-17.
KBD_INLINE Vec<float> tail_polynomial(Vec<float> t) {
  static const float kTail[] = {1.25685467e-5f,  -5.80912353e-5f, -8.45540179e-5f, 6.64988692e-4f,
                                -2.91267495e-4f, -4.98771425e-3f, 1.79376959e-2f,  -3.22011629e-2f,
                                2.86001681e-2f,  1.39999137e-2f,  -9.67034704e-2f, 4.72053203e-1f};
  return polynomial<float>(kTail, t);
}
KBD_INLINE Vec<double> tail_polynomial(Vec<double> t) {
  static const double kTail[] = {
      1.7873545221852657e-10, -6.7632672105624539e-10, -2.6180348731255446e-9,
      5.4747086320486894e-9,  2.0257667136861587e-8,   -1.7932121916642414e-8,
      -1.144685071275808e-7,  -1.237153366992197e-9,   5.5483404622077898e-7,
      4.0671730125154448e-7,  -2.6144101706596151e-6,  -3.4333722168532754e-6,
      1.3627395285352675e-5,  2.1250446856208375e-5,   -8.7853303947977457e-5,
      -9.4430339441522229e-5, 6.9489712190731662e-4,   -2.8562308680939413e-4,
      -5.0023785925114943e-3, 1.7936097478868589e-2,   -3.2197837428022025e-2,
      2.860036405357749e-2,   1.3999634724424333e-2,   -9.6703477326526068e-2,
      4.7205320650984468e-1};
  return polynomial<double>(kTail, t);
}

// x P(normal draw < x).
template <class T>
KBD_INLINE Vec<T> gelu_of(Vec<T> x) {
  Vec<T> a = absolute<T>(x);
  a = a > T(60) ? splat<T>(T(60)) : a;  // the tail is zero long before
  const Vec<T> share = tail_polynomial((a - T(4)) / (a + T(4))) / (a + T(1));
  // exp(-a^2 / 2), with the rounding error of a^2 made good.
  const Vec<T> square = a * a;
  const Vec<T> high = Vec<T>(IntVec<T>(a) & Numbers<T>::kUpperHalf);
  const Vec<T> low = a - high;
  const Vec<T> error = ((high * high - square) + T(2) * high * low) + low * low;
  Vec<T> e = exponential<T>(T(-0.5) * square);
  e = multiply_add(e, T(-0.5) * error, e);
  // Below zero the tail is taken last: it may be too small for a normal number.
  return x < T(0) ? (x * share) * e : x * (T(1) - share * e);
}

KBD_INLINE Vec<double> square_root(Vec<double> x) {
#if KBD_VECTOR_BYTES == 64
  return _mm512_maskz_sqrt_pd(0xFF, x);  // GCC 12 warns of the plain one
#elif KBD_VECTOR_BYTES == 32
  return _mm256_sqrt_pd(x);
#elif defined(__x86_64__)
  return _mm_sqrt_pd(x);
#else
  for (int lane = 0; lane < Lanes<double>::kWidth; ++lane) {
    x[lane] = __builtin_sqrt(x[lane]);
  }
  return x;
#endif
}

// log(x) for positive normal x.
KBD_INLINE Vec<double> logarithm(Vec<double> x) {
  using UIntVector = Lanes<double>::UIntVector;
  // x = 2^n m with m from sqrt(1/2) to sqrt(2). The offset keeps n + 1024 positive.
  const UIntVector bits = UIntVector(x);
  const UIntVector shifted = (bits - 0x3FE6A09E667F3BCDull) + (1024ull << 52);
  const UIntVector n = shifted >> 52;
  const Vec<double> m = Vec<double>(bits - ((n - 1024ull) << 52));
  const Vec<double> whole = Vec<double>(n | 0x4330000000000000ull) - (0x1p52 + 1024.0);
  using N = Numbers<double>;
  return multiply_add(
      whole, splat<double>(N::kLn2High),
      multiply_add(whole, splat<double>(N::kLn2Low), reduced_log1p<double>(m - 1.0)));
}

// ndtri((word + 0.5) * 2^-32), as normal_of_word in kbd/activation.h.
KBD_INLINE Vec<double> normal_of_words(const uint32_t* words) {
  typedef int32_t Narrow __attribute__((vector_size(KBD_VECTOR_BYTES / 2)));
  Narrow word;
  std::memcpy(&word, words, sizeof(word));
  const Narrow upper = word >> 31;  // the upper half is the mirror image of the lower
  word ^= upper;
  const Vec<double> p = (__builtin_convertvector(word, Vec<double>) + 0.5) * 0x1p-32;
  const Vec<double> q = p - 0.5;
  const Vec<double> r = 0.180625 - q * q;
  Vec<double> draw = q * polynomial<double>(kCentreTop, r) / polynomial<double>(kCentreBottom, r);
  const IntVec<double> tail = q <= -0.425;
  bool any = false;
  for (int lane = 0; lane < Lanes<double>::kWidth; ++lane) {
    any |= tail[lane] != 0;
  }
  if (any) {
    const Vec<double> s = square_root(-logarithm(p)) - 1.6;
    const Vec<double> far = -polynomial<double>(kTailTop, s) / polynomial<double>(kTailBottom, s);
    draw = tail ? far : draw;
  }
  const IntVec<double> sign =
      __builtin_convertvector(upper, IntVec<double>) & int64_t(0x8000000000000000ull);
  return Vec<double>(IntVec<double>(draw) ^ sign);
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_MATH_H_
