// SPDX-License-Identifier: Apache-2.0
//
// The history of shared memory, byte by byte: who touched it, when, and in what order that was.
// Builds that do not watch memory have none, and every function here returns at once.
#ifndef KBD_CUDA_ON_CPU_SHADOW_H_
#define KBD_CUDA_ON_CPU_SHADOW_H_

#include <cstddef>
#include <cstdint>

namespace cuda_on_cpu {

#if defined(KBD_CUDA_ON_CPU_HOOKS)
constexpr bool kWatchesMemory = true;
#else
constexpr bool kWatchesMemory = false;
#endif

enum class Access { kRead, kWrite, kAtomic, kCopyBegins, kCopyLands };

// The thread-local block that holds shared memory; empty while no kernel runs.
extern uintptr_t arena_begin;
extern size_t arena_bytes;

inline bool in_arena(const void* address) { return uintptr_t(address) - arena_begin < arena_bytes; }

void open_arena();
void close_arena();

// The current thread touches shared memory. `pc` is the instruction after the access, or null.
void touch(Access access, const void* address, size_t bytes, const void* pc);

inline void watch(Access access, const void* address, size_t bytes, const void* pc) {
  if (kWatchesMemory && in_arena(address)) {
    touch(access, address, bytes, pc);
  }
}

}  // namespace cuda_on_cpu

#endif  // KBD_CUDA_ON_CPU_SHADOW_H_
