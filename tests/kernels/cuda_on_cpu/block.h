// SPDX-License-Identifier: Apache-2.0
//
// The block that runs: its threads, what they wait for, and what orders them.
#ifndef KBD_CUDA_ON_CPU_BLOCK_H_
#define KBD_CUDA_ON_CPU_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "fibre.h"
#include "report.h"
#include "types.h"
#include "warp.h"

namespace cuda_on_cpu {

constexpr int kLanes = 32;
constexpr int kMaxThreads = 1024;
constexpr size_t kMaxDynamicShared = 232448;

enum class State { kReady, kAtBarrier, kAtWarp, kDone };

// Warp-wide instructions; lanes meet if theirs is the same, of the same kind and mask.
enum class Instruction {
  kSyncwarp,
  kShuffle,
  kBallot,
  kMatch,
  kReduce,
  kMmaTf32,
  kMmaF16,
  kMmaBf16,
  kLdmatrix
};

struct Copy {
  char* shared;
  const char* global;
  uint32_t bytes;
  bool valid;
};

// Does the work of all lanes when the last has come. `slots` has what each lane gave; those outside
// `lanes` are null.
using Combine = void (*)(void* const* slots, uint32_t lanes);

struct Thread {
  Fibre fibre;
  State state = State::kDone;
  int id = 0;
  int warp = 0;
  int lane = 0;
  uint3 index{};
  Site site{};  // where it waits
  // At a warp-wide instruction:
  Instruction instruction{};
  int variant = 0;  // the kind of shuffle or reduction
  uint32_t mask = 0;
  void* slot = nullptr;
  Combine combine = nullptr;
  // At a barrier:
  bool predicate = false;
  // cp.async: groups closed, oldest first, and the one that is open.
  std::deque<std::vector<Copy>> groups;
  std::vector<Copy> open_group;
};

// Time within a warp is the number of its __syncwarps. What a lane did at time s is known to
// another, t, if s < floor or s < seen[t][lane].
struct Warp {
  uint32_t existing = 0;  // lanes that the block has
  uint32_t done = 0;      // lanes that have ended, or never were
  uint32_t waiting = 0;   // lanes at a warp-wide instruction
  uint32_t time = 0;
  uint32_t floor = 0;
  uint32_t seen[kLanes][kLanes] = {};
};

struct Block {
  std::string kernel;
  uint3 index{};
  uint32_t serial = 0;  // never the same for two blocks
  uint32_t epoch = 0;   // never the same on two sides of a __syncthreads, nor for two blocks
  size_t shared_bytes = 0;
  int num_threads = 0;
  int at_barrier = 0;
  int done = 0;
  Votes votes{};
  bool failed = false;
  Thread threads[kMaxThreads];
  Warp warps[kMaxThreads / kLanes];
};

// The block and the thread that run; null between launches.
extern Block* current_block;
extern Thread* current_thread;

// Counts, keeps and prints a finding about the current block. `what` needs no names of threads.
void found(Kind kind, const Thread& thread, std::vector<uint3> others, const std::string& what);
void new_launch_in_report();

std::string to_string(uint3 v);
std::string to_string(Site site);
std::string name_of(const Thread& waiting);

// Meets the other lanes of `mask`; returns when combine() has run on everybody's slots.
void meet(Instruction instruction, int variant, uint32_t mask, void* slot, Combine combine,
          Site site);

}  // namespace cuda_on_cpu

#endif  // KBD_CUDA_ON_CPU_BLOCK_H_
