// SPDX-License-Identifier: Apache-2.0
//
// Fibres: threads that give way by themselves. On x86-64 a switch saves six registers; elsewhere
// ucontext does it. Each has a stack of its own, above a page that may not be touched.
#ifndef KBD_CUDA_ON_CPU_FIBRE_H_
#define KBD_CUDA_ON_CPU_FIBRE_H_

#include <cstddef>

#if !defined(__x86_64__) || defined(KBD_CUDA_ON_CPU_UCONTEXT)
#define KBD_FIBRE_UCONTEXT 1
#include <ucontext.h>
#endif

namespace cuda_on_cpu {

constexpr size_t kStackBytes = 256 * 1024;
constexpr int kMaxFibres = 1024;

struct Fibre {
  char* stack = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's
#if defined(KBD_FIBRE_UCONTEXT)
  ucontext_t context;
#else
  void* stack_pointer = nullptr;
#endif
};

// Makes `fibre` ready to begin at `entry` on stack number `index`. `forget` says that what the
// stack last ran was abandoned half-way.
void prepare(Fibre& fibre, int index, void (*entry)(), bool forget);

// Runs `fibre` until it gives way. Not to be called by a fibre.
void enter(Fibre& fibre);

// Gives way to the caller of enter(); returns when entered again, unless `last`.
void leave(Fibre& fibre, bool last);

// To be called first by the entry function.
void begin_fibre();

}  // namespace cuda_on_cpu

#endif  // KBD_CUDA_ON_CPU_FIBRE_H_
