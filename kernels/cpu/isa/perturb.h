// SPDX-License-Identifier: Apache-2.0
//
// Noise on a tensor in one pass: words, factors and products of a piece at a time, so that neither
// words nor masks are ever written to memory.
#ifndef KBD_CPU_ISA_PERTURB_H_
#define KBD_CPU_ISA_PERTURB_H_

#include "cpu/isa/math.h"
#include "cpu/isa/noise.h"
#include "kbd/perturb.h"

namespace kbd {
namespace {

// Units whose noise is made at once. Words and factors together stay in a first-level cache.
constexpr int64_t kPieceUnits = 2048;
constexpr int64_t kPieceRoom = kPieceUnits + 128;

// The noise of some neighbouring units: what a number is multiplied by, or what is added to it.
template <class T>
struct NoisePiece {
  alignas(64) uint32_t words[kPieceRoom];
  alignas(64) T values[kPieceRoom];
};

template <class T>
void make_mask_values(const uint32_t* words, uint32_t threshold, int64_t units, T kept, T dropped,
                      T* values) {
  for (int64_t unit = 0; unit < units; unit += Lanes<T>::kWidth) {
    const IntVec<T> keep = keep_lanes<T>(words + unit, threshold);
    store(values + unit, keep ? splat<T>(kept) : splat<T>(dropped));
  }
}

// values = function(words), in double.
template <class T, class Function>
void make_values(const uint32_t* words, int64_t units, T* values, const Function& function) {
  constexpr int kWidth = Lanes<double>::kWidth;
  for (int64_t unit = 0; unit < units; unit += kWidth) {
    const Vec<double> value = function(words + unit);
    for (int lane = 0; lane < kWidth; ++lane) {
      values[unit + lane] = T(value[lane]);
    }
  }
}

KBD_INLINE Vec<double> uniform_of_words(const uint32_t* words) {
  typedef uint32_t Narrow __attribute__((vector_size(KBD_VECTOR_BYTES / 2)));
  Narrow word;
  std::memcpy(&word, words, sizeof(word));
  return (__builtin_convertvector(word, Vec<double>) + 0.5) * 0x1p-32;
}

template <class T>
void make_piece(const Perturbation<T>& p, const uint32_t* words, int64_t units, T* values) {
  const T a = T(p.a);
  switch (p.effect) {
    case Effect::kMask:
      make_mask_values<T>(words, p.threshold, units, a, T(0), values);
      return;
    case Effect::kAlpha:
      make_mask_values<T>(words, p.threshold, units, T(1), T(0), values);
      return;
    case Effect::kGaussian:
    case Effect::kAddedGaussian: {
      make_values(words, units, values, normal_of_words);
      const T one = p.effect == Effect::kGaussian ? T(1) : T(0);
      for (int64_t unit = 0; unit < units; ++unit) {
        values[unit] = one + a * values[unit];
      }
      return;
    }
    case Effect::kUniform:
      make_values(words, units, values, [&p](const uint32_t* from) {
        return splat<double>(p.b) + p.a * uniform_of_words(from);
      });
      return;
    case Effect::kLogNormal:
      make_values(words, units, values, [&p](const uint32_t* from) {
        return exponential<double>(splat<double>(p.b) + p.a * normal_of_words(from));
      });
      return;
  }
}

// y = effect(x, value), the value of each or (kStep == 0) of all.
template <class T, int kStep>
KBD_INLINE void put_on(const Perturbation<T>& p, const T* x, const T* values, int64_t count, T* y) {
  const auto value_of = [values](int64_t at) {
    return kStep ? load(values + at) : splat<T>(*values);
  };
  const auto each = [&](const auto& effect) {
    int64_t at = 0;
    for (; at + Lanes<T>::kWidth <= count; at += Lanes<T>::kWidth) {
      store(y + at, effect(load(x + at), value_of(at)));
    }
    if (at < count) {
      const Vec<T> last = effect(load_part(x + at, count - at), value_of(at));
      std::memcpy(y + at, &last, size_t(count - at) * sizeof(T));
    }
  };
  switch (p.effect) {
    case Effect::kAddedGaussian:
      each([](Vec<T> number, Vec<T> value) { return number + value; });
      return;
    case Effect::kAlpha: {
      const T a = T(p.a), b = T(p.b), c = T(p.c);
      each([a, b, c](Vec<T> number, Vec<T> kept) {
        return a * (number * kept + c * (T(1) - kept)) + b;
      });
      return;
    }
    case Effect::kMask:
    case Effect::kGaussian:
    case Effect::kUniform:
    case Effect::kLogNormal:
      each([](Vec<T> number, Vec<T> value) { return number * value; });
      return;
  }
}

// One sample of some rows that have the same noise.
template <class T>
class Perturber {
 public:
  Perturber(const Perturbation<T>& p, int64_t sample, int64_t first_row, int64_t last_row)
      : p_(p), rows_(last_row - first_row) {
    const uint64_t number = uint64_t(p.first_sample + sample);
    const uint64_t row = p.shared ? 0 : uint64_t(p.first_row + first_row);
    int64_t units = 1, size = 1;
    for (int d = p.num_dims - 1; d >= 0; --d) {
      size_[d] = size;
      units_[d] = units;
      size *= p.dims[d];
      units *= p.varies[d] ? p.dims[d] : 1;
    }
    words_ = stream_of(p.seed, p.site, number, row, units);
    orders_ = orders_of(p.seed, p.site, number, row, units);
    in_block_ = uint32_t(number % kSamplesPerBlock);
    x_stride_ = (p.x_per_sample ? p.num_samples : 1) * size;
    y_stride_ = p.num_samples * size;
    x_ = p.x + first_row * x_stride_ + (p.x_per_sample ? sample * size : 0);
    y_ = p.out + first_row * y_stride_ + sample * size;
    run(0, 0, 0);
  }

 private:
  // The units of an entry of axes [d, num_dims), and its numbers.
  int64_t units_from(int d) const {
    return d == p_.num_dims ? 1 : units_[d] * (p_.varies[d] ? p_.dims[d] : 1);
  }

  // Perturbs an entry of axes [d, num_dims), whose units and numbers begin there.
  void run(int d, int64_t unit, int64_t at) {
    const int64_t units = units_from(d);
    if (units <= kPieceUnits) {
      const T* values = make(unit, units);
      for (int64_t row = 0; row < rows_; ++row) {
        put(d, values, x_ + row * x_stride_ + at, y_ + row * y_stride_ + at);
      }
      return;
    }
    // Too much for a piece: entry by entry, or (of the last axis) piece by piece.
    const int64_t step = d + 1 == p_.num_dims ? kPieceUnits : 1;
    for (int64_t i = 0; i < p_.dims[d]; i += step) {
      const int64_t of_unit = unit + (p_.varies[d] ? i * units_[d] : 0);
      if (step == 1) {
        run(d + 1, of_unit, at + i * size_[d]);
        continue;
      }
      const int64_t count = p_.dims[d] - i < step ? p_.dims[d] - i : step;
      const T* values = make(of_unit, count);
      for (int64_t row = 0; row < rows_; ++row) {
        put_on<T, 1>(p_, x_ + row * x_stride_ + at + i, values, count,
                     y_ + row * y_stride_ + at + i);
      }
    }
  }

  // Puts noise on an entry of axes [d, num_dims).
  void put(int d, const T* values, const T* x, T* y) const {
    if (d == p_.num_dims) {
      put_on<T, 0>(p_, x, values, 1, y);
    } else if (d + 1 == p_.num_dims) {
      if (p_.varies[d]) {
        put_on<T, 1>(p_, x, values, p_.dims[d], y);
      } else {
        put_on<T, 0>(p_, x, values, p_.dims[d], y);
      }
    } else {
      const int64_t step = p_.varies[d] ? units_[d] : 0;
      for (int64_t i = 0; i < p_.dims[d]; ++i) {
        put(d + 1, values + i * step, x + i * size_[d], y + i * size_[d]);
      }
    }
  }

  // Makes the values of units [unit, unit + count).
  const T* make(int64_t unit, int64_t count) {
    const int64_t skipped = unit % kWordsPerCounter;
    Stream stream = words_;
    stream.low += uint64_t(unit / kWordsPerCounter);
    make_words(stream, skipped + count, piece_.words);
    if (p_.balanced) {
      balance_words(orders_, unit - skipped, skipped + count, in_block_, piece_.words);
    }
    make_piece(p_, piece_.words + skipped, count, piece_.values);
    return piece_.values;
  }

  const Perturbation<T>& p_;
  const int64_t rows_;
  Stream words_, orders_;
  uint32_t in_block_;
  int64_t size_[kMostDims], units_[kMostDims];  // of an entry of the axes behind one
  int64_t x_stride_, y_stride_;
  const T* x_;
  T* y_;
  NoisePiece<T> piece_;
};

template <class T>
void perturb(const Perturbation<T>& p, int64_t sample, int64_t first_row, int64_t last_row) {
  Perturber<T>(p, sample, first_row, last_row);
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_PERTURB_H_
