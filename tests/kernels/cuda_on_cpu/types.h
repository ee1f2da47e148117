// SPDX-License-Identifier: Apache-2.0
//
// CUDA's vector types, and its two 16-bit floating point types.
#ifndef KBD_CUDA_ON_CPU_TYPES_H_
#define KBD_CUDA_ON_CPU_TYPES_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#define KBD_VECTOR_TYPES(base, type, align2, align4)                          \
  struct base##1 { type x; };                                                 \
  struct alignas(align2) base##2 { type x, y; };                              \
  struct base##3 { type x, y, z; };                                           \
  struct alignas(align4) base##4 { type x, y, z, w; };                        \
  inline base##1 make_##base##1(type x) { return {x}; }                       \
  inline base##2 make_##base##2(type x, type y) { return {x, y}; }            \
  inline base##3 make_##base##3(type x, type y, type z) { return {x, y, z}; } \
  inline base##4 make_##base##4(type x, type y, type z, type w) { return {x, y, z, w}; }

KBD_VECTOR_TYPES(char, signed char, 2, 4)
KBD_VECTOR_TYPES(uchar, unsigned char, 2, 4)
KBD_VECTOR_TYPES(short, short, 4, 8)
KBD_VECTOR_TYPES(ushort, unsigned short, 4, 8)
KBD_VECTOR_TYPES(int, int, 8, 16)
KBD_VECTOR_TYPES(uint, unsigned int, 8, 16)
KBD_VECTOR_TYPES(longlong, long long, 16, 16)
KBD_VECTOR_TYPES(ulonglong, unsigned long long, 16, 16)
KBD_VECTOR_TYPES(float, float, 8, 16)
KBD_VECTOR_TYPES(double, double, 16, 16)
#undef KBD_VECTOR_TYPES

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

namespace cuda_on_cpu {

template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// Round to nearest, ties to even; what is not a number becomes the one that CUDA makes.
inline uint16_t half_bits(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) {
    return 0x7fff;
  }
  if (size >= 0x477ff000) {  // 65520 and more
    return uint16_t(sign | 0x7c00);
  }
  if (size < 0x38800000) {  // subnormal: the unit of [0.5, 1) is 2^-24, that of a subnormal half
    const float sum = bits_as<float>(size) + 0.5f;
    return uint16_t(sign | (bits_as<uint32_t>(sum) - 0x3f000000));
  }
  return uint16_t(sign | ((size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13));
}

inline float half_value(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, size = bits & 0x7fff;
  if (size >= 0x7c00) {
    return bits_as<float>(sign | 0x7f800000 | (size & 0x3ff) << 13);
  }
  const float value = size < 0x400 ? float(size) * bits_as<float>(0x33800000u)  // 2^-24
                                   : bits_as<float>((size << 13) + (112u << 23));
  return sign ? -value : value;
}

inline uint16_t bfloat16_bits(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return 0x7fff;
  }
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float bfloat16_value(uint16_t bits) { return bits_as<float>(uint32_t(bits) << 16); }

}  // namespace cuda_on_cpu

struct alignas(2) __half {
  uint16_t __x;
  __half() = default;
  __half(float value) : __x(cuda_on_cpu::half_bits(value)) {}
  operator float() const { return cuda_on_cpu::half_value(__x); }
};

struct alignas(2) __nv_bfloat16 {
  uint16_t __x;
  __nv_bfloat16() = default;
  __nv_bfloat16(float value) : __x(cuda_on_cpu::bfloat16_bits(value)) {}
  operator float() const { return cuda_on_cpu::bfloat16_value(__x); }
};

struct alignas(4) __half2 {
  __half x, y;
};

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline __half __float2half(float v) { return __half(v); }
inline __half __float2half_rn(float v) { return __half(v); }
inline float __half2float(__half v) { return float(v); }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline unsigned short __half_as_ushort(__half v) { return v.__x; }
inline __half __ushort_as_half(unsigned short v) { return cuda_on_cpu::bits_as<__half>(v); }

inline __nv_bfloat16 __float2bfloat16(float v) { return __nv_bfloat16(v); }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
inline float __bfloat162float(__nv_bfloat16 v) { return float(v); }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.__x; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) {
  return cuda_on_cpu::bits_as<__nv_bfloat16>(v);
}

#endif  // KBD_CUDA_ON_CPU_TYPES_H_
