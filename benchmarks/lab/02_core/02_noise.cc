// SPDX-License-Identifier: Apache-2.0
//
// What noise on a tensor costs, per number and core.
//
//   cmake -S . -B build/lab -DKBD_LAB=ON && cmake --build build/lab --target lab_noise
//   KBD_ISA=avx2 build/lab/kernels/lab_noise
//
// Compares some numbers with the words of the contract, then times one thread; the best of several
// rounds counts. "copy" is the ceiling: the same samples without noise. Nanoseconds a number,
// 8 rows and 16 samples of 8,192 numbers, AMD EPYC at a load of ten, best of 50 rounds:
//
//                                     AVX-512   AVX2   portable
//   each number its own word            0.29    0.64     1.72
//   the same, balanced                  0.46    1.01     3.23
//   one word for all rows               0.09    0.13     0.28
//   64 channels, 128 places             0.13    0.18     0.28
//   normal factors                      2.08    3.64    21.2
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "cpu/chain.h"
#include "cpu/perturb.h"
#include "kbd/balanced.h"

namespace {

using kbd::Effect;
using kbd::Perturbation;

constexpr int64_t kRows = 8, kSamples = 16;
constexpr int kRounds = 50;

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

struct Case {
  const char* name;
  int64_t places, units;
  bool shared, balanced;
  Effect effect;
};

// The best time of several rounds, per number.
double time_of(int64_t numbers, const std::function<void()>& run) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double start = now();
    run();
    best = std::min(best, now() - start);
  }
  return best / double(numbers) * 1e9;
}

bool is_right(const Perturbation<float>& p, const Case& each) {
  const int64_t size = each.places * each.units;
  for (int64_t at = 0; at < kRows * kSamples * size; at += 997) {
    const int64_t unit = at % each.units, sample = at / size % kSamples, row = at / size / kSamples;
    const uint32_t word =
        kbd::word_of(p.seed, p.site, uint64_t(sample), each.shared ? 0 : uint64_t(row), each.units,
                     unit, each.balanced);
    const float expected = p.x[row * size + at % size] * (word >= p.threshold ? float(p.a) : 0.f);
    if (each.effect == Effect::kMask && p.out[at] != expected) {
      return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  const Case cases[] = {
      {"each number its own word", 1, 8192, false, false, Effect::kMask},
      {"the same, balanced", 1, 8192, false, true, Effect::kMask},
      {"one word for all rows", 1, 8192, true, false, Effect::kMask},
      {"64 channels, 128 places", 128, 64, false, false, Effect::kMask},
      {"normal factors", 1, 8192, false, false, Effect::kGaussian},
  };
  const kbd::ParallelFor alone = [](int64_t total, int64_t, const kbd::ParallelFor::Task& task) {
    task(0, total);
  };
  std::printf("%s, nanoseconds a number\n", kbd::isa_name());
  for (const Case& each : cases) {
    const int64_t size = each.places * each.units, numbers = kRows * kSamples * size;
    std::vector<float> x(size_t(kRows * size), 1.5f), y((size_t(numbers)));
    Perturbation<float> p{};
    p.x = x.data();
    p.out = y.data();
    p.rows = kRows;
    p.num_samples = kSamples;
    p.num_dims = 2;
    p.dims[0] = each.places;
    p.dims[1] = each.units;
    p.varies[1] = true;
    p.effect = each.effect;
    p.threshold = 1u << 30;
    p.a = 4.0 / 3;
    p.seed = 3;
    p.shared = each.shared;
    p.balanced = each.balanced;
    kbd::run_perturbation(p, alone);
    if (!is_right(p, each)) {
      std::printf("%s: wrong\n", each.name);
      return 1;
    }
    const double copy = time_of(numbers, [&] {
      for (int64_t t = 0; t < kRows * kSamples; ++t) {
        std::memcpy(y.data() + t * size, x.data() + t / kSamples * size,
                    size_t(size) * sizeof(float));
      }
    });
    const double noise = time_of(numbers, [&] { kbd::run_perturbation(p, alone); });
    std::printf("  %-26s %.3f (copy %.3f)\n", each.name, noise, copy);
  }
  return 0;
}
