// SPDX-License-Identifier: Apache-2.0
#include "cpu/chain.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "cpu/isa.h"

namespace kbd {
namespace {

// Rows that pass through a network together: their activations stay in the second-level cache.
constexpr int64_t kCutRows = 252;
constexpr int64_t kMaskedRows = 84;

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

enum class Set { kPortable, kAvx2, kAvx512 };

Set choose_set() {
  const char* asked = std::getenv("KBD_ISA");
  const Set best = has_avx512() ? Set::kAvx512 : has_avx2() ? Set::kAvx2 : Set::kPortable;
  if (asked == nullptr) {
    return best;
  }
  if (std::strcmp(asked, "portable") == 0) {
    return Set::kPortable;
  }
  if (std::strcmp(asked, "avx2") == 0 && has_avx2()) {
    return Set::kAvx2;
  }
  return best;
}

Set the_set() {
  static const Set set = choose_set();
  return set;
}

template <class T>
const Isa<T>* isa_for();

template <>
const Isa<float>* isa_for<float>() {
#if defined(__x86_64__)
  switch (the_set()) {
    case Set::kAvx512:
      return avx512_float();
    case Set::kAvx2:
      return avx2_float();
    case Set::kPortable:
      break;
  }
#endif
  return portable_float();
}

template <>
const Isa<double>* isa_for<double>() {
#if defined(__x86_64__)
  switch (the_set()) {
    case Set::kAvx512:
      return avx512_double();
    case Set::kAvx2:
      return avx2_double();
    case Set::kPortable:
      break;
  }
#endif
  return portable_double();
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Memory that is freed, aligned to a cache line, and null when there is none left.
class Buffer {
 public:
  explicit Buffer(int64_t bytes)
      : data_(::operator new(size_t(std::max<int64_t>(bytes, 1)), std::align_val_t(64),
                             std::nothrow)) {}
  ~Buffer() { ::operator delete(data_, std::align_val_t(64)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* get() const { return data_; }

 private:
  void* data_;
};

template <class T>
double keep_fraction(const Step<T>& step) {
  return step.noise == Noise::kBernoulli ? 1.0 - double(step.threshold) * 0x1p-32 : 1.0;
}

// Multiply-adds of a sample of one row: of the network that survives, and of the whole.
template <class T>
double surviving_work(const Chain<T>& chain, bool subtract) {
  double work = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    double rows = keep_fraction(step);
    if (l == 0 && subtract) {
      rows = 1.0 - rows;
    }
    const double columns = l + 1 < chain.num_steps ? keep_fraction(chain.steps[l + 1]) : 1.0;
    work += rows * double(step.in) * columns * double(step.out);
  }
  return work;
}

template <class T>
double whole_work(const Chain<T>& chain) {
  double work = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    work += double(chain.steps[l].in) * double(chain.steps[l].out);
  }
  return work;
}

// Whether every noise of the chain can be cut out of the network.
template <class T>
bool can_cut(const Chain<T>& chain) {
  if (!chain.shared) {
    return false;
  }
  for (int l = 0; l < chain.num_steps; ++l) {
    if (chain.steps[l].noise == Noise::kGaussian) {
      return false;
    }
  }
  return true;
}

// Cost model, in multiply-adds. Cutting packs the surviving kernel anew for every sample, which
// costs as much as kPackCost rows of the product; masking packs the whole kernel once.
template <class T>
Strategy choose(const Chain<T>& chain) {
  constexpr double kPackCost = 24;
  // Copying x W into place costs about as much as this share of the first step's product.
  constexpr double kSubtractBelow = 0.45;
  if (!can_cut(chain)) {
    return Strategy::kMasked;
  }
  const bool subtract = chain.steps[0].noise == Noise::kBernoulli &&
                        1.0 - keep_fraction(chain.steps[0]) < kSubtractBelow &&
                        chain.num_samples > 1;
  const double rows = double(chain.rows), samples = double(chain.num_samples);
  const double survives = surviving_work(chain, subtract);
  const double cut = samples * survives * (rows + kPackCost);
  const double masked = whole_work(chain) * (samples * rows + kPackCost);
  if (masked < cut) {
    return Strategy::kMasked;
  }
  return subtract ? Strategy::kCutSubtract : Strategy::kCut;
}

template <class T>
bool pack_steps(const Chain<T>& chain, const Isa<T>& isa, int first, int last,
                const ParallelFor& parallel_for, std::vector<Packed<T>>* packed, T* memory) {
  int64_t panels = 0;
  for (int l = first; l < last; ++l) {
    const Step<T>& step = chain.steps[l];
    (*packed)[size_t(l)] = {memory + panels * isa.panel_columns, step.in, step.out};
    panels += ceil_div(step.out, isa.panel_columns) * step.in;
  }
  for (int l = first; l < last; ++l) {
    const Step<T>& step = chain.steps[l];
    T* to = const_cast<T*>((*packed)[size_t(l)].panels);
    parallel_for(ceil_div(step.out, isa.panel_columns), step.in * isa.panel_columns,
                 [&](int64_t begin, int64_t end) { isa.pack(step, begin, end, to); });
  }
  return true;
}

template <class T>
int64_t packed_size(const Chain<T>& chain, const Isa<T>& isa, int first, int last) {
  int64_t size = 0;
  for (int l = first; l < last; ++l) {
    size += ceil_div(chain.steps[l].out, isa.panel_columns) * isa.panel_columns * chain.steps[l].in;
  }
  return size;
}

template <class T>
bool run_masked(const Chain<T>& chain, const Isa<T>& isa, const ParallelFor& parallel_for) {
  Buffer memory(packed_size(chain, isa, 0, chain.num_steps) * int64_t(sizeof(T)));
  if (memory.get() == nullptr) {
    return false;
  }
  std::vector<Packed<T>> packed(size_t(chain.num_steps));
  pack_steps(chain, isa, 0, chain.num_steps, parallel_for, &packed, static_cast<T*>(memory.get()));
  const int64_t total = chain.rows * chain.num_samples;
  std::atomic<bool> fine{true};
  parallel_for(ceil_div(total, kMaskedRows), int64_t(whole_work(chain)) * kMaskedRows * 2,
               [&](int64_t begin, int64_t end) {
                 Buffer scratch(isa.masked_scratch(chain, kMaskedRows));
                 if (scratch.get() == nullptr) {
                   fine = false;
                   return;
                 }
                 for (int64_t t = begin; t < end; ++t) {
                   isa.run_masked(chain, packed.data(), t * kMaskedRows,
                                  std::min(total, (t + 1) * kMaskedRows), scratch.get());
                 }
               });
  return fine;
}

template <class T>
bool run_cut(const Chain<T>& chain, const Isa<T>& isa, bool subtract,
             const ParallelFor& parallel_for) {
  const Step<T>& first = chain.steps[0];
  const int64_t padded = ceil_div(first.out, isa.panel_columns) * isa.panel_columns;
  Buffer product(subtract ? chain.rows * padded * int64_t(sizeof(T)) : 0);
  if (subtract) {
    Buffer memory(packed_size(chain, isa, 0, 1) * int64_t(sizeof(T)));
    if (memory.get() == nullptr || product.get() == nullptr) {
      return false;
    }
    std::vector<Packed<T>> packed(1);
    pack_steps(chain, isa, 0, 1, parallel_for, &packed, static_cast<T*>(memory.get()));
    parallel_for(ceil_div(chain.rows, kMaskedRows), first.in * first.out * kMaskedRows * 2,
                 [&](int64_t begin, int64_t end) {
                   isa.multiply(chain, packed[0], begin * kMaskedRows,
                                std::min(chain.rows, end * kMaskedRows),
                                static_cast<T*>(product.get()));
                 });
  }
  const int64_t tiles = ceil_div(chain.rows, kCutRows);
  const int64_t rows = ceil_div(chain.rows, std::max<int64_t>(tiles, 1));
  std::atomic<bool> fine{true};
  parallel_for(
      chain.num_samples * tiles, int64_t(surviving_work(chain, subtract) * double(rows + 24)) * 2,
      [&](int64_t begin, int64_t end) {
        Buffer scratch(isa.cut_scratch(chain, rows));
        if (scratch.get() == nullptr) {
          fine = false;
          return;
        }
        for (int64_t t = begin; t < end; ++t) {
          const int64_t row = t % tiles * rows;
          isa.run_cut(chain, t / tiles, row, std::min(chain.rows, row + rows),
                      subtract ? static_cast<const T*>(product.get()) : nullptr, scratch.get());
        }
      });
  return fine;
}

}  // namespace

const char* isa_name() {
  switch (the_set()) {
    case Set::kAvx512:
      return "avx512";
    case Set::kAvx2:
      return "avx2";
    case Set::kPortable:
      break;
  }
  return "portable";
}

template <class T>
bool run_chain(const Chain<T>& chain, const ParallelFor& parallel_for, Strategy strategy) {
  if (chain.rows == 0 || chain.num_samples == 0 || chain.num_steps == 0) {
    return true;
  }
  const Isa<T>& isa = *isa_for<T>();
  if (strategy == Strategy::kAuto) {
    strategy = choose(chain);
  }
  if (strategy == Strategy::kMasked || !can_cut(chain)) {
    return run_masked(chain, isa, parallel_for);
  }
  const bool subtract =
      strategy == Strategy::kCutSubtract && chain.steps[0].noise == Noise::kBernoulli;
  return run_cut(chain, isa, subtract, parallel_for);
}

template bool run_chain<float>(const Chain<float>&, const ParallelFor&, Strategy);
template bool run_chain<double>(const Chain<double>&, const ParallelFor&, Strategy);

}  // namespace kbd
