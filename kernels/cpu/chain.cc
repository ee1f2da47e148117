// SPDX-License-Identifier: Apache-2.0
#include "cpu/chain.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "cpu/isa.h"

namespace kbd {
namespace {

// Vectors that pass through a network together. Cut networks are packed once for each such block,
// so a batch of 256 should not need two: two pairs of noisy runs gave 0.33 and 0.27 of the ceiling
// for two blocks, 0.27 and 0.24 for one, with the dense product only. For masked networks 84, 168
// and 252 could not be told apart.
constexpr int64_t kCutRows = 516;
constexpr int64_t kMaskedRows = 168;
// Up to so many vectors of a call go step by step: 50 take 5.2 ms instead of 8.1, 800 take 80 ms
// instead of 53 (benchmarks/lab/02_core/01_chain, "one row" and "sixteen rows").
constexpr int64_t kMostColumnsRows = 256;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Memory that is freed, aligned to a cache line, and null when there is none left. Large pieces
// come from the system and go back to it: malloc would keep some for every thread that ever asked.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(size_t(std::max<int64_t>(bytes, 1))) {
    if (is_large()) {
      void* pages =
          ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      data_ = pages == MAP_FAILED ? nullptr : pages;
    } else {
      data_ = ::operator new(bytes_, std::align_val_t(64), std::nothrow);
    }
  }
  ~Buffer() {
    if (!is_large()) {
      ::operator delete(data_, std::align_val_t(64));
    } else if (data_ != nullptr) {
      ::munmap(data_, bytes_);
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* get() const { return data_; }

 private:
  bool is_large() const { return bytes_ >= size_t(1) << 20; }

  const size_t bytes_;
  void* data_;
};

// Scratch for the tasks of one call: as many buffers as tasks run at once, each used again.
class Pool {
 public:
  explicit Pool(int64_t bytes) : bytes_(bytes) {}

  // Runs work(scratch), or notes that there was no memory.
  template <class Work>
  void with_scratch(const Work& work) {
    std::unique_ptr<Buffer> buffer;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        buffer = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!buffer) {
      buffer = std::make_unique<Buffer>(bytes_);
    }
    if (buffer->get() == nullptr) {
      fine_ = false;
      return;
    }
    work(buffer->get());
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(buffer));
  }

  bool fine() const { return fine_; }

 private:
  const int64_t bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> free_;
  std::atomic<bool> fine_{true};
};

template <class T>
double drop_fraction(const Step<T>& step) {
  return step.noise == Noise::kBernoulli ? double(step.threshold) * 0x1p-32 : 0.0;
}

template <class T>
int64_t vectors_per_sample(const Chain<T>& chain) {
  return chain.rows * chain.entries;
}

// Whether every noise of the chain can be cut out of the network.
template <class T>
bool can_cut(const Chain<T>& chain) {
  if (!chain.shared) {
    return false;
  }
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    if (step.noise == Noise::kGaussian ||
        std::max(step.in, step.out) > std::numeric_limits<int32_t>::max()) {
      return false;
    }
  }
  return true;
}

// How many sets of masks a sample has: one, or one per entry.
template <class T>
int64_t mask_sets(const Chain<T>& chain) {
  for (int l = 0; l < chain.num_steps; ++l) {
    if (chain.steps[l].noise == Noise::kBernoulli && chain.steps[l].per_entry) {
      return chain.entries;
    }
  }
  return 1;
}

template <class T>
bool can_subtract(const Chain<T>& chain) {
  return chain.steps[0].noise == Noise::kBernoulli && !chain.x_per_sample;
}

// Only the chain itself may be looked at here, for the rounding depends on it.
template <class T>
bool should_subtract(const Chain<T>& chain) {
  // At a rate of 0.25 the error is 1.4 times that of the direct way (kMostDropped in isa.h). Of few
  // units a few carry most.
  constexpr double kMostRate = 0.25;
  constexpr int64_t kLeastUnits = 128;
  return can_subtract(chain) && can_cut(chain) && chain.steps[0].in >= kLeastUnits &&
         drop_fraction(chain.steps[0]) <= kMostRate;
}

// Cost model, in multiply-adds of the dense product. The two constants were fitted by hand to
// benchmarks/lab/02_core/01_chain ("shared" and "sixteen rows", AVX2, on a busy machine): they tell
// cut from masked where these differ much, and are no measurement of either.
//
// A product over the elements that are not zero runs at this share of the dense rate.
constexpr double kSparseRate = 0.65;
// Packing an element of the surviving rows of a kernel, which is done for every sample.
constexpr double kPackCost = 20;

// What a step costs for one vector: cut, or masked.
template <class T>
double step_work(const Chain<T>& chain, int l, bool subtract, bool cut) {
  const Step<T>& step = chain.steps[l];
  const double dropped = drop_fraction(step);
  const double rows = l == 0 && subtract ? dropped : 1.0 - dropped;
  // Half of what comes from a relu is zero.
  double density = l > 0 && chain.steps[l - 1].activation == Activation::kRelu ? 0.5 : 1.0;
  double size = double(step.in) * double(step.out);
  if (cut) {
    size *= rows * (l + 1 < chain.num_steps ? 1.0 - drop_fraction(chain.steps[l + 1]) : 1.0);
  } else {
    density *= rows;
  }
  return size * std::min(1.0, density / kSparseRate);
}

template <class T>
double network_work(const Chain<T>& chain, bool subtract, bool cut) {
  double work = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    work += step_work(chain, l, subtract, cut);
  }
  return work;
}

// What packing costs: the rows that survive, for each set of masks; or all, once.
template <class T>
double pack_work(const Chain<T>& chain, bool subtract, bool cut) {
  double work = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const double dropped = drop_fraction(chain.steps[l]);
    const double rows = !cut ? 1.0 : l == 0 && subtract ? dropped : 1.0 - dropped;
    work += kPackCost * rows * double(chain.steps[l].in) * double(chain.steps[l].out);
  }
  return work;
}

// Multiply-adds as the cost of a task.
int64_t cost_of(double multiply_adds) {
  return int64_t(std::min(std::max(2 * multiply_adds, 1.0), 1e15));
}

template <class T>
Strategy choose(const Chain<T>& chain, bool subtract) {
  const double vectors = double(vectors_per_sample(chain)), samples = double(chain.num_samples);
  if (can_cut(chain)) {
    const double sets = double(mask_sets(chain));
    const double cut = samples * (vectors * network_work(chain, subtract, true) +
                                  sets * pack_work(chain, subtract, true));
    const double masked = samples * vectors * network_work(chain, subtract, false) +
                          pack_work(chain, subtract, false);
    if (cut < masked) {
      return Strategy::kCut;
    }
  }
  return samples * vectors <= double(kMostColumnsRows) ? Strategy::kColumns : Strategy::kMasked;
}

template <class T>
class Runner {
 public:
  Runner(const Chain<T>& chain, const ParallelFor& parallel_for)
      : chain_(chain), isa_(chosen_isa<T>()), parallel_for_(parallel_for) {}

  // x times the first kernel, and the squared norms of x; neither if the kernel is uneven.
  bool make_base() {
    const Step<T>& step = chain_.steps[0];
    const int64_t vectors = vectors_per_sample(chain_);
    const int64_t slabs = ceil_div(step.out, isa_.slab_columns);
    std::atomic<bool> even{true};
    parallel_for_(slabs, cost_of(double(step.in) * double(isa_.slab_columns)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t slab = begin; slab < end && even; ++slab) {
                      if (!isa_.is_even(step, slab)) {
                        even = false;
                      }
                    }
                  });
    if (!even) {
      return true;
    }
    const int64_t panels = ceil_div(step.out, isa_.panel_columns);
    sums_ = std::make_unique<Buffer>(vectors * panels * isa_.panel_columns * int64_t(sizeof(T)));
    norms_ = std::make_unique<Buffer>(vectors * int64_t(sizeof(T)));
    base_ = {static_cast<T*>(sums_->get()), static_cast<T*>(norms_->get())};
    if (!base_.sums || !base_.norm) {
      return false;
    }
    const bool fine = for_columns(step, vectors, [&](int64_t slab, void* scratch) {
      isa_.base_columns(chain_, base_, slab, scratch);
    });
    parallel_for_(vectors, cost_of(double(step.in) + double(step.out)),
                  [&](int64_t begin, int64_t end) { isa_.base_norms(chain_, base_, begin, end); });
    return fine;
  }

  bool run_cut() {
    const int64_t sets = mask_sets(chain_);
    const int64_t vectors = vectors_per_sample(chain_) / sets;
    const int64_t tiles = ceil_div(vectors, kCutRows);
    const int64_t rows = ceil_div(vectors, tiles);
    Pool pool(isa_.cut_scratch(chain_, rows));
    const bool subtract = base_.sums != nullptr;
    const double cost =
        double(rows) * network_work(chain_, subtract, true) + pack_work(chain_, subtract, true);
    parallel_for_(chain_.num_samples * sets * tiles, cost_of(cost),
                  [&](int64_t begin, int64_t end) {
                    pool.with_scratch([&](void* scratch) {
                      for (int64_t t = begin; t < end; ++t) {
                        const int64_t first = t % tiles * rows, set = t / tiles;
                        isa_.run_cut(chain_, base_, set / sets, set % sets, sets, first,
                                     std::min(vectors, first + rows), scratch);
                      }
                    });
                  });
    return pool.fine();
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
    const int64_t total = chain_.num_samples * vectors_per_sample(chain_);
    const int64_t tiles = ceil_div(total, kMaskedRows);
    const int64_t rows = ceil_div(total, tiles);
    Pool pool(isa_.masked_scratch(chain_, rows));
    parallel_for_(tiles, cost_of(network_work(chain_, base_.sums != nullptr, false) * double(rows)),
                  [&](int64_t begin, int64_t end) {
                    pool.with_scratch([&](void* scratch) {
                      for (int64_t t = begin; t < end; ++t) {
                        isa_.run_masked(chain_, base_, packed.data(), std::min(total, t * rows),
                                        std::min(total, (t + 1) * rows), scratch);
                      }
                    });
                  });
    return pool.fine();
  }

  bool run_columns() {
    const int64_t total = chain_.num_samples * vectors_per_sample(chain_);
    const int64_t width = isa_.row_width(chain_);
    const Buffer inputs(total * width * int64_t(sizeof(T)));
    const Buffer sums(total * width * int64_t(sizeof(T)));
    const Buffer bits(total * ceil_div(width, 64) * int64_t(sizeof(uint64_t)));
    const Rows<T> rows{static_cast<T*>(inputs.get()), static_cast<T*>(sums.get()), width,
                       static_cast<uint64_t*>(bits.get())};
    if (!rows.input || !rows.sums || !rows.bits) {
      return false;
    }
    Pool pool(isa_.rows_scratch(chain_));
    bool fine = true;
    for (int l = 0; l <= chain_.num_steps; ++l) {
      // Noise costs some ten operations an element.
      parallel_for_(total, cost_of(10 * double(width)), [&](int64_t begin, int64_t end) {
        pool.with_scratch(
            [&](void* scratch) { isa_.step_rows(chain_, base_, l, rows, begin, end, scratch); });
      });
      if (l < chain_.num_steps) {
        fine &= for_columns(chain_.steps[l], total, [&](int64_t slab, void* scratch) {
          isa_.step_columns(chain_, base_, l, rows, slab, scratch);
        });
      }
    }
    return fine && pool.fine();
  }

 private:
  // Calls work(slab, scratch) on all slabs of a step.
  template <class Work>
  bool for_columns(const Step<T>& step, int64_t vectors, const Work& work) {
    Pool pool(isa_.columns_scratch(chain_));
    const double cost = double(step.in) * double(isa_.slab_columns) * double(vectors);
    parallel_for_(ceil_div(step.out, isa_.slab_columns), cost_of(cost),
                  [&](int64_t begin, int64_t end) {
                    pool.with_scratch([&](void* scratch) {
                      for (int64_t slab = begin; slab < end; ++slab) {
                        work(slab, scratch);
                      }
                    });
                  });
    return pool.fine();
  }

  const Chain<T>& chain_;
  const Isa<T>& isa_;
  const ParallelFor& parallel_for_;
  std::unique_ptr<Buffer> sums_, norms_;
  Base<T> base_{nullptr, nullptr};
};

}  // namespace

template <class T>
bool run_chain(const Chain<T>& chain, const ParallelFor& parallel_for, Strategy strategy,
               Subtract subtract) {
  if (chain.rows == 0 || chain.entries == 0 || chain.num_samples == 0 || chain.num_steps == 0) {
    return true;
  }
  const bool subtracts = subtract == Subtract::kAuto
                             ? should_subtract(chain)
                             : subtract == Subtract::kWherePossible && can_subtract(chain);
  if (strategy == Strategy::kAuto) {
    strategy = choose(chain, subtracts);
  }
  if (strategy == Strategy::kCut && !can_cut(chain)) {
    strategy = Strategy::kMasked;
  }
  Runner<T> runner(chain, parallel_for);
  if (subtracts && !runner.make_base()) {
    return false;
  }
  switch (strategy) {
    case Strategy::kCut:
      return runner.run_cut();
    case Strategy::kColumns:
      return runner.run_columns();
    case Strategy::kMasked:
    case Strategy::kAuto:
      break;
  }
  return runner.run_masked();
}

template bool run_chain<float>(const Chain<float>&, const ParallelFor&, Strategy, Subtract);
template bool run_chain<double>(const Chain<double>&, const ParallelFor&, Strategy, Subtract);

}  // namespace kbd
