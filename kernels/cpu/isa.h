// SPDX-License-Identifier: Apache-2.0
//
// What one instruction set offers. isa_body.h defines it, once per set; chain.cc
// chooses one at run time and calls nothing else that depends on the set.
//
// The vectors of a call are numbered (sample * rows + row) * entries + entry.
#ifndef KBD_CPU_ISA_H_
#define KBD_CPU_ISA_H_

#include <cstdint>

#include "kbd/chain.h"
#include "kbd/perturb.h"

namespace kbd {

// Products of so many successive units are added up by themselves. 256 floats x 16 columns are
// 16 KB, half of a first-level cache.
constexpr int64_t kGroup = 256;

// Which units of one site a sample keeps.
struct Kept {
  uint8_t* bits;   // [ceil(units / 8)], lowest bit first
  int32_t* index;  // [units], the kept ones in order
  int32_t* ends;   // [ceil(units / kGroup)], how many are kept up to the end of each group
  int64_t groups;
  int64_t count;
};

// The first step's sums without noise, for subtraction: null members where there is none.
template <class T>
struct Base {
  T* sums;  // [rows * entries, out padded]: x times the first kernel
  T* norm;  // [rows * entries]: squared norm of x; negative where nothing may be subtracted
};

// A vector takes part in subtraction if at most this share of its squared norm is dropped. The sum
// of all terms and that of the dropped ones round each by itself, so that with share d the variance
// of the error is about 1 + d^2 of that of the whole sum, instead of (1 - d)^2: at 0.35 the
// error is 1.6 times that of the direct way, at most.
constexpr double kMostDropped = 0.35;

// The product over the elements that are not zero is taken below this share of them. By a profile
// it runs at about 0.6 of the dense rate at a share of a quarter; the limit itself has not been
// swept.
constexpr double kMostSparse = 0.6;
// And not at all for so few units, or columns that a single panel holds: that is not wide enough to
// hide the latency of a sum.
constexpr int64_t kLeastSparseUnits = 32;
inline bool may_be_sparse(int64_t in, int64_t out, int64_t panel) {
  return in >= kLeastSparseUnits && out > panel;
}

// The activations of vectors: a step's input, of `width` elements each, and its sums.
template <class T>
struct Rows {
  T* input;
  T* sums;
  int64_t width;
  int64_t sums_width;
  uint64_t* bits;  // which inputs are not zero, [vectors, in / 64 rounded up]
};

template <class T>
struct Isa {
  int64_t panel_columns;  // kernels are padded to a multiple of these
  int64_t slab_columns;   // and packed in slabs of these
  // Bytes of scratch that a task of so many vectors needs.
  int64_t (*cut_scratch)(const Chain<T>& chain, int64_t vectors);
  int64_t (*masked_scratch)(const Chain<T>& chain, int64_t vectors);
  int64_t (*rows_scratch)(const Chain<T>& chain);
  int64_t (*columns_scratch)(const Chain<T>& chain);
  // Bytes of the activations of so many vectors; and these, in memory of that size.
  int64_t (*rows_bytes)(const Chain<T>& chain, int64_t vectors);
  Rows<T> (*rows_in)(const Chain<T>& chain, int64_t vectors, void* memory);

  // Packs slabs [first, last) of a kernel, from slabs[0] on.
  void (*pack)(const Step<T>& step, int64_t first, int64_t last, T* slabs);

  // Whether the weights of columns [column, column + width) are such that subtraction keeps its
  // digits. The width is a multiple of panel_columns, at most slab_columns; the kernel may end
  // before.
  bool (*is_even)(const Step<T>& step, int64_t column, int64_t width);
  // Such columns of base.sums; and, after all, base.norm of vectors [begin, end). This and the
  // following return the multiply-adds they did.
  int64_t (*base_columns)(const Chain<T>& chain, const Base<T>& base, int64_t column, int64_t width,
                          void* scratch);
  void (*base_norms)(const Chain<T>& chain, const Base<T>& base, int64_t begin, int64_t end);

  // Runs the surviving network of one sample on vectors entry + stride * [begin, end) of it.
  int64_t (*run_cut)(const Chain<T>& chain, const Base<T>& base, int64_t sample, int64_t entry,
                     int64_t stride, int64_t begin, int64_t end, void* scratch);

  // Runs vectors [begin, end) of the call on kernels packed whole.
  int64_t (*run_masked)(const Chain<T>& chain, const Base<T>& base, const T* const* packed,
                        int64_t begin, int64_t end, void* scratch);

  // The same step by step, for all vectors of a call: first the input of a step (or, of the step
  // after the last, the output) for vectors [begin, end), then the sums, some columns at a time.
  void (*step_rows)(const Chain<T>& chain, const Base<T>& base, int step, const Rows<T>& rows,
                    int64_t begin, int64_t end, void* scratch);
  int64_t (*step_columns)(const Chain<T>& chain, const Base<T>& base, int step, const Rows<T>& rows,
                          int64_t column, int64_t width, void* scratch);

  // Puts noise on one sample of rows [first_row, last_row), which have the same noise.
  void (*perturb)(const Perturbation<T>& perturbation, int64_t sample, int64_t first_row,
                  int64_t last_row);
};

const Isa<float>* portable_float();
const Isa<double>* portable_double();
const Isa<float>* avx2_float();
const Isa<double>* avx2_double();
const Isa<float>* avx512_float();
const Isa<double>* avx512_double();

// The one that isa_name() names.
template <class T>
const Isa<T>& chosen_isa();
template <>
const Isa<float>& chosen_isa<float>();
template <>
const Isa<double>& chosen_isa<double>();

}  // namespace kbd

#endif  // KBD_CPU_ISA_H_
