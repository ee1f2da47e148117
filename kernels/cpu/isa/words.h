// SPDX-License-Identifier: Apache-2.0
//
// From counters to words: those of a stream, and balanced ones.
#ifndef KBD_CPU_ISA_WORDS_H_
#define KBD_CPU_ISA_WORDS_H_

#include "cpu/isa/lanes.h"
#include "kbd/balanced.h"

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

#if defined(__AVX512F__)
// The words of 16 * kBlocks counters from `low` on, likewise.
template <int kBlocks>
KBD_INLINE void make_wide_word_blocks(const Stream& stream, uint64_t low, uint32_t* words) {
  const __m512i multiplier0 = _mm512_set1_epi32(int(kPhiloxMultiplier0));
  const __m512i multiplier1 = _mm512_set1_epi32(int(kPhiloxMultiplier1));
  constexpr __mmask16 kOdd = 0xAAAA;
  __m512i c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    const __m512i step =
        _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(16 * b));
    c0[b] = _mm512_add_epi32(_mm512_set1_epi32(int(uint32_t(low))), step);
    const __mmask16 carried = _mm512_cmplt_epu32_mask(c0[b], step);
    c1[b] = _mm512_set1_epi32(int(uint32_t(low >> 32)));
    c1[b] = _mm512_mask_add_epi32(c1[b], carried, c1[b], _mm512_set1_epi32(1));
    c2[b] = _mm512_set1_epi32(int(uint32_t(stream.high)));
    c3[b] = _mm512_set1_epi32(int(uint32_t(stream.high >> 32)));
  }
  uint32_t k0 = uint32_t(stream.key), k1 = uint32_t(stream.key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const __m512i key0 = _mm512_set1_epi32(int(k0)), key1 = _mm512_set1_epi32(int(k1));
    for (int b = 0; b < kBlocks; ++b) {
      const __m512i even0 = _mm512_mul_epu32(c0[b], multiplier0);
      const __m512i odd0 = _mm512_mul_epu32(_mm512_srli_epi64(c0[b], 32), multiplier0);
      const __m512i even1 = _mm512_mul_epu32(c2[b], multiplier1);
      const __m512i odd1 = _mm512_mul_epu32(_mm512_srli_epi64(c2[b], 32), multiplier1);
      const __m512i high0 = _mm512_mask_mov_epi32(_mm512_srli_epi64(even0, 32), kOdd, odd0);
      const __m512i high1 = _mm512_mask_mov_epi32(_mm512_srli_epi64(even1, 32), kOdd, odd1);
      // The lower halves of odd lanes move up, those of even lanes stay.
      const __m512i low0 = _mm512_mask_shuffle_epi32(even0, kOdd, odd0, _MM_PERM_CCAA);
      const __m512i low1 = _mm512_mask_shuffle_epi32(even1, kOdd, odd1, _MM_PERM_CCAA);
      constexpr int kXor3 = 0x96;
      c0[b] = _mm512_ternarylogic_epi32(high1, c1[b], key0, kXor3);
      c1[b] = low1;
      c2[b] = _mm512_ternarylogic_epi32(high0, c3[b], key1, kXor3);
      c3[b] = low0;
    }
    k0 += kPhiloxKeyStep0;
    k1 += kPhiloxKeyStep1;
  }
  for (int b = 0; b < kBlocks; ++b) {
    const __m512i a = _mm512_unpacklo_epi32(c0[b], c1[b]), e = _mm512_unpackhi_epi32(c0[b], c1[b]);
    const __m512i c = _mm512_unpacklo_epi32(c2[b], c3[b]), d = _mm512_unpackhi_epi32(c2[b], c3[b]);
    // Counter 4 * quarter + number of every vector stands in that quarter.
    const __m512i first = _mm512_unpacklo_epi64(a, c), second = _mm512_unpackhi_epi64(a, c);
    const __m512i third = _mm512_unpacklo_epi64(e, d), fourth = _mm512_unpackhi_epi64(e, d);
    const __m512i low01 = _mm512_shuffle_i32x4(first, second, 0x44);
    const __m512i low23 = _mm512_shuffle_i32x4(third, fourth, 0x44);
    const __m512i high01 = _mm512_shuffle_i32x4(first, second, 0xEE);
    const __m512i high23 = _mm512_shuffle_i32x4(third, fourth, 0xEE);
    uint32_t* to = words + b * 64;
    _mm512_storeu_si512(to + 0, _mm512_shuffle_i32x4(low01, low23, 0x88));
    _mm512_storeu_si512(to + 16, _mm512_shuffle_i32x4(low01, low23, 0xDD));
    _mm512_storeu_si512(to + 32, _mm512_shuffle_i32x4(high01, high23, 0x88));
    _mm512_storeu_si512(to + 48, _mm512_shuffle_i32x4(high01, high23, 0xDD));
  }
}
#endif

// Writes the words of units [0, units) of a stream, and up to words_size(units) of them.
inline void make_words(const Stream& stream, int64_t units, uint32_t* words) {
  const int64_t groups = ceil_div(units, kWordsPerCounter);
  int64_t group = 0;
#if defined(__AVX512F__)
  for (; group + 16 < groups; group += 32) {
    make_wide_word_blocks<2>(stream, stream.low + uint64_t(group),
                             words + group * kWordsPerCounter);
  }
  if (group + 8 < groups) {
    make_wide_word_blocks<1>(stream, stream.low + uint64_t(group),
                             words + group * kWordsPerCounter);
    group += 16;
  }
#endif
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

// The strata of one sample of a block, by the factors of the orders less one.
struct Strata {
  alignas(16) uint8_t of[16];
};

struct AllStrata {
  Strata samples[kSamplesPerBlock];
  constexpr AllStrata() : samples{} {
    for (uint32_t sample = 0; sample < uint32_t(kSamplesPerBlock); ++sample) {
      for (uint32_t factor = 1; factor < 16; ++factor) {
        samples[sample].of[factor - 1] = uint8_t(field_product(factor, sample));
      }
    }
  }
};
constexpr AllStrata kStrata;

// Puts words into the strata of one sample of a block. `orders` holds 16 bits of each; both are
// read, and words written, up to a multiple of 16.
inline void put_into_strata(const unsigned char* orders, const Strata& strata, int64_t units,
                            uint32_t* words) {
#if defined(__AVX2__)
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(strata.of)));
  for (int64_t unit = 0; unit < units; unit += 16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(orders + 2 * unit));
    // (half div 16) * 15 div 2^12 in the lower byte; bytes with the highest bit give zero.
    const __m256i factor =
        _mm256_mulhi_epu16(_mm256_and_si256(half, _mm256_set1_epi16(-16)), _mm256_set1_epi16(15));
    const __m256i product =
        _mm256_shuffle_epi8(table, _mm256_or_si256(factor, _mm256_set1_epi16(int16_t(-32768))));
    const __m256i stratum =
        _mm256_xor_si256(product, _mm256_and_si256(half, _mm256_set1_epi16(15)));
#if defined(__AVX512F__)
    const __m512i top = _mm512_slli_epi32(_mm512_cvtepu16_epi32(stratum), kStratumShift);
    const __m512i word = _mm512_loadu_si512(words + unit);
    constexpr int kSelect = 0xE4;  // the third operand chooses the first where it is set
    _mm512_storeu_si512(
        words + unit,
        _mm512_ternarylogic_epi32(word, top, _mm512_set1_epi32(int(kBelowStratum)), kSelect));
#else
    const __m128i parts[2] = {_mm256_castsi256_si128(stratum),
                              _mm256_extracti128_si256(stratum, 1)};
    for (int part = 0; part < 2; ++part) {
      __m256i* at = reinterpret_cast<__m256i*>(words + unit + 8 * part);
      const __m256i top = _mm256_slli_epi32(_mm256_cvtepu16_epi32(parts[part]), kStratumShift);
      const __m256i below =
          _mm256_and_si256(_mm256_loadu_si256(at), _mm256_set1_epi32(int(kBelowStratum)));
      _mm256_storeu_si256(at, _mm256_or_si256(below, top));
    }
#endif
  }
#else
  for (int64_t unit = 0; unit < units; ++unit) {
    uint16_t half;
    std::memcpy(&half, orders + 2 * unit, sizeof(half));
    const uint32_t product = strata.of[uint32_t(half >> 4) * 15 >> 12];
    words[unit] = with_stratum(words[unit], product ^ (half & 15u));
  }
#endif
}

// Balances the words of units [first, first + units) of a stream. `first` is a multiple of 4, and
// `sample` the number of the sample in its block.
inline void balance_words(const Stream& orders, int64_t first, int64_t units, uint32_t sample,
                          uint32_t* words) {
  constexpr int64_t kPiece = 256;  // units
  alignas(64) uint32_t halves[kPiece];
  static_assert(kPiece >= (kPiece + kHalvesPerCounter) / 2 + 64, "room for what is written beyond");
  const Strata& strata = kStrata.samples[sample];
  const int64_t skipped = first % kHalvesPerCounter;
  Stream stream = orders;
  stream.low += uint64_t(first / kHalvesPerCounter);
  for (int64_t unit = 0; unit < units; unit += kPiece) {
    const int64_t piece = units - unit < kPiece ? units - unit : kPiece;
    const int64_t counters = ceil_div(skipped + piece, kHalvesPerCounter);
    make_words(stream, counters * kWordsPerCounter, halves);
    put_into_strata(reinterpret_cast<const unsigned char*>(halves) + 2 * skipped, strata, piece,
                    words + unit);
    stream.low += kPiece / kHalvesPerCounter;
  }
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_WORDS_H_
