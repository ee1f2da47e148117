// SPDX-License-Identifier: Apache-2.0
//
// Warp-wide instructions, asynchronous copies and atomics.
#include "warp.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "block.h"
#include "shadow.h"
#include "types.h"

namespace cuda_on_cpu {
namespace {

constexpr uint32_t kAllLanes = 0xffffffffu;

template <class Function>
void for_each(uint32_t lanes, Function&& function) {
  for (; lanes != 0; lanes &= lanes - 1) {
    function(__builtin_ctz(lanes));
  }
}

struct ShuffleSlot {
  uint64_t value;
  uint64_t result;
  int source;
};

struct VoteSlot {
  uint64_t value;
  uint32_t result;
};

void combine_shuffle(void* const* slots, uint32_t lanes) {
  for_each(lanes, [&](int lane) {
    ShuffleSlot& slot = *static_cast<ShuffleSlot*>(slots[lane]);
    const bool there = lanes >> slot.source & 1;
    if (!there) {
      const Thread& thread = current_block->threads[current_thread->warp * kLanes + lane];
      found(Kind::kDivergence, thread, {},
            "a shuffle at " + to_string(thread.site) + " reads lane " +
                std::to_string(slot.source) + ", which does not take part");
    }
    const int source = there ? slot.source : lane;
    slot.result = static_cast<ShuffleSlot*>(slots[source])->value;
  });
}

void combine_ballot(void* const* slots, uint32_t lanes) {
  uint32_t votes = 0;
  for_each(lanes, [&](int lane) {
    votes |= uint32_t(static_cast<VoteSlot*>(slots[lane])->value != 0) << lane;
  });
  for_each(lanes, [&](int lane) { static_cast<VoteSlot*>(slots[lane])->result = votes; });
}

void combine_match(void* const* slots, uint32_t lanes) {
  for_each(lanes, [&](int lane) {
    VoteSlot& slot = *static_cast<VoteSlot*>(slots[lane]);
    slot.result = 0;
    for_each(lanes, [&](int other) {
      slot.result |= uint32_t(static_cast<VoteSlot*>(slots[other])->value == slot.value) << other;
    });
  });
}

uint32_t combined(Reduce way, uint32_t a, uint32_t b) {
  switch (way) {
    case Reduce::kAdd:
      return a + b;
    case Reduce::kMin:
      return std::min(a, b);
    case Reduce::kMax:
      return std::max(a, b);
    case Reduce::kMinSigned:
      return uint32_t(std::min(int32_t(a), int32_t(b)));
    case Reduce::kMaxSigned:
      return uint32_t(std::max(int32_t(a), int32_t(b)));
    case Reduce::kAnd:
      return a & b;
    case Reduce::kOr:
      return a | b;
    case Reduce::kXor:
      return a ^ b;
  }
  return 0;
}

template <Reduce kWay>
void combine_reduce(void* const* slots, uint32_t lanes) {
  const int first = __builtin_ctz(lanes);
  uint32_t total = uint32_t(static_cast<VoteSlot*>(slots[first])->value);
  for_each(lanes & (lanes - 1), [&](int lane) {
    total = combined(kWay, total, uint32_t(static_cast<VoteSlot*>(slots[lane])->value));
  });
  for_each(lanes, [&](int lane) { static_cast<VoteSlot*>(slots[lane])->result = total; });
}

struct MmaSlot {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};

constexpr int kRows = 16, kColumns = 8;

// D += A B once the fragments are spread out. Products are exact in double.
template <int kDepth>
void multiply(void* const* slots, const double (&a)[kRows][kDepth],
              const double (&b)[kDepth][kColumns]) {
  double product[kRows][kColumns] = {};
  for (int row = 0; row < kRows; ++row) {
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < kColumns; ++column) {
        product[row][column] += a[row][k] * b[k][column];
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    float* d = static_cast<MmaSlot*>(slots[lane])->d;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      d[i] = float(double(d[i]) + product[row][column]);
    }
  }
}

double tf32_value(uint32_t bits) { return double(bits_as<float>(bits & 0xffffe000u)); }

// What a lane that is missing would have given is unknown, and found has said so.
void combine_mma_tf32(void* const* slots, uint32_t lanes) {
  if (lanes != kAllLanes) {
    return;
  }
  double a[16][8], b[8][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const MmaSlot& slot = *static_cast<MmaSlot*>(slots[lane]);
    for (int i = 0; i < 4; ++i) {
      a[lane / 4 + 8 * (i % 2)][lane % 4 + 4 * (i / 2)] = tf32_value(slot.a[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[lane % 4 + 4 * i][lane / 4] = tf32_value(slot.b[i]);
    }
  }
  multiply<8>(slots, a, b);
}

template <float (*kValue)(uint16_t)>
void combine_mma_16_bits(void* const* slots, uint32_t lanes) {
  if (lanes != kAllLanes) {
    return;
  }
  double a[16][16], b[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const MmaSlot& slot = *static_cast<MmaSlot*>(slots[lane]);
    for (int i = 0; i < 8; ++i) {
      const uint16_t bits = uint16_t(slot.a[i / 2] >> (16 * (i % 2)));
      a[lane / 4 + 8 * (i / 2 % 2)][lane % 4 * 2 + i % 2 + 8 * (i / 4)] = double(kValue(bits));
    }
    for (int i = 0; i < 4; ++i) {
      const uint16_t bits = uint16_t(slot.b[i / 2] >> (16 * (i % 2)));
      b[lane % 4 * 2 + i % 2 + 8 * (i / 2)][lane / 4] = double(kValue(bits));
    }
  }
  multiply<16>(slots, a, b);
}

struct LdmatrixSlot {
  const char* row;           // the one this lane names
  const char* rows[kLanes];  // those that all lanes name
};

void combine_ldmatrix(void* const* slots, uint32_t lanes) {
  for_each(lanes, [&](int lane) {
    LdmatrixSlot& slot = *static_cast<LdmatrixSlot*>(slots[lane]);
    for (int i = 0; i < kLanes; ++i) {
      slot.rows[i] = static_cast<const LdmatrixSlot*>(slots[lanes >> i & 1 ? i : lane])->row;
    }
  });
}

void check_alignment(const void* address, size_t bytes, const char* what) {
  if (uintptr_t(address) % bytes != 0) {
    found(Kind::kMisaligned, *current_thread, {},
          what + (" is not a multiple of " + std::to_string(bytes)) + " bytes");
    trap();
  }
}

void land(const Copy& copy) {
  if (copy.valid) {
    std::memcpy(copy.shared, copy.global, copy.bytes);
  } else {
    std::memset(copy.shared, 0, copy.bytes);
  }
  watch(Access::kCopyLands, copy.shared, copy.bytes, nullptr);
}

}  // namespace

void warp_barrier(uint32_t mask, Site site) {
  meet(Instruction::kSyncwarp, 0, mask, nullptr, [](void* const*, uint32_t) {}, site);
}

uint64_t shuffle(Shuffle way, uint32_t mask, uint64_t value, int operand, int width, Site site) {
  const int lane = current_thread->lane, first = lane & ~(width - 1), last = first + width - 1;
  int source = lane;
  switch (way) {
    case Shuffle::kIndex:
      source = first + (operand & (width - 1));
      break;
    case Shuffle::kUp:
      source = lane - operand;
      break;
    case Shuffle::kDown:
      source = lane + operand;
      break;
    case Shuffle::kXor:
      source = lane ^ operand;
      break;
  }
  // Beyond its part of the warp a lane reads itself; a lower part may be read by kXor.
  if (source > last || source < (way == Shuffle::kXor ? 0 : first)) {
    source = lane;
  }
  ShuffleSlot slot{value, 0, source};
  meet(Instruction::kShuffle, int(way), mask, &slot, combine_shuffle, site);
  return slot.result;
}

uint32_t ballot(uint32_t mask, bool predicate, Site site) {
  VoteSlot slot{predicate, 0};
  meet(Instruction::kBallot, 0, mask, &slot, combine_ballot, site);
  return slot.result;
}

uint32_t match_any(uint32_t mask, uint64_t value, Site site) {
  VoteSlot slot{value, 0};
  meet(Instruction::kMatch, 0, mask, &slot, combine_match, site);
  return slot.result;
}

uint32_t reduce(Reduce way, uint32_t mask, uint32_t value, Site site) {
  static constexpr Combine kCombines[] = {
      combine_reduce<Reduce::kAdd>,       combine_reduce<Reduce::kMin>,
      combine_reduce<Reduce::kMax>,       combine_reduce<Reduce::kMinSigned>,
      combine_reduce<Reduce::kMaxSigned>, combine_reduce<Reduce::kAnd>,
      combine_reduce<Reduce::kOr>,        combine_reduce<Reduce::kXor>};
  VoteSlot slot{value, 0};
  meet(Instruction::kReduce, int(way), mask, &slot, kCombines[int(way)], site);
  return slot.result;
}

void mma_tf32(float* d, const uint32_t* a, const uint32_t* b, Site site) {
  MmaSlot slot{d, a, b};
  meet(Instruction::kMmaTf32, 0, kAllLanes, &slot, combine_mma_tf32, site);
}

void mma_f16(float* d, const uint32_t* a, const uint32_t* b, Site site) {
  MmaSlot slot{d, a, b};
  meet(Instruction::kMmaF16, 0, kAllLanes, &slot, combine_mma_16_bits<half_value>, site);
}

void mma_bf16(float* d, const uint32_t* a, const uint32_t* b, Site site) {
  MmaSlot slot{d, a, b};
  meet(Instruction::kMmaBf16, 0, kAllLanes, &slot, combine_mma_16_bits<bfloat16_value>, site);
}

void ldmatrix(uint32_t* d, const void* row, int matrices, bool transposed, Site site) {
  LdmatrixSlot slot{};
  slot.row = static_cast<const char*>(row);
  check_alignment(row, 16, "the row of ldmatrix");
  meet(Instruction::kLdmatrix, matrices * 2 + transposed, kAllLanes, &slot, combine_ldmatrix, site);
  const int group = current_thread->lane / 4, member = current_thread->lane % 4;
  for (int m = 0; m < matrices; ++m) {
    d[m] = 0;
    for (int i = 0; i < 2; ++i) {
      const int r = transposed ? member * 2 + i : group, c = transposed ? group : member * 2 + i;
      const char* address = slot.rows[m * 8 + r] + 2 * c;
      uint16_t element;
      watch(Access::kRead, address, 2, __builtin_return_address(0));
      std::memcpy(&element, address, 2);
      d[m] |= uint32_t(element) << (16 * i);
    }
  }
}

void copy_async(void* shared, const void* global, size_t bytes, bool valid, Site) {
  check_alignment(shared, bytes, "the destination of cp.async");
  check_alignment(global, bytes, "the source of cp.async");
  watch(Access::kCopyBegins, shared, bytes, __builtin_return_address(0));
  std::memset(shared, 0xff, bytes);
  current_thread->open_group.push_back(
      {static_cast<char*>(shared), static_cast<const char*>(global), uint32_t(bytes), valid});
}

void commit_copies() {
  current_thread->groups.push_back(std::move(current_thread->open_group));
  current_thread->open_group.clear();
}

void wait_for_copies(int pending_groups) {
  std::deque<std::vector<Copy>>& groups = current_thread->groups;
  while (int(groups.size()) > pending_groups) {
    std::for_each(groups.front().begin(), groups.front().end(), land);
    groups.pop_front();
  }
}

void atomic_access(const void* address, size_t bytes) {
  watch(Access::kAtomic, address, bytes, __builtin_return_address(0));
}

}  // namespace cuda_on_cpu

#define KBD_ATOMIC(name, type, updated)                \
  type name(type* address, type value) {               \
    cuda_on_cpu::atomic_access(address, sizeof(type)); \
    const type old = *address;                         \
    *address = updated;                                \
    return old;                                        \
  }
#define KBD_ATOMICS(type)                  \
  KBD_ATOMIC(atomicAdd, type, old + value) \
  KBD_ATOMIC(atomicExch, type, value)
#define KBD_ATOMICS_OF_INTEGERS(type)                        \
  KBD_ATOMICS(type)                                          \
  KBD_ATOMIC(atomicSub, type, old - value)                   \
  KBD_ATOMIC(atomicMin, type, old < value ? old : value)     \
  KBD_ATOMIC(atomicMax, type, old < value ? value : old)     \
  KBD_ATOMIC(atomicAnd, type, old& value)                    \
  KBD_ATOMIC(atomicOr, type, old | value)                    \
  KBD_ATOMIC(atomicXor, type, old ^ value)                   \
  type atomicCAS(type* address, type expected, type value) { \
    cuda_on_cpu::atomic_access(address, sizeof(type));       \
    const type old = *address;                               \
    *address = old == expected ? value : old;                \
    return old;                                              \
  }
KBD_ATOMICS(float)
KBD_ATOMICS(double)
KBD_ATOMICS_OF_INTEGERS(int)
KBD_ATOMICS_OF_INTEGERS(unsigned)
KBD_ATOMICS_OF_INTEGERS(unsigned long long)
