// SPDX-License-Identifier: Apache-2.0
//
// The instructions of kernels/cuda/ptx.h on the emulator, against products written out. Where an
// element of a fragment belongs is taken from the PTX manual, not from the emulator.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <type_traits>
#include <vector>

#include "check.h"
#include "cuda/platform.h"
#include "cuda/ptx.h"

namespace {

using kbd::launch;

constexpr int kM = 16, kN = 8;

// PTX manual, "Matrix Fragments for mma.m16n8k8", .tf32; groupID = %laneid >> 2 and
// threadID_in_group = %laneid % 4:
//   A: row = groupID for a0 and a2, groupID + 8 for a1 and a3;
//      col = threadID_in_group for a0 and a1, threadID_in_group + 4 for a2 and a3
//   B: row = threadID_in_group for b0, threadID_in_group + 4 for b1; col = groupID
//   C: row = groupID for c0 and c1, groupID + 8 for c2 and c3;
//      col = (threadID_in_group * 2) + (i & 0x1)
__global__ void product_tf32(const float* a, const float* b, float* c, bool rounded) {
  const int group = int(threadIdx.x) >> 2, member = int(threadIdx.x) % 4;
  uint32_t fa[4], fb[2];
  float fc[4];
  for (int i = 0; i < 4; ++i) {
    const int row = (i == 0 || i == 2) ? group : group + 8;
    const int col = (i == 0 || i == 1) ? member : member + 4;
    const float value = a[row * 8 + col];
    fa[i] = rounded ? kbd::to_tf32(value) : __float_as_uint(value);
  }
  for (int i = 0; i < 2; ++i) {
    const int row = i == 0 ? member : member + 4;
    const float value = b[row * kN + group];
    fb[i] = rounded ? kbd::to_tf32(value) : __float_as_uint(value);
  }
  for (int i = 0; i < 4; ++i) {
    fc[i] = c[(i < 2 ? group : group + 8) * kN + member * 2 + (i & 1)];
  }
  kbd::mma_m16n8k8_tf32(fc, fa, fb);
  for (int i = 0; i < 4; ++i) {
    c[(i < 2 ? group : group + 8) * kN + member * 2 + (i & 1)] = fc[i];
  }
}

// PTX manual, "Matrix Fragments for mma.m16n8k16 with floating point type", .f16 and .bf16:
//   A: row = groupID for ai where 0 <= i < 2 || 4 <= i < 6, groupID + 8 otherwise;
//      col = (threadID_in_group * 2) + (i & 0x1) for ai where i < 4, that + 8 where i >= 4
//   B: row = (threadID_in_group * 2) + (i & 0x1) for bi where i < 2, that + 8 where i >= 2;
//      col = groupID
//   C: as above.
template <class T>
__global__ void product_16_bits(const T* a, const T* b, float* c) {
  const int group = int(threadIdx.x) >> 2, member = int(threadIdx.x) % 4;
  uint32_t fa[4] = {}, fb[2] = {};
  float fc[4];
  for (int i = 0; i < 8; ++i) {
    const int row = ((0 <= i && i < 2) || (4 <= i && i < 6)) ? group : group + 8;
    const int col = member * 2 + (i & 1) + (i < 4 ? 0 : 8);
    fa[i / 2] |= uint32_t(a[row * 16 + col].__x) << (i % 2 * 16);
  }
  for (int i = 0; i < 4; ++i) {
    const int row = member * 2 + (i & 1) + (i < 2 ? 0 : 8);
    fb[i / 2] |= uint32_t(b[row * kN + group].__x) << (i % 2 * 16);
  }
  for (int i = 0; i < 4; ++i) {
    fc[i] = c[(i < 2 ? group : group + 8) * kN + member * 2 + (i & 1)];
  }
  if constexpr (std::is_same_v<T, __half>) {
    kbd::mma_m16n8k16_f16(fc, fa, fb);
  } else {
    kbd::mma_m16n8k16_bf16(fc, fa, fb);
  }
  for (int i = 0; i < 4; ++i) {
    c[(i < 2 ? group : group + 8) * kN + member * 2 + (i & 1)] = fc[i];
  }
}

// The product and the sum of sizes, by which rounding is judged.
template <class A, class C>
bool close(const std::vector<A>& a, const std::vector<A>& b, const std::vector<float>& before,
           const std::vector<C>& c, int depth) {
  for (int row = 0; row < kM; ++row) {
    for (int col = 0; col < kN; ++col) {
      double sum = double(before[size_t(row * kN + col)]), size = std::fabs(sum);
      for (int k = 0; k < depth; ++k) {
        const double product =
            double(float(a[size_t(row * depth + k)])) * double(float(b[size_t(k * kN + col)]));
        sum += product;
        size += std::fabs(product);
      }
      if (std::fabs(double(c[size_t(row * kN + col)]) - sum) > 1.2e-7 * size) {
        return false;
      }
    }
  }
  return true;
}

template <class T>
std::vector<T> random_matrix(int elements, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<T> result;
  for (int i = 0; i < elements; ++i) {
    result.push_back(T(normal(generator)));
  }
  return result;
}

float tf32(float value) { return __uint_as_float(kbd::to_tf32(value)); }

float cut_to_tf32(float value) { return __uint_as_float(__float_as_uint(value) & 0xffffe000u); }

void products() {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const std::vector<float> start = random_matrix<float>(kM * kN, seed);
    if constexpr (kbd::kHasTf32Mma) {
      for (const bool rounded : {true, false}) {
        std::vector<float> a = random_matrix<float>(kM * 8, seed + 100), c = start;
        std::vector<float> b = random_matrix<float>(8 * kN, seed + 200);
        check(launch(product_tf32, 1, 32, 0, nullptr, a.data(), b.data(), c.data(), rounded) ==
                  cudaSuccess,
              "launch");
        for (std::vector<float>* matrix : {&a, &b}) {
          for (float& value : *matrix) {
            value = rounded ? tf32(value) : cut_to_tf32(value);
          }
        }
        check(close(a, b, start, c, 8), "m16n8k8 tf32");
      }
    }
    const auto ah = random_matrix<__half>(kM * 16, seed + 300);
    const auto bh = random_matrix<__half>(16 * kN, seed + 400);
    std::vector<float> c = start;
    check(launch(product_16_bits<__half>, 1, 32, 0, nullptr, ah.data(), bh.data(), c.data()) ==
              cudaSuccess,
          "launch");
    check(close(ah, bh, start, c, 16), "m16n8k16 f16");
    if constexpr (kbd::kHasBf16Mma) {
      const auto ab = random_matrix<__nv_bfloat16>(kM * 16, seed + 500);
      const auto bb = random_matrix<__nv_bfloat16>(16 * kN, seed + 600);
      c = start;
      check(launch(product_16_bits<__nv_bfloat16>, 1, 32, 0, nullptr, ab.data(), bb.data(),
                   c.data()) == cudaSuccess,
            "launch");
      check(close(ab, bb, start, c, 16), "m16n8k16 bf16");
    }
  }
  check(cuda_on_cpu::record().total() == 0, "nothing found in products");
}

void rounding_to_tf32() {
  // One unit in the last place of TF32 at 1 is 2^-10; a tie lies 2^-11 above.
  const float unit = std::ldexp(1.f, -10), tie = 1 + unit / 2;
  check(tf32(1.f) == 1.f && tf32(tie) == 1 + unit && tf32(-tie) == -1 - unit, "ties away from 0");
  check(tf32(1 + 3 * unit / 2) == 1 + 2 * unit, "the next tie");
  check(tf32(std::nextafter(tie, 0.f)) == 1.f && tf32(std::nextafter(tie, 2.f)) == 1 + unit,
        "beside a tie");
  check(tf32(3.14159274f) == 3.140625f && tf32(0.1f) == 0.0999755859375f, "pi and a tenth");
  check(tf32(2 - unit / 4) == 2.f, "carry to the exponent");
  check(tf32(0.f) == 0.f && std::signbit(tf32(-0.f)), "zeros");
  check(kbd::to_tf32(INFINITY) == 0x7f800000u && kbd::to_tf32(-INFINITY) == 0xff800000u &&
            kbd::to_tf32(NAN) == 0x7fffffffu,
        "what is not a number");
}

// PTX manual, ldmatrix: threads 0-7 give the rows of the first matrix, 8-15 of the second, and so
// on; thread t receives elements 2 (t % 4) and the next of row t / 4.
template <bool kTransposed>
__global__ void load_matrices(const uint16_t* in, uint32_t* out) {
  uint16_t* tile = kbd::dynamic_shared<uint16_t>();
  const unsigned lane = threadIdx.x;
  for (unsigned i = 0; i < 8; ++i) {
    tile[lane * 8 + i] = in[lane * 8 + i];
  }
  __syncwarp();
  uint32_t d[4];
  if (kTransposed) {
    kbd::ldmatrix_x4_trans(d, tile + lane * 8);
  } else {
    kbd::ldmatrix_x4(d, tile + lane * 8);
  }
  for (unsigned j = 0; j < 4; ++j) {
    out[lane * 4 + j] = d[j];
  }
}

void matrices() {
  std::vector<uint16_t> in(256);
  for (size_t i = 0; i < 256; ++i) {
    in[i] = uint16_t(i * 257 + 3);
  }
  std::vector<uint32_t> out(128), transposed(128);
  launch(load_matrices<false>, 1, 32, 512, nullptr, in.data(), out.data());
  launch(load_matrices<true>, 1, 32, 512, nullptr, in.data(), transposed.data());
  for (size_t lane = 0; lane < 32; ++lane) {
    for (size_t j = 0; j < 4; ++j) {
      const size_t row = lane / 4, col = lane % 4 * 2;
      const uint16_t* m = &in[j * 64];
      check(out[lane * 4 + j] == (m[row * 8 + col] | uint32_t(m[row * 8 + col + 1]) << 16),
            "ldmatrix");
      check(transposed[lane * 4 + j] == (m[col * 8 + row] | uint32_t(m[(col + 1) * 8 + row]) << 16),
            "ldmatrix.trans");
    }
  }
  check(cuda_on_cpu::record().total() == 0, "nothing found in ldmatrix");
}

// A tile of the kind that kernels have: C[128, 128] = A[128, K] B[K, 128] by 8 warps, 16 of K at a
// time in two buffers, rows padded against bank conflicts.
constexpr int kTile = 128, kStep = 16, kStrideA = kStep + 4, kStrideB = kTile + 8;
constexpr int kBuffer = kTile * kStrideA + kStep * kStrideB;

__global__ void tile_product(const float* a, const float* b, float* c, int depth) {
  float* shared = kbd::dynamic_shared<float>();
  const int t = int(threadIdx.x), lane = t % 32, warp = t / 32, group = lane / 4, member = lane % 4;
  const int row0 = warp / 2 * 32, col0 = warp % 2 * 64;
  float acc[2][8][4] = {};
  auto fetch = [&](int step) {
    float* ta = shared + step % 2 * kBuffer;
    float* tb = ta + kTile * kStrideA;
    for (int i = t; i < kTile * kStep / 4; i += 256) {
      const int row = i / (kStep / 4), col = i % (kStep / 4) * 4;
      kbd::cp_async_16(ta + row * kStrideA + col, a + row * depth + step * kStep + col, true);
    }
    for (int i = t; i < kTile * kStep / 4; i += 256) {
      const int row = i / (kTile / 4), col = i % (kTile / 4) * 4;
      kbd::cp_async_16(tb + row * kStrideB + col, b + (step * kStep + row) * kTile + col, true);
    }
    kbd::cp_async_commit();
  };
  const int steps = depth / kStep;
  fetch(0);
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      fetch(step + 1);
      kbd::cp_async_wait<1>();
    } else {
      kbd::cp_async_wait<0>();
    }
    __syncthreads();
    const float* ta = shared + step % 2 * kBuffer;
    const float* tb = ta + kTile * kStrideA;
    for (int k = 0; k < kStep; k += 8) {
      uint32_t fa[2][4], fb[8][2];
      for (int m = 0; m < 2; ++m) {
        for (int i = 0; i < 4; ++i) {
          const int row = row0 + m * 16 + group + i % 2 * 8, col = k + member + i / 2 * 4;
          fa[m][i] = kbd::to_tf32(ta[row * kStrideA + col]);
        }
      }
      for (int n = 0; n < 8; ++n) {
        for (int i = 0; i < 2; ++i) {
          fb[n][i] = kbd::to_tf32(tb[(k + member + i * 4) * kStrideB + col0 + n * 8 + group]);
        }
      }
      for (int m = 0; m < 2; ++m) {
        for (int n = 0; n < 8; ++n) {
          kbd::mma_m16n8k8_tf32(acc[m][n], fa[m], fb[n]);
        }
      }
    }
    __syncthreads();
  }
  for (int m = 0; m < 2; ++m) {
    for (int n = 0; n < 8; ++n) {
      for (int i = 0; i < 4; ++i) {
        const int row = row0 + m * 16 + group + i / 2 * 8, col = col0 + n * 8 + member * 2 + i % 2;
        c[row * kTile + col] = acc[m][n][i];
      }
    }
  }
}

void tile() {
  constexpr int kDepth = 64;
  // Small integers: every sum is exact.
  std::vector<float> a(kTile * kDepth), b(kDepth * kTile), c(kTile * kTile);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = float(int(i * 7 % 13) - 6);
    b[i] = float(int(i * 5 % 11) - 5);
  }
  const auto begin = std::chrono::steady_clock::now();
  check(launch(tile_product, 1, 256, 2 * kBuffer * sizeof(float), nullptr, a.data(), b.data(),
               c.data(), kDepth) == cudaSuccess,
        "launch");
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  bool equal = true;
  for (int row = 0; row < kTile; ++row) {
    for (int col = 0; col < kTile; ++col) {
      float sum = 0;
      for (int k = 0; k < kDepth; ++k) {
        sum += a[size_t(row * kDepth + k)] * b[size_t(k * kTile + col)];
      }
      equal = equal && sum == c[size_t(row * kTile + col)];
    }
  }
  check(equal, "tile product");
  check(cuda_on_cpu::record().total() == 0, "nothing found in the tile product");
  std::printf("a tile of 128 x 128 x 64: %.1f ms\n", 1e3 * seconds);
}

}  // namespace

int main() {
  rounding_to_tf32();
  products();
  matrices();
  if constexpr (kbd::kHasTf32Mma) {
    tile();
  }
  return report();
}
