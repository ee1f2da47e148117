// SPDX-License-Identifier: Apache-2.0
#include "fibre.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_on_cpu {
namespace {

Fibre scheduler;
const void* scheduler_stack = nullptr;
size_t scheduler_stack_bytes = 0;

// All stacks, made once: pages cost nothing before they are touched.
char* stack_of(int index) {
  static const size_t page = size_t(sysconf(_SC_PAGESIZE));
  static char* const all = [] {
    void* memory = mmap(nullptr, kMaxFibres * (kStackBytes + page), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("cuda_on_cpu: stacks");
      std::abort();
    }
    for (int i = 0; i < kMaxFibres; ++i) {
      mprotect(static_cast<char*>(memory) + size_t(i) * (kStackBytes + page), page, PROT_NONE);
    }
    return static_cast<char*>(memory);
  }();
  return all + size_t(index) * (kStackBytes + page) + page;
}

void about_to_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* to_stack,
                     [[maybe_unused]] size_t to_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(fake_stack, to_stack, to_bytes);
#endif
}

void have_switched([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** from_stack,
                   [[maybe_unused]] size_t* from_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, from_stack, from_bytes);
#endif
}

}  // namespace

#if defined(KBD_FIBRE_UCONTEXT)

static void switch_fibre(Fibre& from, Fibre& to) { swapcontext(&from.context, &to.context); }

static void set_up(Fibre& fibre, void (*entry)(), size_t bytes) {
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = fibre.stack;
  fibre.context.uc_stack.ss_size = bytes;
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, entry, 0);
}

#else

extern "C" void kbd_switch_stack(void** from, void* to);
asm(R"(
.text
.type kbd_switch_stack, @function
kbd_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kbd_switch_stack, . - kbd_switch_stack
)");

static void switch_fibre(Fibre& from, Fibre& to) {
  kbd_switch_stack(&from.stack_pointer, to.stack_pointer);
}

// What kbd_switch_stack pops: six registers, the entry function; and above that the address to
// which the entry function must not return, so that the stack is aligned as after a call.
static void set_up(Fibre& fibre, void (*entry)(), size_t bytes) {
  void** top = reinterpret_cast<void**>(fibre.stack + bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) {
    *--top = nullptr;
  }
  fibre.stack_pointer = top;
}

#endif

void prepare(Fibre& fibre, int index, void (*entry)(), [[maybe_unused]] bool forget) {
  fibre.stack = stack_of(index);
  fibre.fake_stack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  if (forget) {
    ASAN_UNPOISON_MEMORY_REGION(fibre.stack, kStackBytes);
  }
#endif
  // Tops a whole number of pages apart would share a few lines of the cache.
  set_up(fibre, entry, kStackBytes - size_t(index % 61) * 192);
}

void enter(Fibre& fibre) {
  about_to_switch(&scheduler.fake_stack, fibre.stack, kStackBytes);
  switch_fibre(scheduler, fibre);
  have_switched(scheduler.fake_stack, nullptr, nullptr);
}

void leave(Fibre& fibre, bool last) {
  about_to_switch(last ? nullptr : &fibre.fake_stack, scheduler_stack, scheduler_stack_bytes);
  switch_fibre(fibre, scheduler);
  have_switched(fibre.fake_stack, nullptr, nullptr);
}

void begin_fibre() { have_switched(nullptr, &scheduler_stack, &scheduler_stack_bytes); }

}  // namespace cuda_on_cpu
