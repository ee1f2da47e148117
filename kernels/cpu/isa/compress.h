// SPDX-License-Identifier: Apache-2.0
//
// Gathers the kept elements of a row.
#ifndef KBD_CPU_ISA_COMPRESS_H_
#define KBD_CPU_ISA_COMPRESS_H_

#include "cpu/isa/lanes.h"

namespace kbd {
namespace {

// to[j] = from[index[j]], for the kept units. Writes up to seven elements beyond the last.
template <class T>
inline void compress(const T* from, int64_t, const Kept& kept, T* to) {
  for (int64_t j = 0; j < kept.count; ++j) {
    to[j] = from[kept.index[j]];
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
inline void compress<float>(const float* from, int64_t units, const Kept& kept, float* to) {
  int64_t unit = 0;
  for (; unit + 8 <= units; unit += 8) {
    const uint8_t mask = kept.bits[unit >> 3];
    const __m256i order =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(kCompress.order[mask]));
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(_mm256_loadu_ps(from + unit), order));
    to += __builtin_popcount(mask);
  }
  for (; unit < units; ++unit) {
    *to = from[unit];
    to += kept.bits[unit >> 3] >> (unit & 7) & 1;
  }
}
#endif

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_COMPRESS_H_
