// SPDX-License-Identifier: Apache-2.0
//
// How a call of a chain is run: decided before any work, from sizes alone.
#ifndef KBD_CPU_PLAN_H_
#define KBD_CPU_PLAN_H_

#include <cstdint>

#include "cpu/isa.h"
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

// What run_chain() does. Results depend on `subtracts` and on nothing else in it.
struct ChainPlan {
  Strategy strategy = Strategy::kMasked;
  // Whether the first step subtracts. (Then it is checked that its weights are even, and if they
  // are not it does not.)
  bool subtracts = false;
  int64_t sets = 1;        // of masks that a sample has: one, or one per entry
  int64_t tiles = 0;       // of vectors: per set of masks (kCut), or of the whole call
  int64_t tile_rows = 0;   // vectors of a tile
  int64_t tasks = 0;       // that the threads share; of kColumns in the step that has the most
  int64_t task_bytes = 0;  // scratch of one task
  int64_t call_bytes = 0;  // scratch that all tasks share
  // Multiply-adds that are left when what the noise drops is left out, on average. What is zero for
  // another reason, as by relu, may be skipped besides.
  double multiply_adds = 0;
  // The same of every vector and sample through the whole network.
  double whole_multiply_adds = 0;
};

// A pure function. No pointer of the chain is followed but `steps`.
template <class T>
ChainPlan plan_chain(const Chain<T>& chain, int64_t threads, Strategy strategy = Strategy::kAuto,
                     Subtract subtract = Subtract::kAuto);

// Whether there is nothing to do.
template <class T>
bool is_empty(const Chain<T>& chain) {
  return chain.rows == 0 || chain.entries == 0 || chain.num_samples == 0 || chain.num_steps == 0;
}

// What a task of the plan costs, in floating-point operations; and so many multiply-adds.
template <class T>
int64_t task_cost(const Chain<T>& chain, const ChainPlan& plan);
int64_t cost_of(double multiply_adds);

// How many columns of a kernel a task of Strategy::kColumns takes: a slab, or fewer where slabs are
// fewer than two a thread.
template <class T>
int64_t columns_of_task(const Isa<T>& isa, int64_t out, int64_t threads);

}  // namespace kbd

#endif  // KBD_CPU_PLAN_H_
