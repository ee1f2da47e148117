// SPDX-License-Identifier: Apache-2.0
//
// CUDA kernels on the CPU, for tests: a kernel's source, compiled as C++17 with
// -DKBD_CUDA_ON_CPU, runs here thread by thread, and what would go wrong on a GPU is reported.
//
// How it runs. Blocks run one after another, in grid order or in an order drawn from
// options().shuffle_seed. The threads of a block are fibres; one runs until it waits for others (a
// barrier, a warp-wide instruction) or ends. Everything happens in the thread that launches; a
// launch is over when it returns.
//
// What is emulated:
//   - threadIdx, blockIdx, blockDim, gridDim, warpSize; the limits of grid, block and shared
//     memory, with CUDA's error codes; static __shared__ variables in functions and templates, and
//     dynamic shared memory through kbd::dynamic_shared<T>() of kernels/cuda/platform.h. Both
//     hold rubbish (0xff: a NaN, -1) when a block begins;
//   - __syncthreads and its _count/_and/_or, __syncwarp, __shfl*_sync, __ballot_sync, __any_sync,
//     __all_sync, __match_any_sync, __reduce_*_sync, atomics, bit tricks, conversions, __half and
//     __nv_bfloat16 as storage (arithmetic in float);
//   - cp.async, mma and ldmatrix through kernels/cuda/ptx.h. A copy lands when it is waited for. An
//     mma multiplies exactly and adds in double, then rounds once; a GPU rounds the sum its own
//     way, so only small integers come out equal to the last bit.
//
// What is found (report.h): see Kind. It takes two builds, which CMakeLists.txt makes:
//   - <test>_hooks is compiled with -fsanitize=thread for the calls before each access, and
//   hooks.cc
//     is what they call: a history of every byte of shared memory;
//   - <test>_asan has AddressSanitizer and UndefinedBehaviorSanitizer: global memory out of bounds,
//     dynamic shared memory out of bounds, vector accesses out of alignment. The thread that did it
//     is printed after the sanitizer's own words.
//
// What is not:
//   - time, caches, bank conflicts, occupancy, registers, __launch_bounds__;
//   - races between blocks, and races on global memory (shuffled orders may show them);
//   - threads that wait by polling memory: a fibre gives way only where it waits by name;
//   - an index that leaves one static __shared__ array and lands in another; library calls (memcpy
//     on shared memory, unless small and of constant size);
//   - __activemask, cooperative groups, named barriers, mbarrier, TMA, wgmma, textures, graphs,
//     events, launches from kernels; `extern __shared__` (dynamic_shared<T>() instead);
//   - __noinline__ (libstdc++ uses that word), function-local thread_local variables of the host
//     (they would be taken for shared memory), and stripped executables (names are read from the
//     symbol table).
#ifndef KBD_CUDA_ON_CPU_H_
#define KBD_CUDA_ON_CPU_H_

#include "device.h"
#include "host_api.h"
#include "report.h"
#include "types.h"
#include "warp.h"

#endif  // KBD_CUDA_ON_CPU_H_
