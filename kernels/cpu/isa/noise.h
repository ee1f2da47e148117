// SPDX-License-Identifier: Apache-2.0
//
// From words to noise: masks, lists of kept units, normal draws.
#ifndef KBD_CPU_ISA_NOISE_H_
#define KBD_CPU_ISA_NOISE_H_

#include "cpu/isa/compress.h"
#include "cpu/isa/math.h"
#include "cpu/isa/words.h"

namespace kbd {
namespace {

// The words of a mask of a table: the least and the largest, on either side of any threshold.
template <class T>
void table_words(const Chain<T>& chain, const Step<T>& step, int64_t sample, int64_t row,
                 uint32_t* words) {
  constexpr int64_t kBeyond = 16;  // units that a vector may read after the last
  const uint64_t masks = uint64_t(step.num_masks);
  const uint64_t turn = uint64_t(chain.first_sample + sample) % masks;
  const uint64_t shift = chain.shared ? 0 : uint64_t(chain.first_row + row) % masks;
  const uint8_t* mask = step.table + int64_t((turn + shift) % masks) * step.in;
  for (int64_t unit = 0; unit < step.in; ++unit) {
    words[unit] = mask[unit] ? ~uint32_t(0) : 0;
  }
  std::memset(words + step.in, 0, kBeyond * sizeof(uint32_t));
}

// Makes the words of a step's input for one vector of one sample. Returns that of its first unit.
template <class T>
const uint32_t* step_words(const Chain<T>& chain, const Step<T>& step, int64_t sample, int64_t row,
                           int64_t entry, uint32_t* words) {
  if (step.table) {
    table_words(chain, step, sample, row, words);
    return words;
  }
  const int64_t first = step.per_entry ? entry * step.in : 0;
  const int64_t skipped = first % kWordsPerCounter;
  const uint64_t number = uint64_t(chain.first_sample + sample);
  const uint64_t of_row = chain.shared ? 0 : uint64_t(chain.first_row + row);
  const int64_t units = step.per_entry ? chain.entries * step.in : step.in;
  Stream stream = stream_of(chain.seed, step.site, number, of_row, units);
  stream.low += uint64_t(first / kWordsPerCounter);
  make_words(stream, skipped + step.in, words);
  if (chain.balanced) {
    balance_words(orders_of(chain.seed, step.site, number, of_row, units), first - skipped,
                  skipped + step.in, uint32_t(number % kSamplesPerBlock), words);
  }
  return words + skipped;
}

// Minus one in the lanes whose unit is kept, zero elsewhere.
template <class T>
KBD_INLINE IntVec<T> keep_lanes(const uint32_t* words, uint32_t threshold) {
  using UIntVector = typename Lanes<T>::UIntVector;
  const auto word = *reinterpret_cast<const typename Lanes<T>::WordVector*>(words);
  if constexpr (sizeof(T) == 4) {
    return IntVec<T>(UIntVector(word) >= threshold);
  } else {
    return IntVec<T>(__builtin_convertvector(word, UIntVector)) >= int64_t(threshold);
  }
}

// keep[unit] = -1 or 0 for units [0, units), and for a vector beyond.
template <class T>
void make_mask(const uint32_t* words, uint32_t threshold, int64_t units,
               typename Lanes<T>::Int* keep) {
  for (int64_t unit = 0; unit < units; unit += Lanes<T>::kWidth) {
    *reinterpret_cast<typename Lanes<T>::UnalignedInt*>(keep + unit) =
        keep_lanes<T>(words + unit, threshold);
  }
}

// Notes how many units are kept before `unit`, if a group ends there.
inline void end_group(int64_t unit, int64_t count, Kept* kept) {
  if (unit % kGroup == 0 && unit > 0) {
    kept->ends[unit / kGroup - 1] = int32_t(count);
  }
}

// Finds the units that are kept (or, complemented, those that are dropped). Writes up to eight
// numbers beyond the last.
inline void find_kept(const uint32_t* words, uint32_t threshold, int64_t units, bool complement,
                      Kept* kept) {
  int64_t count = 0;
  int64_t unit = 0;
#if defined(__AVX2__)
  const __m256i least = _mm256_set1_epi32(int(threshold));
  const int flip = complement ? 0xFF : 0;
  for (; unit + 8 <= units; unit += 8) {
    end_group(unit, count, kept);
    const __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + unit));
    const __m256i fits = _mm256_cmpeq_epi32(_mm256_max_epu32(word, least), word);
    const int bits = _mm256_movemask_ps(_mm256_castsi256_ps(fits)) ^ flip;
    kept->bits[unit >> 3] = uint8_t(bits);
    const __m256i order =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(kCompress.order[bits]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(kept->index + count),
                        _mm256_add_epi32(order, _mm256_set1_epi32(int(unit))));
    count += __builtin_popcount(unsigned(bits));
  }
#endif
  for (; unit < units; ++unit) {
    end_group(unit, count, kept);
    const bool keep = (words[unit] >= threshold) != complement;
    kept->index[count] = int32_t(unit);
    count += keep;
    const uint8_t before = unit & 7 ? kept->bits[unit >> 3] : uint8_t(0);
    kept->bits[unit >> 3] = uint8_t(before | (int(keep) << (unit & 7)));
  }
  kept->count = count;
  kept->groups = ceil_div(units, kGroup);
  if (units > 0) {
    kept->ends[kept->groups - 1] = int32_t(count);
  }
}

// to = from where kept, 0 elsewhere; `to` has room for whole vectors, `from` need not.
template <class T>
void select_kept(const T* from, const typename Lanes<T>::Int* keep, int64_t units, T* to) {
  using UnalignedInt = typename Lanes<T>::UnalignedInt;
  constexpr int kWidth = Lanes<T>::kWidth;
  int64_t unit = 0;
  for (; unit + kWidth <= units; unit += kWidth) {
    const IntVec<T> mask = *reinterpret_cast<const UnalignedInt*>(keep + unit);
    store(to + unit, Vec<T>(IntVec<T>(load(from + unit)) & mask));
  }
  if (unit < units) {
    const IntVec<T> mask = *reinterpret_cast<const UnalignedInt*>(keep + unit);
    store(to + unit, Vec<T>(IntVec<T>(load_part(from + unit, units - unit)) & mask));
  }
}

// to = -from where dropped, 0 elsewhere.
template <class T>
void select_dropped(const T* from, const typename Lanes<T>::Int* keep, int64_t units, T* to) {
  using UnalignedInt = typename Lanes<T>::UnalignedInt;
  constexpr int kWidth = Lanes<T>::kWidth;
  int64_t unit = 0;
  for (; unit + kWidth <= units; unit += kWidth) {
    const IntVec<T> mask = *reinterpret_cast<const UnalignedInt*>(keep + unit);
    store(to + unit, Vec<T>(IntVec<T>(-load(from + unit)) & ~mask));
  }
  if (unit < units) {
    const IntVec<T> mask = *reinterpret_cast<const UnalignedInt*>(keep + unit);
    store(to + unit, Vec<T>(IntVec<T>(-load_part(from + unit, units - unit)) & ~mask));
  }
}

// The sum of squares of the dropped units, of all where `keep` is null. Always added up in the
// same order.
template <class T>
T squared_norm(const T* x, const typename Lanes<T>::Int* keep, int64_t units) {
  using UnalignedInt = typename Lanes<T>::UnalignedInt;
  constexpr int kWidth = Lanes<T>::kWidth;
  constexpr int kSums = 4;
  Vec<T> sum[kSums] = {};
  int64_t unit = 0;
  const auto add = [&](Vec<T>* to, Vec<T> value) {
    if (keep) {
      const IntVec<T> mask = *reinterpret_cast<const UnalignedInt*>(keep + unit);
      value = Vec<T>(IntVec<T>(value) & ~mask);
    }
    *to = multiply_add(value, value, *to);
    unit += kWidth;
  };
  while (unit + kSums * kWidth <= units) {
    for (int s = 0; s < kSums; ++s) {
      add(&sum[s], load(x + unit));
    }
  }
  while (unit + kWidth <= units) {
    add(&sum[0], load(x + unit));
  }
  if (unit < units) {
    add(&sum[1], load_part(x + unit, units - unit));
  }
  return sum_of_lanes<T>((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// multiplier = 1 + deviation * normal draw of the word.
template <class T>
void make_multipliers(const uint32_t* words, const Step<T>& step, T* multiplier) {
  constexpr int kWidth = Lanes<double>::kWidth;
  const T deviation = T(step.scale);
  for (int64_t unit = 0; unit < step.in; unit += kWidth) {
    const Vec<double> draw = normal_of_words(words + unit);
    for (int lane = 0; lane < kWidth; ++lane) {
      multiplier[unit + lane] = T(1) + deviation * T(draw[lane]);
    }
  }
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_NOISE_H_
