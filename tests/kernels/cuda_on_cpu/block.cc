// SPDX-License-Identifier: Apache-2.0
//
// Runs the threads of a block until all have ended or none can go on.
#include "block.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "schedule.h"
#include "shadow.h"
#include "symbols.h"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace cuda_on_cpu {

Block* current_block = nullptr;
Thread* current_thread = nullptr;

namespace {

constexpr int kRubbish = 0xff;

const Launch* current_launch = nullptr;
uint32_t last_serial = 0;
uint32_t last_epoch = 0;
bool abandoned = false;  // a block ended with its stacks in use

Warp& warp_of(const Thread& thread) { return current_block->warps[thread.warp]; }

Thread& lane_of(const Thread& thread, int lane) {
  return current_block->threads[thread.warp * kLanes + lane];
}

// Lanes of `mask` know what each of them did so far.
void order(Warp& warp, uint32_t mask) {
  ++warp.time;
  if (warp.done == ~warp.existing && (mask & warp.existing) == warp.existing) {
    warp.floor = warp.time;
    return;
  }
  uint32_t known[kLanes] = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) {
      for (int other = 0; other < kLanes; ++other) {
        known[other] = std::max(known[other], warp.seen[lane][other]);
      }
      known[lane] = warp.time;
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (mask >> lane & 1) {
      std::copy_n(known, kLanes, warp.seen[lane]);
    }
  }
}

// Ends the wait of the lanes that wait as `like` does, if all of them are there.
bool try_to_meet(const Thread& like) {
  Warp& warp = warp_of(like);
  const uint32_t mask = like.mask, present = mask & ~warp.done;
  if ((warp.waiting & present) != present) {
    return false;
  }
  void* slots[kLanes] = {};
  for (uint32_t rest = present; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const Thread& thread = lane_of(like, lane);
    if (thread.mask != mask || thread.instruction != like.instruction ||
        thread.variant != like.variant) {
      return false;
    }
    slots[lane] = thread.slot;
  }
  if (present != mask) {
    std::vector<uint3> gone;
    for (uint32_t rest = mask & warp.existing & ~present; rest != 0; rest &= rest - 1) {
      gone.push_back(lane_of(like, __builtin_ctz(rest)).index);
    }
    found(Kind::kDivergence, like, gone,
          "the mask of " + name_of(like) + " has " +
              std::to_string(__builtin_popcount(mask & ~present)) +
              " lanes that ended or never were");
  }
  like.combine(slots, present);
  if (like.instruction == Instruction::kSyncwarp || options().collectives_order_memory) {
    order(warp, present);
  }
  warp.waiting &= ~present;
  for (uint32_t rest = present; rest != 0; rest &= rest - 1) {
    lane_of(like, __builtin_ctz(rest)).state = State::kReady;
  }
  return true;
}

// Ends the wait at the barrier, if all threads that have not ended are there.
bool try_to_pass_barrier() {
  Block& block = *current_block;
  if (block.at_barrier == 0 || block.at_barrier + block.done < block.num_threads) {
    return false;
  }
  const Thread* first = nullptr;
  const Thread* elsewhere = nullptr;
  std::vector<uint3> ended;
  block.votes = {0, block.at_barrier};
  for (int i = 0; i < block.num_threads; ++i) {
    Thread& thread = block.threads[i];
    if (thread.state == State::kDone) {
      ended.push_back(thread.index);
      continue;
    }
    first = first == nullptr ? &thread : first;
    if (thread.site.line != first->site.line || std::strcmp(thread.site.file, first->site.file)) {
      elsewhere = &thread;
    }
    block.votes.ones += thread.predicate;
    thread.state = State::kReady;
  }
  if (!ended.empty()) {
    found(Kind::kBarrier, *first, ended, name_of(*first) + " was passed after threads had ended");
  }
  if (elsewhere != nullptr) {
    found(Kind::kBarrier, *first, {elsewhere->index},
          name_of(*first) + " met with another, " + name_of(*elsewhere));
  }
  block.at_barrier = 0;
  block.epoch = ++last_epoch;
  return true;
}

void give_way() { leave(current_thread->fibre, false); }

void end_thread() {
  Thread& thread = *current_thread;
  Block& block = *current_block;
  thread.groups.push_back(std::move(thread.open_group));
  for (const std::vector<Copy>& group : thread.groups) {
    if (!group.empty()) {
      found(Kind::kPendingCopy, thread, {}, "ended with copies under way");
      break;
    }
  }
  thread.groups.clear();
  thread.open_group.clear();
  thread.state = State::kDone;
  ++block.done;
  Warp& warp = warp_of(thread);
  warp.done |= 1u << thread.lane;
  for (uint32_t rest = warp.waiting; rest != 0; rest &= rest - 1) {
    const Thread& waiting = lane_of(thread, __builtin_ctz(rest));
    if (waiting.state == State::kAtWarp) {
      try_to_meet(waiting);
    }
  }
  try_to_pass_barrier();
}

// Must not have variables: it never returns, so nobody would clear them from the stack.
void thread_main() {
  begin_fibre();
  current_launch->invoke(current_launch->closure);
  end_thread();
  leave(current_thread->fibre, true);
}

// Nobody can go on.
void report_stuck() {
  Block& block = *current_block;
  std::vector<uint3> others;
  const Thread* at_barrier = nullptr;
  const Thread* at_warp = nullptr;
  for (int i = 0; i < block.num_threads; ++i) {
    const Thread& thread = block.threads[i];
    if (thread.state == State::kAtBarrier && at_barrier == nullptr) {
      at_barrier = &thread;
    }
    if (thread.state == State::kAtWarp && at_warp == nullptr) {
      at_warp = &thread;
    }
  }
  if (at_barrier != nullptr) {
    for (int i = 0; i < block.num_threads; ++i) {
      if (block.threads[i].state != State::kAtBarrier) {
        others.push_back(block.threads[i].index);
      }
    }
    found(Kind::kBarrier, *at_barrier, others,
          name_of(*at_barrier) + " waits for ever" +
              (at_warp ? ", while others wait at " + name_of(*at_warp) : ""));
  }
  if (at_warp != nullptr) {
    others.clear();
    std::string elsewhere;
    for (uint32_t rest = at_warp->mask & ~warp_of(*at_warp).done; rest != 0; rest &= rest - 1) {
      const Thread& thread = lane_of(*at_warp, __builtin_ctz(rest));
      if (thread.state != State::kAtWarp || thread.mask != at_warp->mask ||
          thread.instruction != at_warp->instruction || thread.variant != at_warp->variant) {
        others.push_back(thread.index);
        elsewhere = name_of(thread);
      }
    }
    found(Kind::kDivergence, *at_warp, others,
          name_of(*at_warp) + " waits for ever, while lanes of its mask wait at " + elsewhere);
  }
}

void fill_shared_with_rubbish(size_t dynamic_bytes) {
  std::memset(dynamic_shared(), kRubbish, dynamic_bytes);
  char* const begin = thread_local_block();
  for (const Variable& v : symbols().variables) {
    std::memset(begin + v.offset, kRubbish, v.bytes);
  }
}

uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

}  // namespace

void shuffle_order(std::vector<uint32_t>& order, uint64_t seed) {
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[next_random(seed) % i]);
  }
}

std::string name_of(const Thread& waiting) {
  static const char* const kNames[] = {
      "__syncwarp",         "a shuffle",           "a vote",
      "__match_any_sync",   "a reduction",         "mma m16n8k8 (tf32)",
      "mma m16n8k16 (f16)", "mma m16n8k16 (bf16)", "ldmatrix"};
  if (waiting.state == State::kDone) {
    return "its end";
  }
  const char* name =
      waiting.state == State::kAtWarp ? kNames[int(waiting.instruction)] : "__syncthreads";
  return name + (" at " + to_string(waiting.site));
}

bool run_block(Block& block, const Launch& launch, uint3 index, uint64_t seed) {
  current_launch = &launch;
  current_block = &block;
  blockIdx = block.index = index;
  blockDim = launch.block;
  gridDim = launch.grid;
  block.serial = ++last_serial;
  block.epoch = ++last_epoch;
  block.num_threads = int(launch.block.x * launch.block.y * launch.block.z);
  block.at_barrier = block.done = 0;
  block.failed = false;
  const int num_warps = (block.num_threads + kLanes - 1) / kLanes;
  for (int w = 0; w < num_warps; ++w) {
    const int lanes = std::min(kLanes, block.num_threads - w * kLanes);
    block.warps[w] = Warp();
    block.warps[w].existing = lanes == kLanes ? ~0u : (1u << lanes) - 1;
    block.warps[w].done = ~block.warps[w].existing;
  }
  uint3 thread_index{0, 0, 0};
  for (int i = 0; i < block.num_threads; ++i) {
    Thread& thread = block.threads[i];
    thread.id = i;
    thread.warp = i / kLanes;
    thread.lane = i % kLanes;
    thread.index = thread_index;
    thread.state = State::kReady;
    thread.groups.clear();
    thread.open_group.clear();
    prepare(thread.fibre, i, thread_main, abandoned);
    if (++thread_index.x == launch.block.x) {
      thread_index.x = 0;
      if (++thread_index.y == launch.block.y) {
        thread_index.y = 0;
        ++thread_index.z;
      }
    }
  }
  fill_shared_with_rubbish(block.shared_bytes);

  std::vector<uint32_t> warps(static_cast<size_t>(num_warps)), lanes(kLanes);
  std::iota(warps.begin(), warps.end(), 0u);
  std::iota(lanes.begin(), lanes.end(), 0u);
  if (seed != 0) {
    shuffle_order(warps, seed);
    shuffle_order(lanes, ~seed);
  }
  while (block.done < block.num_threads && !block.failed) {
    bool progress = false;
    for (const uint32_t warp : warps) {
      // A warp goes on as far as it can: its lanes mostly wait for each other.
      for (bool again = true; again && !block.failed;) {
        again = false;
        for (const uint32_t lane : lanes) {
          Thread& thread = block.threads[warp * kLanes + lane];
          if ((block.warps[warp].existing >> lane & 1) && thread.state == State::kReady &&
              !block.failed) {
            current_thread = &thread;
            threadIdx = thread.index;
            enter(thread.fibre);
            again = progress = true;
          }
        }
      }
    }
    if (!progress && !block.failed) {
      report_stuck();
      block.failed = true;
    }
  }
  abandoned = block.failed;
  current_thread = nullptr;
  current_block = nullptr;
  return !block.failed;
}

Votes block_barrier(bool predicate, Site site) {
  Thread& thread = *current_thread;
  thread.state = State::kAtBarrier;
  thread.site = site;
  thread.predicate = predicate;
  ++current_block->at_barrier;
  if (!try_to_pass_barrier()) {
    give_way();
  }
  return current_block->votes;
}

void meet(Instruction instruction, int variant, uint32_t mask, void* slot, Combine combine,
          Site site) {
  Thread& thread = *current_thread;
  thread.state = State::kAtWarp;
  thread.instruction = instruction;
  thread.variant = variant;
  thread.mask = mask;
  thread.slot = slot;
  thread.combine = combine;
  thread.site = site;
  const uint32_t own = 1u << thread.lane;
  if ((mask & own) == 0) {
    found(Kind::kDivergence, thread, {}, "is not in its own mask of " + name_of(thread));
    void* slots[kLanes] = {};
    slots[thread.lane] = slot;
    combine(slots, own);
    thread.state = State::kReady;
    return;
  }
  warp_of(thread).waiting |= own;
  if (!try_to_meet(thread)) {
    give_way();
  }
}

// Thread-local, as static __shared__ variables are, so that one block of memory holds both.
void* dynamic_shared() {
  alignas(128) static thread_local unsigned char bytes[kMaxDynamicShared];
  return bytes;
}

void trap() {
  current_block->failed = true;
  leave(current_thread->fibre, false);
  __builtin_unreachable();
}

}  // namespace cuda_on_cpu
