// SPDX-License-Identifier: Apache-2.0
//
// What the emulator found, and how it runs. A test reads record() and sets options().
#ifndef KBD_CUDA_ON_CPU_REPORT_H_
#define KBD_CUDA_ON_CPU_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "types.h"

namespace cuda_on_cpu {

enum class Kind {
  kRace,         // two threads, one word of shared memory, one of them writes, no barrier between
  kUnwritten,    // a read of shared memory that nobody wrote in this block
  kOutOfBounds,  // shared memory beyond what the launch asked for
  kMisaligned,   // a vector load or store, or a copy, whose address is not a multiple of its size:
                 // the launch fails
  kBarrier,      // a __syncthreads that not all threads of the block reach
  kDivergence,   // a warp-wide instruction that not all lanes of its mask reach
  kPendingCopy,  // the destination of a cp.async touched, or left, before its group was waited for
};
constexpr int kKinds = 7;

const char* name_of(Kind kind);

struct Finding {
  Kind kind;
  std::string kernel;
  uint3 block;
  uint3 thread;               // the one that was caught
  std::vector<uint3> others;  // the rest, as far as they are known
  std::string text;           // all of this in words
};

struct Record {
  std::vector<Finding> findings;  // of each launch and kind, the first Options::kept
  int64_t counts[kKinds] = {};    // of all

  int64_t count(Kind kind) const { return counts[int(kind)]; }
  int64_t total() const;
  void clear();
};

struct Options {
  bool print = true;            // findings go to stderr as well
  int kept = 4;                 // findings kept and printed of a launch and kind; all are counted
  uint64_t shuffle_seed = 0;    // not 0: blocks, warps and lanes run in an order drawn from it
  size_t shared_limit = 49152;  // bytes a block may have: static, and dynamic without opt-in
  size_t shared_limit_optin = 101376;  // the same after cudaFuncSetAttribute; at most 232448
  int compute_capability = 80;         // what cudaDeviceGetAttribute says; code is chosen by
                                       // -DKBD_CUDA_ON_CPU_ARCH=750 and the like, 800 if not given
  // CUDA gives memory order to __syncwarp alone: shuffles, votes and mma move values between lanes
  // and order nothing else. Where this is true they order shared memory as well.
  bool collectives_order_memory = false;
};

Record& record();
Options& options();

// Whether this build sees single accesses to shared memory. Without that kRace, kUnwritten,
// kOutOfBounds and most of kPendingCopy and kMisaligned are never found.
bool watches_memory();

}  // namespace cuda_on_cpu

#endif  // KBD_CUDA_ON_CPU_REPORT_H_
