// SPDX-License-Identifier: Apache-2.0
//
// Kernels in slabs of columns, as the product reads them: [slabs][in][columns of a slab], the
// last slab narrower, padded with zeros to whole panels.
#ifndef KBD_CPU_ISA_PACK_H_
#define KBD_CPU_ISA_PACK_H_

#include "cpu/isa/compress.h"

namespace kbd {
namespace {

// Columns of the slab that begins at `column`.
template <class T>
int64_t slab_width(int64_t column, int64_t out) {
  const int64_t rest = padded<T>(out) - column;
  return rest < Lanes<T>::kSlab ? rest : Lanes<T>::kSlab;
}

// to = `count` elements and zeros up to `width`, a multiple of a vector.
template <class T>
KBD_INLINE void copy_padded(const T* from, int64_t count, int64_t width, T* to) {
  if (count >= width) {
    for (int64_t j = 0; j < width; j += Lanes<T>::kWidth) {
      store<T>(to + j, load(from + j));
    }
    return;
  }
  copy(from, count, to);
  for (int64_t j = count; j < width; ++j) {
    to[j] = T(0);
  }
}

// Packs rows [first, first + count) of a kernel, `width` columns from `column` on.
template <class T>
void pack_rows(const Step<T>& step, int64_t column, int64_t width, int64_t first, int64_t count,
               T* to) {
  const T* from = step.kernel + first * step.out + column;
  for (int64_t r = 0; r < count; ++r, to += width, from += step.out) {
    copy_padded(from, step.out - column, width, to);
  }
}

// Packs slabs [first, last) of a whole kernel.
template <class T>
void pack(const Step<T>& step, int64_t first, int64_t last, T* slabs) {
  for (int64_t slab = first; slab < last; ++slab) {
    const int64_t column = slab * Lanes<T>::kSlab;
    const int64_t width = slab_width<T>(column, step.out);
    pack_rows(step, column, width, 0, step.in, slabs);
    slabs += step.in * width;
  }
}

// Rows that survive lie apart, where no processor expects them: it is told so many rows ahead. With
// 16 rows of vectors, for which packing is most of the work, a call takes 0.87 of the time.
constexpr int64_t kRowsAhead = 6;
// Elements that a packed block may write beyond its end.
constexpr int64_t kBeyondBlock = 16;

// Packs a block of a cut kernel: of the rows that `rows` keeps (all if null) those numbered [first,
// first + count), of the columns that `columns` keeps (all if null) `width` from number `column`
// on.
template <class T>
void pack_block(const Step<T>& step, const Kept* rows, const Kept* columns, int64_t column,
                int64_t width, int64_t first, int64_t count, T* to) {
  const int64_t rest = (columns ? columns->count : step.out) - column;
  const int64_t filled = rest < width ? rest : width;
  const int64_t left = columns && filled > 0 ? columns->index[column] : column;
  const int64_t right =
      columns && filled > 0 ? columns->index[column + filled - 1] + 1 : column + filled;
  for (int64_t r = first; r < first + count; ++r, to += width) {
    const T* from = step.kernel + (rows ? int64_t(rows->index[r]) : r) * step.out;
    if (rows && r + kRowsAhead < rows->count) {
      const T* ahead = step.kernel + int64_t(rows->index[r + kRowsAhead]) * step.out;
      for (int64_t j = left; j < right; j += 64 / int64_t(sizeof(T))) {
        __builtin_prefetch(ahead + j);
      }
    }
    if (!columns) {
      copy_padded(from + column, rest, width, to);
      continue;
    }
    // What this writes beyond the row belongs to the next one, which comes after it.
    compress(from, step.out, *columns, column, filled, to);
    for (int64_t j = filled; j < width; ++j) {
      to[j] = T(0);
    }
  }
}

// The bias of the columns that are kept (all if null), padded with zeros; null if there is none.
// A minus zero becomes zero: then a sum of minus zero and one of zero give the same.
template <class T>
const T* pack_bias(const Step<T>& step, const Kept* columns, T* to) {
  if (!step.bias) {
    return nullptr;
  }
  const int64_t out = columns ? columns->count : step.out;
  if (columns) {
    compress(step.bias, step.out, *columns, to);
  } else {
    copy(step.bias, out, to);
  }
  for (int64_t j = out; j < padded<T>(out); ++j) {
    to[j] = T(0);
  }
  for (int64_t j = 0; j < out; ++j) {
    to[j] += T(0);
  }
  return to;
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_PACK_H_
