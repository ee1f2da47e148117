// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a chain, compiled once per instruction set. The including file defines
//
//   KBD_VECTOR_BYTES   width of a vector register
//   KBD_TILE_ROWS      rows of a register tile
//   KBD_ISA(type)      name of the function that returns the table for a type
//
// Everything here and in isa/ has internal linkage and no template of the standard library is
// used: a weak symbol compiled with wider instructions could be the one that the linker keeps for
// all.
#include "cpu/isa/cut.h"
#include "cpu/isa/masked.h"
#include "cpu/isa/perturb.h"

namespace kbd {
namespace {

template <class T>
const Isa<T>* table() {
  static const Isa<T> isa{Lanes<T>::kPanel, Lanes<T>::kSlab,    cut_scratch<T>,  masked_scratch<T>,
                          rows_scratch<T>,  columns_scratch<T>, rows_bytes<T>,   rows_in<T>,
                          pack<T>,          is_even<T>,         base_columns<T>, base_norms<T>,
                          run_cut<T>,       run_masked<T>,      step_rows<T>,    step_columns<T>,
                          perturb<T>};
  return &isa;
}

}  // namespace

const Isa<float>* KBD_ISA(float)() { return table<float>(); }
const Isa<double>* KBD_ISA(double)() { return table<double>(); }

}  // namespace kbd
