// SPDX-License-Identifier: Apache-2.0
//
// Numbers in memory, float in registers.
#ifndef KBD_CUDA_NUMBER_CUH_
#define KBD_CUDA_NUMBER_CUH_

#include <cstdint>

#include "cuda/chain.h"
#include "cuda/platform.h"

namespace kbd {

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(Half value) {
  return __half2float(__ushort_as_half(value.bits));
}
__device__ __forceinline__ float to_float(Bfloat16 value) {
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
}

template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ Half from_float<Half>(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}
template <>
__device__ __forceinline__ Bfloat16 from_float<Bfloat16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}

// Sixteen bytes of numbers.
template <class T>
struct Chunk {
  static constexpr int kSize = 16 / int(sizeof(T));
  uint4 bits;

  __device__ __forceinline__ void clear() { bits = make_uint4(0, 0, 0, 0); }
  __device__ __forceinline__ uint32_t word(int i) const {
    return i == 0 ? bits.x : i == 1 ? bits.y : i == 2 ? bits.z : bits.w;
  }
  __device__ __forceinline__ void set_word(int i, uint32_t value) {
    (i == 0 ? bits.x : i == 1 ? bits.y : i == 2 ? bits.z : bits.w) = value;
  }
  __device__ __forceinline__ float get(int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(word(i));
    } else {
      return to_float(T{uint16_t(word(i / 2) >> (i % 2 * 16))});
    }
  }
  __device__ __forceinline__ void set(int i, T value) {
    if constexpr (sizeof(T) == 4) {
      set_word(i, __float_as_uint(value));
    } else {
      const uint32_t kept = word(i / 2) & (i % 2 ? 0x0000ffffu : 0xffff0000u);
      set_word(i / 2, kept | uint32_t(value.bits) << (i % 2 * 16));
    }
  }
  // Makes a number zero unless it is to be kept.
  __device__ __forceinline__ void select(int i, bool keep) {
    if constexpr (sizeof(T) == 4) {
      set_word(i, keep ? word(i) : 0u);
    } else {
      set_word(i / 2, keep ? word(i / 2) : word(i / 2) & (i % 2 ? 0x0000ffffu : 0xffff0000u));
    }
  }
};

// Two 16-bit numbers in a register, the first in the low half.
template <class T>
__device__ __forceinline__ uint32_t pack_two(T low, T high) {
  return uint32_t(low.bits) | uint32_t(high.bits) << 16;
}

// Stores four numbers; the address is aligned to them.
__device__ __forceinline__ void store_four(float* to, const float (&v)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
template <class T>
__device__ __forceinline__ void store_four(T* to, const float (&v)[4]) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack_two(from_float<T>(v[0]), from_float<T>(v[1])),
                                             pack_two(from_float<T>(v[2]), from_float<T>(v[3])));
}

}  // namespace kbd

#endif  // KBD_CUDA_NUMBER_CUH_
