// SPDX-License-Identifier: Apache-2.0
//
// What kernels are told. Plain structs, passed by value.
//
// A launch serves a block of samples. Its vectors are numbered sample * vectors + vector, with
// vector = row * entries + entry. Where samples differ in size (cut networks), z is the sample and
// a grid's rows are the vectors of one; elsewhere there is one z, and rows are the vectors of all.
#ifndef KBD_CUDA_PARAMS_H_
#define KBD_CUDA_PARAMS_H_

#include <cstdint>

#include "kbd/chain.h"

namespace kbd {

// The kept units of a site, in order, for every sample of the block.
struct KeptLists {
  int32_t* index;  // [samples, stride]; null: all are kept
  int32_t* count;  // [samples]
  int64_t stride;
};

// Noise on the input of a step.
struct NoiseParams {
  Noise noise;
  uint32_t threshold;
  float deviation;
  uint64_t seed;
  uint32_t site;
  int64_t units;  // of a stream: in, or entries * in
  int64_t in;
  int64_t entries;
  uint64_t first_sample;  // number of the block's first sample
  uint64_t first_row;
  bool shared;
  bool balanced;
  bool per_entry;
};

// One step: d = activation(scale * (noise * a) w + bias).
template <class T>
struct GemmParams {
  const T* a;  // vectors at sample * a_sample_stride + vector * a_vector_stride
  int64_t a_sample_stride;
  int64_t a_vector_stride;
  bool a_gathered;  // a has all units, of which `rows` are wanted; otherwise just those
  bool a_vector;    // 16-byte loads are aligned, and what is beyond the depth is zero
  const T* w;       // [in, out]
  bool w_vector;    // 16-byte loads are aligned
  const T* bias;    // [out], or null
  T* d;             // [samples, vectors, d_stride]
  float* logits;    // if not null, in place of d: the same shape
  int64_t d_stride;
  bool d_padded;  // zeros are written up to a multiple of 16 bytes
  bool d_vector;  // stores of four numbers are aligned
  int32_t in;
  int32_t out;
  KeptLists rows;     // of w
  KeptLists columns;  // of w
  int64_t vectors;    // of a sample
  int64_t grid_rows;  // vectors of a z
  int32_t first_column;
  float scale;
  Activation activation;
  NoiseParams noise;  // made in registers; kNone: none, or `rows` has it
};

constexpr int kMostSites = 16;

// The sites whose units are listed in one launch: x is the sample, y the site.
struct CompactParams {
  struct Site {
    uint32_t site;
    uint32_t threshold;
    int32_t units;
    KeptLists kept;
  } sites[kMostSites];
  uint64_t seed;
  uint64_t first_sample;
  bool balanced;
};

template <class T>
struct SoftmaxParams {
  const float* from;  // [rows, stride]
  T* to;              // [rows, stride], perhaps the same
  int64_t rows;
  int64_t stride;
  int32_t columns;
  int32_t padded;  // zeros are written up to here
};

}  // namespace kbd

#endif  // KBD_CUDA_PARAMS_H_
