// SPDX-License-Identifier: Apache-2.0
//
// Gathers the kept elements of a row.
#ifndef KBD_CPU_ISA_COMPRESS_H_
#define KBD_CPU_ISA_COMPRESS_H_

#include "cpu/isa/lanes.h"

namespace kbd {
namespace {

// to[j] = from[index[first + j]] for `count` of the kept units. Writes up to fifteen elements
// beyond the last.
template <class T>
inline void compress(const T* from, int64_t, const Kept& kept, int64_t first, int64_t count,
                     T* to) {
  const int32_t* index = kept.index + first;
  for (int64_t j = 0; j < count; ++j) {
    to[j] = from[index[j]];
  }
}

#if defined(__AVX2__)
// Permutations that move the elements whose bit is set to the front, one per byte.
struct CompressTable {
  alignas(32) int32_t order[256][8];
};
constexpr CompressTable make_compress_table() {
  CompressTable table{};
  for (int mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (int bit = 0; bit < 8; ++bit) {
      if (mask >> bit & 1) {
        table.order[mask][count++] = bit;
      }
    }
  }
  return table;
}
constexpr CompressTable kCompress = make_compress_table();

template <>
inline void compress<float>(const float* from, int64_t units, const Kept& kept, int64_t first,
                            int64_t count, float* to) {
  if (count == 0) {
    return;
  }
  const float* const end = to + count;
  const int32_t begin = kept.index[first];
  int64_t unit = begin & ~7;
  unsigned skipped = (1u << (begin & 7)) - 1;  // units of the first byte that are not asked for
#if KBD_VECTOR_BYTES == 64
  for (; to < end && unit + 16 <= units; unit += 16) {
    uint16_t bits;
    std::memcpy(&bits, kept.bits + (unit >> 3), sizeof(bits));
    const unsigned mask = bits & ~skipped;
    _mm512_storeu_ps(to, _mm512_maskz_compress_ps(__mmask16(mask), _mm512_loadu_ps(from + unit)));
    to += __builtin_popcount(mask);
    skipped = 0;
  }
#endif
  for (; to < end && unit + 8 <= units; unit += 8) {
    const unsigned mask = kept.bits[unit >> 3] & ~skipped;
    const __m256i order =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(kCompress.order[mask]));
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(_mm256_loadu_ps(from + unit), order));
    to += __builtin_popcount(mask);
    skipped = 0;
  }
  for (const int32_t* index = kept.index + (first + count) - (end - to); to < end; ++to, ++index) {
    *to = from[*index];
  }
}
#endif

// All the kept units.
template <class T>
inline void compress(const T* from, int64_t units, const Kept& kept, T* to) {
  compress(from, units, kept, 0, kept.count, to);
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_COMPRESS_H_
