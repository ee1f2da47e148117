// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "block.h"
#include "shadow.h"

namespace cuda_on_cpu {
namespace {

int kept_of_launch[kKinds] = {};

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kRace:
      return "race";
    case Kind::kUnwritten:
      return "unwritten shared memory";
    case Kind::kOutOfBounds:
      return "shared memory out of bounds";
    case Kind::kMisaligned:
      return "misaligned access";
    case Kind::kBarrier:
      return "barrier not reached by all";
    case Kind::kDivergence:
      return "divergent warp";
    case Kind::kPendingCopy:
      return "copy not waited for";
  }
  return "?";
}

int64_t Record::total() const { return std::accumulate(counts, counts + kKinds, int64_t(0)); }

void Record::clear() { *this = Record(); }

Record& record() {
  static Record result;
  return result;
}

Options& options() {
  static Options result;
  return result;
}

bool watches_memory() { return kWatchesMemory; }

std::string to_string(uint3 v) {
  return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
}

std::string to_string(Site site) {
  return std::string(site.file) + ":" + std::to_string(site.line);
}

void new_launch_in_report() { std::fill_n(kept_of_launch, kKinds, 0); }

void found(Kind kind, const Thread& thread, std::vector<uint3> others, const std::string& what) {
  ++record().counts[int(kind)];
  if (kept_of_launch[int(kind)] >= options().kept) {
    return;
  }
  ++kept_of_launch[int(kind)];
  std::string text = std::string(name_of(kind)) + " in " + current_block->kernel + ", block " +
                     to_string(current_block->index) + ", thread " + to_string(thread.index) +
                     ": " + what;
  constexpr size_t kNamed = 8;
  for (size_t i = 0; i < others.size() && i < kNamed; ++i) {
    text += (i == 0 ? "; others: " : ", ") + to_string(others[i]);
  }
  if (others.size() > kNamed) {
    text += " and " + std::to_string(others.size() - kNamed) + " more";
  }
  if (options().print) {
    std::fprintf(stderr, "cuda_on_cpu: %s\n", text.c_str());
  }
  record().findings.push_back({kind, current_block->kernel, current_block->index, thread.index,
                               std::move(others), std::move(text)});
}

}  // namespace cuda_on_cpu
