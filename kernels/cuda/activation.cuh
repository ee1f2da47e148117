// SPDX-License-Identifier: Apache-2.0
//
// The activations of kbd/activation.h in float32, for devices; softmax has a kernel of its own.
#ifndef KBD_CUDA_ACTIVATION_CUH_
#define KBD_CUDA_ACTIVATION_CUH_

#include "cuda/platform.h"
#include "kbd/chain.h"

namespace kbd {

__device__ __forceinline__ float device_sigmoid(float x) {
  // Never the exponential of a large positive number.
  const float e = expf(-fabsf(x));
  return (x < 0.f ? e : 1.f) / (1.f + e);
}

// Four at a time: the branch is taken once, and four chains of instructions hide their latency.
__device__ __forceinline__ void activate(Activation activation, float (&x)[4]) {
  constexpr float kSeluAlpha = 1.6732632423543772848170429916717f;
  constexpr float kSeluScale = 1.0507009873554804934193349852946f;
  constexpr float kLeakySlope = 0.2f;
  constexpr float kInverseSqrt2 = 0.70710678118654752440f;
#define KBD_EACH(expression)                                 \
  _Pragma("unroll") for (float& v : x) { v = (expression); } \
  break
  switch (activation) {
    case Activation::kRelu:
      KBD_EACH(v < 0.f ? 0.f : v);
    case Activation::kSigmoid:
      KBD_EACH(device_sigmoid(v));
    case Activation::kTanh:
      KBD_EACH(tanhf(v));
    case Activation::kElu:
      KBD_EACH(v > 0.f ? v : expm1f(v));
    case Activation::kSelu:
      KBD_EACH(kSeluScale * (v > 0.f ? v : kSeluAlpha * expm1f(v)));
    case Activation::kGelu:
      KBD_EACH(0.5f * v * erfcf(-v * kInverseSqrt2));
    case Activation::kSilu:
      KBD_EACH(v * device_sigmoid(v));
    case Activation::kSoftplus:
      KBD_EACH((v > 0.f ? v : 0.f) + log1pf(expf(-fabsf(v))));
    case Activation::kLeakyRelu:
      KBD_EACH(v < 0.f ? kLeakySlope * v : v);
    case Activation::kLinear:
    case Activation::kSoftmax:
      break;
  }
#undef KBD_EACH
}

}  // namespace kbd

#endif  // KBD_CUDA_ACTIVATION_CUH_
