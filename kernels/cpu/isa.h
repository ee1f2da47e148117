// SPDX-License-Identifier: Apache-2.0
//
// What one instruction set offers. isa_body.h defines it, once per set; chain.cc
// chooses one at run time and calls nothing else that depends on the set.
#ifndef KBD_CPU_ISA_H_
#define KBD_CPU_ISA_H_

#include <cstdint>

#include "kbd/chain.h"

namespace kbd {

// Which units of one site a sample keeps.
struct Kept {
  uint8_t* bits;   // [ceil(units / 8)], lowest bit first
  int32_t* index;  // [units], the kept ones in order
  int64_t count;
};

// A kernel in panels of columns: [panels][in][columns of a panel], padded with zeros.
template <class T>
struct Packed {
  const T* panels;
  int64_t in;
  int64_t out;
};

template <class T>
struct Isa {
  int64_t panel_columns;
  // Bytes of scratch that a task of so many rows needs.
  int64_t (*cut_scratch)(const Chain<T>& chain, int64_t rows);
  int64_t (*masked_scratch)(const Chain<T>& chain, int64_t rows);
  // Packs columns [first, last) of panels of a kernel.
  void (*pack)(const Step<T>& step, int64_t first_panel, int64_t last_panel, T* panels);
  // Runs rows [row_begin, row_end) of one sample on the network that survives. `product` is
  // x times the first kernel, or null: then the first step cuts too.
  void (*run_cut)(const Chain<T>& chain, int64_t sample, int64_t row_begin, int64_t row_end,
                  const T* product, void* scratch);
  // Runs virtual rows [begin, end), number sample * rows + row, on packed kernels.
  void (*run_masked)(const Chain<T>& chain, const Packed<T>* packed, int64_t begin, int64_t end,
                     void* scratch);
  // product[row] = x[row] times the packed first kernel, for rows [begin, end).
  void (*multiply)(const Chain<T>& chain, const Packed<T>& packed, int64_t begin, int64_t end,
                   T* product);
};

const Isa<float>* portable_float();
const Isa<double>* portable_double();
const Isa<float>* avx2_float();
const Isa<double>* avx2_double();
const Isa<float>* avx512_float();
const Isa<double>* avx512_double();

}  // namespace kbd

#endif  // KBD_CPU_ISA_H_
