// SPDX-License-Identifier: Apache-2.0
//
// Runs a dropout chain on the CPU.
#ifndef KBD_CPU_CHAIN_H_
#define KBD_CPU_CHAIN_H_

#include <cstdint>

#include "kbd/chain.h"

namespace kbd {

// How a chain is run. All ways give the same bits (if the kernels are finite), so kAuto may choose
// by the cost of a call; the others are for tests.
enum class Strategy {
  kAuto,
  kCut,      // a smaller network per sample; kMasked where the noise does not allow it
  kMasked,   // blocks of vectors, each through the whole network
  kColumns,  // masked, step by step: all vectors through blocks of columns
};

// Whether the first step subtracts what is dropped from x W. This changes the rounding, so kAuto
// looks at the chain alone, never at the rows and samples of a call; the others are for tests.
enum class Subtract { kAuto, kNever, kWherePossible };

// The instruction set in use: "portable", "avx2" or "avx512". The widest that the machine has,
// unless the environment variable KBD_ISA names another that it has.
const char* isa_name();

// Why KBD_ISA is not obeyed, or null if it is or is not set.
const char* isa_problem();

// Runs the chain. Returns false if scratch memory could not be had; then nothing is written that
// counts. The caller has checked shapes, and that their products do not overflow; sizes may be
// zero.
template <class T>
bool run_chain(const Chain<T>& chain, const ParallelFor& parallel_for,
               Strategy strategy = Strategy::kAuto, Subtract subtract = Subtract::kAuto);

}  // namespace kbd

#endif  // KBD_CPU_CHAIN_H_
