// SPDX-License-Identifier: Apache-2.0
//
// Balanced words: the 16 samples of a block share out 16 strata of the 32-bit range, in an order of
// its own for each (seed, site, row, unit). keras_bayesdrop/random/balanced.py states the contract.
#ifndef KBD_BALANCED_H_
#define KBD_BALANCED_H_

#include <cstdint>

#include "kbd/philox.h"

namespace kbd {

// Orders have the counters of the sites from here on.
constexpr uint32_t kOrderSites = 0x80000000u;
constexpr int kHalvesPerCounter = 8;
constexpr int kStratumShift = 28;
constexpr uint32_t kBelowStratum = (1u << kStratumShift) - 1;

// The product in GF(16), modulo x^4 + x + 1.
KBD_HOST_DEVICE constexpr uint32_t field_product(uint32_t a, uint32_t b) {
  const uint32_t product = (a & (0u - (b & 1))) ^ ((a << 1) & (0u - ((b >> 1) & 1))) ^
                           ((a << 2) & (0u - ((b >> 2) & 1))) ^ ((a << 3) & (0u - ((b >> 3) & 1)));
  const uint32_t high = product >> 4;  // times x^4, which is x + 1
  return (product & 15) ^ high ^ (high << 1);
}

// The stratum of sample `sample` of a block in the order that 16 bits stand for.
KBD_HOST_DEVICE uint32_t stratum_of(uint32_t half, uint32_t sample) {
  const uint32_t factor = 1 + ((half >> 4) * 15 >> 12);
  return field_product(factor, sample) ^ (half & 15);
}

KBD_HOST_DEVICE uint32_t with_stratum(uint32_t word, uint32_t stratum) {
  return stratum << kStratumShift | (word & kBelowStratum);
}

// Where the orders of one (site, block of samples, row) begin: unit u has half u % 8 of counter
// (low + u / 8, high), the low half of a word before its high half.
KBD_HOST_DEVICE Stream orders_of(uint64_t seed, uint32_t site, uint64_t sample, uint64_t row,
                                 int64_t units) {
  const uint64_t groups = uint64_t(units + kHalvesPerCounter - 1) / kHalvesPerCounter;
  return {seed, row * groups, (uint64_t(site + kOrderSites) << 32) + sample / kSamplesPerBlock};
}

KBD_HOST_DEVICE uint32_t half_of(const Words& words, int64_t unit) {
  const uint32_t number = uint32_t(unit) % kHalvesPerCounter;
  return (words.word[number / 2] >> (number % 2 * 16)) & 0xFFFFu;
}

// The word of one unit, by the contract alone.
KBD_HOST_DEVICE uint32_t word_of(uint64_t seed, uint32_t site, uint64_t sample, uint64_t row,
                                 int64_t units, int64_t unit, bool balanced) {
  const Stream stream = stream_of(seed, site, sample, row, units);
  const uint64_t group = uint64_t(unit) / kWordsPerCounter;
  const uint32_t word =
      philox(seed, stream.low + group, stream.high).word[uint64_t(unit) % kWordsPerCounter];
  if (!balanced) {
    return word;
  }
  const Stream orders = orders_of(seed, site, sample, row, units);
  const Words halves = philox(seed, orders.low + uint64_t(unit) / kHalvesPerCounter, orders.high);
  return with_stratum(word, stratum_of(half_of(halves, unit), uint32_t(sample % kSamplesPerBlock)));
}

}  // namespace kbd

#endif  // KBD_BALANCED_H_
