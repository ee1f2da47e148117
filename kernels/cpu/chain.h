// SPDX-License-Identifier: Apache-2.0
//
// Runs a dropout chain on the CPU.
#ifndef KBD_CPU_CHAIN_H_
#define KBD_CPU_CHAIN_H_

#include <cstdint>

#include "kbd/chain.h"

namespace kbd {

// How a chain is run. kAuto chooses by cost; the others are for tests.
enum class Strategy { kAuto, kCut, kCutSubtract, kMasked };

// The instruction set in use: "portable", "avx2" or "avx512". The widest that the machine has,
// unless the environment variable KBD_ISA names another that it has.
const char* isa_name();

// Runs the chain. Returns false if scratch memory could not be had; then nothing is written that
// counts. The caller has checked shapes; sizes may be zero.
template <class T>
bool run_chain(const Chain<T>& chain, const ParallelFor& parallel_for,
               Strategy strategy = Strategy::kAuto);

}  // namespace kbd

#endif  // KBD_CPU_CHAIN_H_
