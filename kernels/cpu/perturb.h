// SPDX-License-Identifier: Apache-2.0
//
// Puts noise on a tensor on the CPU.
#ifndef KBD_CPU_PERTURB_H_
#define KBD_CPU_PERTURB_H_

#include "kbd/chain.h"
#include "kbd/perturb.h"

namespace kbd {

// Runs a perturbation. The caller has checked shapes, and that their products do not overflow;
// sizes may be zero.
template <class T>
void run_perturbation(const Perturbation<T>& perturbation, const ParallelFor& parallel_for);

}  // namespace kbd

#endif  // KBD_CPU_PERTURB_H_
