// SPDX-License-Identifier: Apache-2.0
//
// Runs a dropout chain on the CPU.
#ifndef KBD_CPU_CHAIN_H_
#define KBD_CPU_CHAIN_H_

#include <cstdint>

#include "cpu/plan.h"
#include "kbd/chain.h"

namespace kbd {

// The instruction set in use: "portable", "avx2" or "avx512". The widest that the machine has,
// unless the environment variable KBD_ISA names another that it has.
const char* isa_name();

// Why KBD_ISA is not obeyed, or null if it is or is not set.
const char* isa_problem();

// Runs the chain as plan_chain() says for the threads of `parallel_for`. Returns false if scratch
// memory could not be had; then nothing is written that counts. The caller has checked shapes, and
// that their products do not overflow; sizes may be zero. `done` receives the multiply-adds that
// were done: those with an element that is zero and skipped are not counted.
template <class T>
bool run_chain(const Chain<T>& chain, const ParallelFor& parallel_for,
               Strategy strategy = Strategy::kAuto, Subtract subtract = Subtract::kAuto,
               int64_t* done = nullptr);

}  // namespace kbd

#endif  // KBD_CPU_CHAIN_H_
