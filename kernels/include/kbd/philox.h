// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-10 (Salmon et al., 2011): a counter and a key in, four words out.
// The same source serves the CPU and CUDA; keras_bayesdrop/random/philox.py states which
// counter belongs to which unit.
#ifndef KBD_PHILOX_H_
#define KBD_PHILOX_H_

#include <cstdint>

#if defined(__CUDACC__)
#define KBD_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define KBD_HOST_DEVICE inline
#endif

namespace kbd {

constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
constexpr uint32_t kPhiloxKeyStep0 = 0x9E3779B9u;
constexpr uint32_t kPhiloxKeyStep1 = 0xBB67AE85u;
constexpr int kPhiloxRounds = 10;
constexpr int kWordsPerCounter = 4;
constexpr int kSamplesPerBlock = 16;

struct Words {
  uint32_t word[kWordsPerCounter];
};

KBD_HOST_DEVICE Words philox(uint64_t key, uint64_t low, uint64_t high) {
  uint32_t c0 = uint32_t(low), c1 = uint32_t(low >> 32);
  uint32_t c2 = uint32_t(high), c3 = uint32_t(high >> 32);
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t(kPhiloxMultiplier0) * c0;
    const uint64_t p1 = uint64_t(kPhiloxMultiplier1) * c2;
    c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(p1);
    c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p0);
    k0 += kPhiloxKeyStep0;
    k1 += kPhiloxKeyStep1;
  }
  return {{c0, c1, c2, c3}};
}

// Where the words of one (site, sample, row) begin, and how they go on: unit u
// has word u % 4 of counter (low + u / 4, high).
struct Stream {
  uint64_t key;
  uint64_t low;
  uint64_t high;
};

KBD_HOST_DEVICE Stream stream_of(uint64_t seed, uint32_t site, uint64_t sample, uint64_t row,
                                 int64_t units) {
  const uint64_t groups = uint64_t(units + kWordsPerCounter - 1) / kWordsPerCounter;
  return {seed, (row * kSamplesPerBlock + sample % kSamplesPerBlock) * groups,
          (uint64_t(site) << 32) + sample / kSamplesPerBlock};
}

}  // namespace kbd

#endif  // KBD_PHILOX_H_
