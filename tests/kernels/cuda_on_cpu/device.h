// SPDX-License-Identifier: Apache-2.0
//
// CUDA's keywords, built-in variables and device functions.
#ifndef KBD_CUDA_ON_CPU_DEVICE_H_
#define KBD_CUDA_ON_CPU_DEVICE_H_

#include <math.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "types.h"
#include "warp.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
// One process has one set of thread-local variables here, next to each other: the shared memory of
// the one block that runs. Unlike a section of its own, GCC grants that to templates as well.
#define __shared__ thread_local

// Those of the thread that runs.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
constexpr int warpSize = 32;

#define KBD_SITE cuda_on_cpu::Site site = {__builtin_FILE(), __builtin_LINE()}

inline void __syncthreads(KBD_SITE) { cuda_on_cpu::block_barrier(false, site); }
inline int __syncthreads_count(int predicate, KBD_SITE) {
  return cuda_on_cpu::block_barrier(predicate != 0, site).ones;
}
inline int __syncthreads_or(int predicate, KBD_SITE) {
  return cuda_on_cpu::block_barrier(predicate != 0, site).ones > 0;
}
inline int __syncthreads_and(int predicate, KBD_SITE) {
  const cuda_on_cpu::Votes votes = cuda_on_cpu::block_barrier(predicate != 0, site);
  return votes.ones == votes.total;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, KBD_SITE) {
  cuda_on_cpu::warp_barrier(mask, site);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __trap() { cuda_on_cpu::trap(); }

namespace cuda_on_cpu {

template <class T>
T shuffle_value(Shuffle way, unsigned mask, T value, int operand, int width, Site site) {
  static_assert(sizeof(T) <= 8, "a register or two");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(way, mask, bits, operand, width, site);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cuda_on_cpu

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, KBD_SITE) {
  return cuda_on_cpu::shuffle_value(cuda_on_cpu::Shuffle::kIndex, mask, value, lane, width, site);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, KBD_SITE) {
  return cuda_on_cpu::shuffle_value(cuda_on_cpu::Shuffle::kUp, mask, value, int(delta), width,
                                    site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, KBD_SITE) {
  return cuda_on_cpu::shuffle_value(cuda_on_cpu::Shuffle::kDown, mask, value, int(delta), width,
                                    site);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, KBD_SITE) {
  return cuda_on_cpu::shuffle_value(cuda_on_cpu::Shuffle::kXor, mask, value, lane_mask, width,
                                    site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, KBD_SITE) {
  return cuda_on_cpu::ballot(mask, predicate != 0, site);
}
inline int __any_sync(unsigned mask, int predicate, KBD_SITE) {
  return cuda_on_cpu::ballot(mask, predicate != 0, site) != 0;
}
inline int __all_sync(unsigned mask, int predicate, KBD_SITE) {
  return cuda_on_cpu::ballot(mask, predicate == 0, site) == 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, KBD_SITE) {
  static_assert(sizeof(T) <= 8, "a register or two");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return cuda_on_cpu::match_any(mask, bits, site);
}

#define KBD_REDUCE(name, type, way)                                                          \
  inline type name(unsigned mask, type value, KBD_SITE) {                                    \
    return type(cuda_on_cpu::reduce(cuda_on_cpu::Reduce::way, mask, unsigned(value), site)); \
  }
KBD_REDUCE(__reduce_add_sync, unsigned, kAdd)
KBD_REDUCE(__reduce_add_sync, int, kAdd)
KBD_REDUCE(__reduce_min_sync, unsigned, kMin)
KBD_REDUCE(__reduce_min_sync, int, kMinSigned)
KBD_REDUCE(__reduce_max_sync, unsigned, kMax)
KBD_REDUCE(__reduce_max_sync, int, kMaxSigned)
KBD_REDUCE(__reduce_and_sync, unsigned, kAnd)
KBD_REDUCE(__reduce_or_sync, unsigned, kOr)
KBD_REDUCE(__reduce_xor_sync, unsigned, kXor)
#undef KBD_REDUCE
#undef KBD_SITE

// The old value is returned. One block, one thread runs at a time: plain arithmetic will do.
#define KBD_ATOMICS(type)                    \
  type atomicAdd(type* address, type value); \
  type atomicExch(type* address, type value);
#define KBD_ATOMICS_OF_INTEGERS(type)        \
  KBD_ATOMICS(type)                          \
  type atomicSub(type* address, type value); \
  type atomicMin(type* address, type value); \
  type atomicMax(type* address, type value); \
  type atomicAnd(type* address, type value); \
  type atomicOr(type* address, type value);  \
  type atomicXor(type* address, type value); \
  type atomicCAS(type* address, type expected, type value);
KBD_ATOMICS(float)
KBD_ATOMICS(double)
KBD_ATOMICS_OF_INTEGERS(int)
KBD_ATOMICS_OF_INTEGERS(unsigned)
KBD_ATOMICS_OF_INTEGERS(unsigned long long)
#undef KBD_ATOMICS_OF_INTEGERS
#undef KBD_ATOMICS

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}
template <class T>
void __stcg(T* address, T value) {
  *address = value;
}

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(unsigned(v)); }
inline int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll((unsigned long long)v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return (unsigned long long)(Wide(a) * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((uint64_t(high) << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) {
    r |= (v >> i & 1u) << (31 - i);
  }
  return r;
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    r |= unsigned((uint64_t(b) << 32 | a) >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return r;
}

inline unsigned __float_as_uint(float v) { return cuda_on_cpu::bits_as<unsigned>(v); }
inline int __float_as_int(float v) { return cuda_on_cpu::bits_as<int>(v); }
inline float __uint_as_float(unsigned v) { return cuda_on_cpu::bits_as<float>(v); }
inline float __int_as_float(int v) { return cuda_on_cpu::bits_as<float>(v); }
inline long long __double_as_longlong(double v) { return cuda_on_cpu::bits_as<long long>(v); }
inline double __longlong_as_double(long long v) { return cuda_on_cpu::bits_as<double>(v); }

inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }
inline float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
inline float __uint2float_rn(unsigned v) { return float(v); }
inline float __int2float_rn(int v) { return float(v); }
inline int __float2int_rn(float v) { return int(std::nearbyint(v)); }
inline int __float2int_rz(float v) { return int(v); }
inline unsigned __float2uint_rn(float v) { return unsigned(std::nearbyint(v)); }
inline unsigned __float2uint_rz(float v) { return unsigned(v); }
// The C library declares these names for itself, so functions would clash. CUDA's are less exact.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)

#define KBD_MIN_MAX(type)                                   \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
KBD_MIN_MAX(int)
KBD_MIN_MAX(unsigned)
KBD_MIN_MAX(long)
KBD_MIN_MAX(unsigned long)
KBD_MIN_MAX(long long)
KBD_MIN_MAX(unsigned long long)
#undef KBD_MIN_MAX
inline float min(float a, float b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

#endif  // KBD_CUDA_ON_CPU_DEVICE_H_
