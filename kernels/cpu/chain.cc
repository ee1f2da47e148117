// SPDX-License-Identifier: Apache-2.0
#include "cpu/chain.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "cpu/isa.h"
#include "cpu/memory.h"

namespace kbd {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
class Runner {
 public:
  Runner(const Chain<T>& chain, const ChainPlan& plan, const ParallelFor& parallel_for)
      : chain_(chain), plan_(plan), isa_(chosen_isa<T>()), parallel_for_(parallel_for) {}

  bool run() {
    if (plan_.subtracts && !make_base()) {
      return false;
    }
    switch (plan_.strategy) {
      case Strategy::kCut:
        return run_cut();
      case Strategy::kColumns:
        return run_columns();
      case Strategy::kMasked:
      case Strategy::kAuto:
        break;
    }
    return run_masked();
  }

  int64_t done() const { return done_; }

 private:
  int64_t vectors() const { return chain_.rows * chain_.entries; }
  int64_t total() const { return chain_.num_samples * vectors(); }

  // x times the first kernel, and the squared norms of x; neither if the kernel is uneven.
  bool make_base() {
    const Step<T>& step = chain_.steps[0];
    const int64_t panels = ceil_div(step.out, isa_.panel_columns);
    sums_ = std::make_unique<Buffer>(vectors() * panels * isa_.panel_columns * int64_t(sizeof(T)));
    norms_ = std::make_unique<Buffer>(vectors() * int64_t(sizeof(T)));
    base_ = {static_cast<T*>(sums_->get()), static_cast<T*>(norms_->get())};
    if (!base_.sums || !base_.norm) {
      return false;
    }
    // A kernel is read once for both, and nearly all are even.
    std::atomic<bool> even{true};
    const bool fine =
        for_columns(step, vectors(), [&](int64_t column, int64_t width, void* scratch) {
          if (even && !isa_.is_even(step, column, width)) {
            even = false;
          }
          return even ? isa_.base_columns(chain_, base_, column, width, scratch) : 0;
        });
    if (!even) {
      base_ = {nullptr, nullptr};
      return fine;
    }
    parallel_for_(vectors(), cost_of(double(step.in) + double(step.out)),
                  [&](int64_t begin, int64_t end) { isa_.base_norms(chain_, base_, begin, end); });
    return fine;
  }

  bool run_cut() {
    const int64_t sets = plan_.sets, tiles = plan_.tiles, rows = plan_.tile_rows;
    return for_tasks([&](int64_t task, void* scratch) {
      const int64_t first = task % tiles * rows, set = task / tiles;
      return isa_.run_cut(chain_, base_, set / sets, set % sets, sets, first,
                          std::min(vectors() / sets, first + rows), scratch);
    });
  }

  bool run_masked() {
    std::vector<std::unique_ptr<Buffer>> memory;
    std::vector<const T*> packed;
    for (int l = 0; l < chain_.num_steps; ++l) {
      const Step<T>& step = chain_.steps[l];
      const int64_t width = ceil_div(step.out, isa_.panel_columns) * isa_.panel_columns;
      const int64_t size = step.in * isa_.slab_columns;
      memory.push_back(std::make_unique<Buffer>(step.in * width * int64_t(sizeof(T))));
      T* to = static_cast<T*>(memory.back()->get());
      if (to == nullptr) {
        return false;
      }
      packed.push_back(to);
      parallel_for_(
          ceil_div(step.out, isa_.slab_columns), cost_of(double(size)),
          [&](int64_t begin, int64_t end) { isa_.pack(step, begin, end, to + begin * size); });
    }
    const int64_t rows = plan_.tile_rows;
    return for_tasks([&](int64_t task, void* scratch) {
      return isa_.run_masked(chain_, base_, packed.data(), task * rows,
                             std::min(total(), (task + 1) * rows), scratch);
    });
  }

  bool run_columns() {
    const Buffer memory(isa_.rows_bytes(chain_, total()));
    if (memory.get() == nullptr) {
      return false;
    }
    const Rows<T> rows = isa_.rows_in(chain_, total(), memory.get());
    Pool pool(isa_.rows_scratch(chain_));
    bool fine = true;
    for (int l = 0; l <= chain_.num_steps; ++l) {
      // Noise costs some ten operations an element.
      parallel_for_(total(), cost_of(10 * double(rows.width)), [&](int64_t begin, int64_t end) {
        pool.with_scratch(
            [&](void* scratch) { isa_.step_rows(chain_, base_, l, rows, begin, end, scratch); });
      });
      if (l < chain_.num_steps) {
        fine &= for_columns(
            chain_.steps[l], total(), [&](int64_t column, int64_t width, void* scratch) {
              return isa_.step_columns(chain_, base_, l, rows, column, width, scratch);
            });
      }
    }
    return fine && pool.fine();
  }

  // Calls work(task, scratch) on all tasks of the plan. It returns the multiply-adds it did.
  template <class Work>
  bool for_tasks(const Work& work) {
    return share(plan_.tasks, task_cost(chain_, plan_), plan_.task_bytes, work);
  }

  // Calls work(column, width, scratch) on all columns of a step.
  template <class Work>
  bool for_columns(const Step<T>& step, int64_t rows, const Work& work) {
    const int64_t width = columns_of_task(isa_, step.out, parallel_for_.threads());
    return share(ceil_div(step.out, width), cost_of(double(step.in) * double(width) * double(rows)),
                 isa_.columns_scratch(chain_),
                 [&](int64_t task, void* scratch) { return work(task * width, width, scratch); });
  }

  template <class Work>
  bool share(int64_t tasks, int64_t cost, int64_t bytes, const Work& work) {
    Pool pool(bytes);
    parallel_for_(tasks, cost, [&](int64_t begin, int64_t end) {
      pool.with_scratch([&](void* scratch) {
        int64_t done = 0;
        for (int64_t task = begin; task < end; ++task) {
          done += work(task, scratch);
        }
        done_ += done;
      });
    });
    return pool.fine();
  }

  const Chain<T>& chain_;
  const ChainPlan& plan_;
  const Isa<T>& isa_;
  const ParallelFor& parallel_for_;
  std::unique_ptr<Buffer> sums_, norms_;
  Base<T> base_{nullptr, nullptr};
  std::atomic<int64_t> done_{0};
};

}  // namespace

template <class T>
bool run_chain(const Chain<T>& chain, const ParallelFor& parallel_for, Strategy strategy,
               Subtract subtract, int64_t* done) {
  const ChainPlan plan = plan_chain(chain, parallel_for.threads(), strategy, subtract);
  Runner<T> runner(chain, plan, parallel_for);
  const bool fine = is_empty(chain) || runner.run();
  if (done != nullptr) {
    *done = runner.done();
  }
  return fine;
}

template bool run_chain<float>(const Chain<float>&, const ParallelFor&, Strategy, Subtract,
                               int64_t*);
template bool run_chain<double>(const Chain<double>&, const ParallelFor&, Strategy, Subtract,
                                int64_t*);

}  // namespace kbd
