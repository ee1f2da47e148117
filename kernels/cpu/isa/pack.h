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

// Packs rows `rows` (all if null) of a kernel, columns `columns` (all if null).
template <class T>
void pack_cut(const Step<T>& step, const Kept* rows, const Kept* columns, T* line, T* slabs) {
  constexpr int kSlab = Lanes<T>::kSlab;
  const int64_t in = rows ? rows->count : step.in;
  const int64_t out = columns ? columns->count : step.out;
  for (int64_t r = 0; r < in; ++r) {
    const T* from = step.kernel + (rows ? int64_t(rows->index[r]) : r) * step.out;
    if (columns) {
      compress(from, step.out, *columns, line);
      from = line;
    }
    for (int64_t column = 0; column < out; column += kSlab) {
      const int64_t width = slab_width<T>(column, out);
      copy_padded(from + column, out - column, width, slabs + column * in + r * width);
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
