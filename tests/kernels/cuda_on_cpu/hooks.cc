// SPDX-License-Identifier: Apache-2.0
//
// What code compiled with -fsanitize=thread calls before each access to memory. ThreadSanitizer's
// own library is not linked; these take its place.
#include <cstddef>
#include <cstdint>
#include <string>

#include "block.h"
#include "shadow.h"

namespace {

using cuda_on_cpu::Access;

// The end of the kernel, as on a GPU.
[[gnu::noinline]] void misaligned(const void* address, size_t bytes) {
  if (cuda_on_cpu::current_thread != nullptr) {
    cuda_on_cpu::found(cuda_on_cpu::Kind::kMisaligned, *cuda_on_cpu::current_thread, {},
                       "touches " + std::to_string(bytes) + " bytes at an address that is " +
                           std::to_string(uintptr_t(address) % bytes) + " modulo that");
    cuda_on_cpu::trap();
  }
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

void __tsan_read_range(const void* address, size_t bytes) {
  cuda_on_cpu::watch(Access::kRead, address, bytes, __builtin_return_address(0));
}
void __tsan_write_range(const void* address, size_t bytes) {
  cuda_on_cpu::watch(Access::kWrite, address, bytes, __builtin_return_address(0));
}

#define KBD_HOOKS(bytes)                                                             \
  void __tsan_read##bytes(const void* address) {                                     \
    if (uintptr_t(address) % bytes != 0) {                                           \
      misaligned(address, bytes);                                                    \
    }                                                                                \
    cuda_on_cpu::watch(Access::kRead, address, bytes, __builtin_return_address(0));  \
  }                                                                                  \
  void __tsan_write##bytes(const void* address) {                                    \
    if (uintptr_t(address) % bytes != 0) {                                           \
      misaligned(address, bytes);                                                    \
    }                                                                                \
    cuda_on_cpu::watch(Access::kWrite, address, bytes, __builtin_return_address(0)); \
  }                                                                                  \
  void __tsan_unaligned_read##bytes(const void* address) {                           \
    cuda_on_cpu::watch(Access::kRead, address, bytes, __builtin_return_address(0));  \
  }                                                                                  \
  void __tsan_unaligned_write##bytes(const void* address) {                          \
    cuda_on_cpu::watch(Access::kWrite, address, bytes, __builtin_return_address(0)); \
  }                                                                                  \
  void __tsan_volatile_read##bytes(const void* address) {                            \
    cuda_on_cpu::watch(Access::kRead, address, bytes, __builtin_return_address(0));  \
  }                                                                                  \
  void __tsan_volatile_write##bytes(const void* address) {                           \
    cuda_on_cpu::watch(Access::kWrite, address, bytes, __builtin_return_address(0)); \
  }
KBD_HOOKS(1)
KBD_HOOKS(2)
KBD_HOOKS(4)
KBD_HOOKS(8)
KBD_HOOKS(16)

// std::atomic of host code in the same source.
#define KBD_ATOMIC_UPDATE(bits, type, name)                           \
  type __tsan_atomic##bits##_##name(type* address, type value, int) { \
    return __atomic_##name(address, value, __ATOMIC_SEQ_CST);         \
  }
#define KBD_ATOMICS(bits, type)                                                                    \
  type __tsan_atomic##bits##_load(const type* address, int) {                                      \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                             \
  }                                                                                                \
  void __tsan_atomic##bits##_store(type* address, type value, int) {                               \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                            \
  }                                                                                                \
  type __tsan_atomic##bits##_exchange(type* address, type value, int) {                            \
    return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);                                  \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_strong(type* address, type* expected, type value,    \
                                                     int, int) {                                   \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,          \
                                       __ATOMIC_SEQ_CST);                                          \
  }                                                                                                \
  bool __tsan_atomic##bits##_compare_exchange_weak(type* address, type* expected, type value, int, \
                                                   int) {                                          \
    return __atomic_compare_exchange_n(address, expected, value, true, __ATOMIC_SEQ_CST,           \
                                       __ATOMIC_SEQ_CST);                                          \
  }                                                                                                \
  KBD_ATOMIC_UPDATE(bits, type, fetch_add)                                                         \
  KBD_ATOMIC_UPDATE(bits, type, fetch_sub)                                                         \
  KBD_ATOMIC_UPDATE(bits, type, fetch_and)                                                         \
  KBD_ATOMIC_UPDATE(bits, type, fetch_or)                                                          \
  KBD_ATOMIC_UPDATE(bits, type, fetch_xor)
KBD_ATOMICS(8, uint8_t)
KBD_ATOMICS(16, uint16_t)
KBD_ATOMICS(32, uint32_t)
KBD_ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
