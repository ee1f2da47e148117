// SPDX-License-Identifier: Apache-2.0
#include "shadow.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "block.h"
#include "symbols.h"

namespace cuda_on_cpu {

uintptr_t arena_begin = 0;
size_t arena_bytes = 0;

namespace {

constexpr int kSeveralWarps = -1;

// Threads that touched something since the last __syncthreads, and when the last of them did.
// Readers at different times are taken to be of the last one's: that matters only to warps that
// synchronize by overlapping parts.
struct Party {
  uint32_t epoch = 0;
  uint32_t time = 0;
  uint32_t lanes = 0;
  int warp = 0;
};

struct Cell {
  Party writer;
  Party readers;
  Party updaters;          // atomics
  uint32_t written = 0;    // serial of the block that last wrote
  uint32_t pending = 0;    // serial of the block in which a copy is under way
  uint32_t copied_by = 0;  // the thread that began it
};

// Words are whole as long as nobody touches a part of one.
std::vector<Cell> words;
std::vector<Cell> bytes_of_words;
std::vector<uint8_t> is_split;
std::vector<uint8_t> is_variable;  // by byte

uint32_t bit(const Thread& thread) { return 1u << thread.lane; }

bool unordered(const Party& party, const Thread& thread) {
  if (party.epoch != current_block->epoch) {
    return false;
  }
  if (party.warp != thread.warp) {
    return true;
  }
  uint32_t lanes = party.lanes & ~bit(thread);
  const Warp& warp = current_block->warps[thread.warp];
  if (lanes == 0 || party.time < warp.floor) {
    return false;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    if (party.time >= warp.seen[thread.lane][__builtin_ctz(lanes)]) {
      return true;
    }
  }
  return false;
}

Party alone(const Thread& thread) {
  return {current_block->epoch, current_block->warps[thread.warp].time, bit(thread), thread.warp};
}

void join(Party& party, const Thread& thread) {
  if (party.epoch != current_block->epoch) {
    party = alone(thread);
  } else if (party.warp != thread.warp) {
    party.warp = kSeveralWarps;
  } else {
    const Warp& warp = current_block->warps[thread.warp];
    party.lanes = (party.time < warp.floor ? 0 : party.lanes) | bit(thread);
    party.time = warp.time;
  }
}

std::string where(size_t offset, size_t size, const void* pc) {
  const size_t dynamic = size_t(uintptr_t(dynamic_shared()) - arena_begin);
  std::string name = "shared memory";
  size_t from = 0;
  if (offset >= dynamic && offset < dynamic + kMaxDynamicShared) {
    name = "dynamic shared memory";
    from = dynamic;
  }
  for (const Variable& v : symbols().variables) {
    if (offset >= v.offset && offset < v.offset + v.bytes) {
      name = v.name;
      from = v.offset;
    }
  }
  std::string text =
      name + ", byte " + std::to_string(offset - from) + " (" + std::to_string(size) + " bytes)";
  if (pc != nullptr) {
    char address[32];
    std::snprintf(address, sizeof(address), ", pc 0x%zx",
                  size_t(static_cast<const char*>(pc) - symbols().load_address - 1));
    text += address;
  }
  return text;
}

const char* verb(Access access) {
  switch (access) {
    case Access::kRead:
      return "reads";
    case Access::kAtomic:
      return "updates";
    case Access::kCopyBegins:
      return "begins a copy to";
    default:
      return "writes";
  }
}

struct Event {
  Access access;
  size_t offset;
  size_t size;
  const void* pc;
};

[[gnu::noinline]] void found_race(const Party& party, const char* did, const Event& e) {
  std::vector<uint3> others;
  if (party.warp != kSeveralWarps) {
    uint32_t lanes = party.lanes;
    if (party.warp == current_thread->warp) {
      lanes &= ~bit(*current_thread);
    }
    for (; lanes != 0; lanes &= lanes - 1) {
      others.push_back(current_block->threads[party.warp * kLanes + __builtin_ctz(lanes)].index);
    }
  }
  found(Kind::kRace, *current_thread, others,
        std::string(verb(e.access)) + " what " +
            (others.empty() ? "threads of several warps" : "others") + " " + did +
            ", no barrier between: " + where(e.offset, e.size, e.pc));
}

[[gnu::noinline]] void found_here(Kind kind, const std::string& what, const Event& e) {
  found(kind, *current_thread, {}, what + ": " + where(e.offset, e.size, e.pc));
}

// Whether something was found.
bool update(Cell& cell, const Event& e) {
  const Thread& thread = *current_thread;
  const uint32_t serial = current_block->serial;
  bool fine = true;
  if (e.access == Access::kCopyLands) {
    cell.pending = 0;
  } else if (cell.pending == serial) {
    found(Kind::kPendingCopy, thread, {current_block->threads[cell.copied_by].index},
          std::string(verb(e.access)) + " the destination of a copy that was not waited for: " +
              where(e.offset, e.size, e.pc));
    return false;
  }
  const bool reads = e.access == Access::kRead || e.access == Access::kAtomic;
  if (reads && cell.written != serial) {
    found_here(Kind::kUnwritten, std::string(verb(e.access)) + " what nobody wrote", e);
    fine = false;
  }
  if (unordered(cell.writer, thread)) {
    found_race(cell.writer, "wrote", e);
    fine = false;
  } else if (e.access != Access::kAtomic && unordered(cell.updaters, thread)) {
    found_race(cell.updaters, "updated", e);
    fine = false;
  } else if (e.access != Access::kRead && unordered(cell.readers, thread)) {
    found_race(cell.readers, "read", e);
    fine = false;
  }
  switch (e.access) {
    case Access::kRead:
      join(cell.readers, thread);
      break;
    case Access::kAtomic:
      join(cell.updaters, thread);
      cell.written = serial;
      break;
    case Access::kCopyBegins:
      cell.pending = serial;
      cell.copied_by = uint32_t(thread.id);
      break;
    default:
      cell.writer = alone(thread);
      // Whoever comes after this write in order comes after those that came before it.
      cell.readers.epoch = cell.updaters.epoch = 0;
      cell.written = serial;
  }
  return fine;
}

bool inside(size_t offset, size_t bytes) {
  const size_t in_dynamic = offset - size_t(uintptr_t(dynamic_shared()) - arena_begin);
  if (in_dynamic < kMaxDynamicShared) {
    return in_dynamic + bytes <= current_block->shared_bytes;
  }
  return offset + bytes <= is_variable.size() && is_variable[offset] &&
         is_variable[offset + bytes - 1];
}

}  // namespace

void open_arena() {
  if (!kWatchesMemory) {
    return;
  }
  const size_t total = symbols().thread_local_bytes;
  if (words.empty()) {
    words.resize(total / 4 + 1);
    bytes_of_words.resize(words.size() * 4);
    is_split.resize(words.size());
    is_variable.resize(total);
    for (const Variable& v : symbols().variables) {
      std::fill_n(is_variable.begin() + long(v.offset), v.bytes, uint8_t(1));
    }
  }
  arena_begin = uintptr_t(thread_local_block());
  arena_bytes = total;
}

void close_arena() { arena_bytes = 0; }

void touch(Access access, const void* address, size_t bytes, const void* pc) {
  const size_t begin = uintptr_t(address) - arena_begin, end = begin + bytes;
  const Event event{access, begin, bytes, pc};
  if (current_thread == nullptr || bytes == 0) {
    return;
  }
  if (!inside(begin, bytes)) {
    found_here(Kind::kOutOfBounds, std::string(verb(access)) + " beyond its end", event);
    return;
  }
  // One finding an access is enough.
  bool fine = true;
  for (size_t word = begin / 4; word * 4 < end && fine; ++word) {
    const size_t from = std::max(begin, word * 4), to = std::min(end, word * 4 + 4);
    const bool whole = to - from == 4;
    Cell* const split = &bytes_of_words[word * 4];
    if (!is_split[word]) {
      if (whole) {
        fine = update(words[word], event);
        continue;
      }
      std::fill_n(split, 4, words[word]);
      is_split[word] = 1;
    }
    for (size_t b = from; b < to && fine; ++b) {
      fine = update(split[b % 4], event);
    }
    if (whole && fine && (access == Access::kWrite || access == Access::kCopyLands)) {
      words[word] = split[0];  // One write made the four bytes alike.
      is_split[word] = 0;
    }
  }
}

}  // namespace cuda_on_cpu
