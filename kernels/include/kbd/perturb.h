// SPDX-License-Identifier: Apache-2.0
//
// Noise on a tensor, for a block of samples of a block of rows:
//
//   y[row, sample, ...] = noise(x[row, ...] or x[row, sample, ...], words of (row, sample))
//
// Plain structs: what crosses the border between TensorFlow and the arithmetic.
#ifndef KBD_PERTURB_H_
#define KBD_PERTURB_H_

#include <cstdint>

namespace kbd {

// What a word does to a number. Every product and sum is rounded to the type of the tensor.
enum class Effect : int {
  kMask = 0,       // x * (a if word >= threshold, else 0)
  kGaussian,       // x * (1 + a * z), z the normal draw of the word
  kAddedGaussian,  // x + a * z
  kAlpha,          // a * (x where word >= threshold, else c) + b
  kUniform,        // x * (b + a * u), u = (word + 0.5) * 2^-32
  kLogNormal,      // x * exp(b + a * z)
};
constexpr int kNumEffects = 6;
constexpr int kMostDims = 8;

template <class T>
struct Perturbation {
  const T* x;  // [rows, dims...], or [rows, samples, dims...]
  bool x_per_sample;
  int64_t rows;
  int num_dims;  // at most kMostDims
  int64_t dims[kMostDims];
  bool varies[kMostDims];  // whether noise differs along an axis; else it has one unit there
  Effect effect;
  uint32_t threshold;
  double a;
  double b;
  double c;
  uint64_t seed;
  uint32_t site;
  int64_t first_sample;
  int64_t num_samples;
  int64_t first_row;
  bool shared;    // one draw per sample, for all rows
  bool balanced;  // the samples of a block share out the strata of the words
  T* out;         // [rows, samples, dims...]
};

}  // namespace kbd

#endif  // KBD_PERTURB_H_
