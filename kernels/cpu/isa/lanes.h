// SPDX-License-Identifier: Apache-2.0
//
// Vectors of one instruction set, and pieces of scratch memory. Included by isa_body.h.
#ifndef KBD_CPU_ISA_LANES_H_
#define KBD_CPU_ISA_LANES_H_

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/isa.h"

namespace kbd {
namespace {

#define KBD_INLINE inline __attribute__((always_inline))

template <class T>
struct SameSize;
template <>
struct SameSize<float> {
  using Int = int32_t;
  using UInt = uint32_t;
};
template <>
struct SameSize<double> {
  using Int = int64_t;
  using UInt = uint64_t;
};

template <class T>
struct Lanes {
  using Int = typename SameSize<T>::Int;
  using UInt = typename SameSize<T>::UInt;
  static constexpr int kWidth = KBD_VECTOR_BYTES / sizeof(T);
  static constexpr int kPanel = 2 * kWidth;  // columns of a register tile
  static constexpr int kSlab = 5 * kPanel;   // columns that are packed together
  typedef T Vector __attribute__((vector_size(KBD_VECTOR_BYTES)));
  typedef T Unaligned __attribute__((vector_size(KBD_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
  typedef Int IntVector __attribute__((vector_size(KBD_VECTOR_BYTES)));
  typedef Int UnalignedInt
      __attribute__((vector_size(KBD_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
  typedef UInt UIntVector __attribute__((vector_size(KBD_VECTOR_BYTES)));
  // As many 32-bit words as a vector has lanes.
  typedef uint32_t WordVector
      __attribute__((vector_size(KBD_VECTOR_BYTES * 4 / sizeof(T)), aligned(4), may_alias));
};

template <class T>
using Vec = typename Lanes<T>::Vector;
template <class T>
using IntVec = typename Lanes<T>::IntVector;

template <class T>
KBD_INLINE Vec<T> load(const T* from) {
  return *reinterpret_cast<const typename Lanes<T>::Unaligned*>(from);
}

// The first `count` elements, fewer than a vector has; zeros after them.
template <class T>
KBD_INLINE Vec<T> load_part(const T* from, int64_t count) {
#if KBD_VECTOR_BYTES == 64
  const unsigned lanes = (1u << count) - 1;
  if constexpr (sizeof(T) == 4) {
    return Vec<T>(_mm512_maskz_loadu_ps(__mmask16(lanes), from));
  } else {
    return Vec<T>(_mm512_maskz_loadu_pd(__mmask8(lanes), from));
  }
#else
  Vec<T> value{};
  std::memcpy(&value, from, size_t(count) * sizeof(T));
  return value;
#endif
}

// memcpy(), but pointers to nothing may be null.
template <class T>
KBD_INLINE void copy(const T* from, int64_t count, T* to) {
  if (count > 0) {
    std::memcpy(to, from, size_t(count) * sizeof(T));
  }
}

template <class T>
KBD_INLINE void store(T* to, Vec<T> value) {
  *reinterpret_cast<typename Lanes<T>::Unaligned*>(to) = value;
}

// The value in every lane.
template <class T>
KBD_INLINE Vec<T> splat(T value) {
  return value - Vec<T>{};
}

// One bit per lane of a comparison, the first lane lowest.
template <class T>
KBD_INLINE uint64_t bits_of_lanes(IntVec<T> mask) {
#if KBD_VECTOR_BYTES == 64
  if constexpr (sizeof(T) == 4) {
    return uint64_t(_mm512_movepi32_mask(__m512i(mask)));
  } else {
    return uint64_t(_mm512_movepi64_mask(__m512i(mask)));
  }
#elif KBD_VECTOR_BYTES == 32
  if constexpr (sizeof(T) == 4) {
    return uint64_t(unsigned(_mm256_movemask_ps(__m256(mask))));
  } else {
    return uint64_t(unsigned(_mm256_movemask_pd(__m256d(mask))));
  }
#else
  uint64_t bits = 0;
  for (int lane = 0; lane < Lanes<T>::kWidth; ++lane) {
    bits |= uint64_t(mask[lane] & 1) << lane;
  }
  return bits;
#endif
}

// The lanes added up, in order.
template <class T>
KBD_INLINE T sum_of_lanes(Vec<T> value) {
  T sum = value[0];
  for (int lane = 1; lane < Lanes<T>::kWidth; ++lane) {
    sum += value[lane];
  }
  return sum;
}

// a * b + c, rounded once where the set can. Written out, and contraction is off in the build:
// left to the compiler, a tile of one row may round otherwise than a tile of six.
template <class Vector>
KBD_INLINE Vector multiply_add(Vector a, Vector b, Vector c) {
  return a * b + c;
}
#if KBD_VECTOR_BYTES == 32
KBD_INLINE __m256 multiply_add(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
KBD_INLINE __m256d multiply_add(__m256d a, __m256d b, __m256d c) {
  return _mm256_fmadd_pd(a, b, c);
}
#elif KBD_VECTOR_BYTES == 64
KBD_INLINE __m512 multiply_add(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
KBD_INLINE __m512d multiply_add(__m512d a, __m512d b, __m512d c) {
  return _mm512_fmadd_pd(a, b, c);
}
#endif

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
template <class T>
inline int64_t padded(int64_t n) {
  return round_up(n, Lanes<T>::kPanel);
}

// Hands out aligned pieces of a scratch buffer. With a null buffer it only counts.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(int64_t count) {
    const int64_t at = used_;
    used_ += round_up(count * int64_t(sizeof(T)), 64);
    return base_ ? reinterpret_cast<T*>(base_ + at) : nullptr;
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

// The widest vector of a chain, padded, with room for what compress() writes beyond the end.
template <class T>
int64_t row_width(const Chain<T>& chain) {
  int64_t width = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    width = width < chain.steps[l].in ? chain.steps[l].in : width;
    width = width < chain.steps[l].out ? chain.steps[l].out : width;
  }
  return padded<T>(width) + Lanes<T>::kPanel;
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_LANES_H_
