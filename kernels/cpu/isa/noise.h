// SPDX-License-Identifier: Apache-2.0
//
// From counters to noise: words, masks, lists of kept units, normal draws.
#ifndef KBD_CPU_ISA_NOISE_H_
#define KBD_CPU_ISA_NOISE_H_

#include "cpu/isa/compress.h"
#include "cpu/isa/math.h"
#include "kbd/philox.h"

namespace kbd {
namespace {

// Words are made in blocks and read in vectors: the size of a buffer for the words of `units`
// units.
inline int64_t words_size(int64_t units) { return round_up(units + kWordsPerCounter, 64) + 64; }

#if defined(__AVX2__)
// The words of 8 * kBlocks counters from `low` on. Even and odd lanes in turn, because a multiply
// of 32-bit lanes makes 64-bit products of every second one.
template <int kBlocks>
KBD_INLINE void make_word_blocks(const Stream& stream, uint64_t low, uint32_t* words) {
  const __m256i multiplier0 = _mm256_set1_epi32(int(kPhiloxMultiplier0));
  const __m256i multiplier1 = _mm256_set1_epi32(int(kPhiloxMultiplier1));
  __m256i c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    const __m256i step =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(8 * b));
    c0[b] = _mm256_add_epi32(_mm256_set1_epi32(int(uint32_t(low))), step);
    // Where the sum is not less than the step, nothing is carried: -1 there, 0 elsewhere.
    const __m256i fits = _mm256_cmpeq_epi32(_mm256_max_epu32(c0[b], step), c0[b]);
    c1[b] = _mm256_add_epi32(_mm256_set1_epi32(int(uint32_t(low >> 32) + 1)), fits);
    c2[b] = _mm256_set1_epi32(int(uint32_t(stream.high)));
    c3[b] = _mm256_set1_epi32(int(uint32_t(stream.high >> 32)));
  }
  uint32_t k0 = uint32_t(stream.key), k1 = uint32_t(stream.key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const __m256i key0 = _mm256_set1_epi32(int(k0)), key1 = _mm256_set1_epi32(int(k1));
    for (int b = 0; b < kBlocks; ++b) {
      const __m256i even0 = _mm256_mul_epu32(c0[b], multiplier0);
      const __m256i odd0 = _mm256_mul_epu32(_mm256_srli_epi64(c0[b], 32), multiplier0);
      const __m256i even1 = _mm256_mul_epu32(c2[b], multiplier1);
      const __m256i odd1 = _mm256_mul_epu32(_mm256_srli_epi64(c2[b], 32), multiplier1);
      const __m256i low0 = _mm256_blend_epi32(even0, _mm256_slli_epi64(odd0, 32), 0xAA);
      const __m256i high0 = _mm256_blend_epi32(_mm256_srli_epi64(even0, 32), odd0, 0xAA);
      const __m256i low1 = _mm256_blend_epi32(even1, _mm256_slli_epi64(odd1, 32), 0xAA);
      const __m256i high1 = _mm256_blend_epi32(_mm256_srli_epi64(even1, 32), odd1, 0xAA);
      c0[b] = _mm256_xor_si256(_mm256_xor_si256(high1, c1[b]), key0);
      c1[b] = low1;
      c2[b] = _mm256_xor_si256(_mm256_xor_si256(high0, c3[b]), key1);
      c3[b] = low0;
    }
    k0 += kPhiloxKeyStep0;
    k1 += kPhiloxKeyStep1;
  }
  for (int b = 0; b < kBlocks; ++b) {
    // From a vector per word to four words per counter.
    const __m256i a = _mm256_unpacklo_epi32(c0[b], c1[b]), e = _mm256_unpackhi_epi32(c0[b], c1[b]);
    const __m256i c = _mm256_unpacklo_epi32(c2[b], c3[b]), d = _mm256_unpackhi_epi32(c2[b], c3[b]);
    const __m256i g04 = _mm256_unpacklo_epi64(a, c), g15 = _mm256_unpackhi_epi64(a, c);
    const __m256i g26 = _mm256_unpacklo_epi64(e, d), g37 = _mm256_unpackhi_epi64(e, d);
    __m256i* to = reinterpret_cast<__m256i*>(words + b * 32);
    _mm256_storeu_si256(to + 0, _mm256_permute2x128_si256(g04, g15, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(g26, g37, 0x20));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(g04, g15, 0x31));
    _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(g26, g37, 0x31));
  }
}
#endif

// Writes the words of units [0, units) of a stream, and up to words_size(units) of them.
inline void make_words(const Stream& stream, int64_t units, uint32_t* words) {
  const int64_t groups = ceil_div(units, kWordsPerCounter);
  int64_t group = 0;
#if defined(__AVX2__)
  for (; group + 8 < groups; group += 16) {
    make_word_blocks<2>(stream, stream.low + uint64_t(group), words + group * kWordsPerCounter);
  }
  if (group < groups) {
    make_word_blocks<1>(stream, stream.low + uint64_t(group), words + group * kWordsPerCounter);
  }
#else
  for (; group < groups; ++group) {
    const Words w = philox(stream.key, stream.low + uint64_t(group), stream.high);
    std::memcpy(words + group * kWordsPerCounter, w.word, sizeof(w.word));
  }
#endif
}

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
  Stream stream = stream_of(chain.seed, step.site, uint64_t(chain.first_sample + sample),
                            chain.shared ? 0 : uint64_t(chain.first_row + row),
                            step.per_entry ? chain.entries * step.in : step.in);
  stream.low += uint64_t(first / kWordsPerCounter);
  make_words(stream, skipped + step.in, words);
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
