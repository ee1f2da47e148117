// SPDX-License-Identifier: Apache-2.0
//
// A dropout chain: L steps of "noise on the input, matmul, bias, activation",
// for a block of samples of a block of rows.
//
//   h[0] = x[row]
//   h[l+1] = activation_l((noise_l * h[l]) W_l + bias_l)
//
// Plain structs: what crosses the border between TensorFlow and the arithmetic.
#ifndef KBD_CHAIN_H_
#define KBD_CHAIN_H_

#include <cstdint>
#include <functional>
#include <utility>

namespace kbd {

enum class Noise : int { kNone = 0, kBernoulli = 1, kGaussian = 2 };

enum class Activation : int {
  kLinear = 0,
  kRelu,
  kSigmoid,
  kTanh,
  kSoftmax,
  kElu,
  kSelu,
  kGelu,
  kSilu,
  kSoftplus,
  kLeakyRelu,
};
constexpr int kNumActivations = 11;

// One step. The noise falls on the step's input.
template <class T>
struct Step {
  const T* kernel;  // [in, out], row-major
  const T* bias;    // [out], or null
  int64_t in;
  int64_t out;
  Activation activation;
  Noise noise;
  uint32_t threshold;  // Bernoulli: a unit is kept iff its word is at least this
  double scale;        // Bernoulli: 1 / (1 - rate). Gaussian: the standard deviation
  uint32_t site;
  // Whether the entries of a row have noise of their own: then the site has entries * in units,
  // those of entry e from e * in on. Otherwise it has `in` units, the same for all entries.
  bool per_entry;
  // Bernoulli: masks that are not made of words, [num_masks, in], not zero where a unit is kept; or
  // null. Sample t has mask t mod num_masks, the same for all entries; row r of independent masks
  // has (t + r) mod num_masks. The threshold is then only the share of zeros, at least 1.
  const uint8_t* table = nullptr;
  int64_t num_masks = 0;
};

template <class T>
struct Chain {
  const T* x;  // [rows, entries, steps[0].in], or [samples, rows, entries, steps[0].in]
  bool x_per_sample;
  int64_t rows;
  int64_t entries;  // vectors per row that go through the chain, 1 unless rows are sequences
  const Step<T>* steps;
  int num_steps;
  uint64_t seed;
  int64_t first_sample;
  int64_t num_samples;
  int64_t first_row;
  bool shared;    // one mask per sample, for all rows
  bool balanced;  // the samples of a block share out the strata of the words
  T* out;         // [samples, rows, entries, steps[last].out], row-major
};

// Shares work among threads. A call with (total, cost, task) calls task(begin, end) on pieces that
// cover [0, total), from any threads, and returns when all are done. `cost` is the work of one unit
// in floating-point operations.
class ParallelFor {
 public:
  using Task = std::function<void(int64_t begin, int64_t end)>;

  // `threads` is how many pieces may run at once: how finely to cut, and nothing else, depends on
  // it.
  template <class Share>
  ParallelFor(Share share, int64_t threads = 1) : share_(std::move(share)), threads_(threads) {}

  void operator()(int64_t total, int64_t cost, const Task& task) const {
    share_(total, cost, task);
  }
  int64_t threads() const { return threads_; }

 private:
  std::function<void(int64_t total, int64_t cost, const Task& task)> share_;
  int64_t threads_;
};

}  // namespace kbd

#endif  // KBD_CHAIN_H_
