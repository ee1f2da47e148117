// SPDX-License-Identifier: Apache-2.0
//
// Where CUDA comes from: the toolkit, or (in tests) an emulator that runs the same sources on the
// CPU. The two things that C++ cannot spell, a launch and dynamic shared memory, are here alone.
#ifndef KBD_CUDA_PLATFORM_H_
#define KBD_CUDA_PLATFORM_H_

#include <cstddef>
#include <utility>

#if defined(KBD_CUDA_ON_CPU)
#include "cuda_on_cpu.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif

namespace kbd {

// Dynamic shared memory a kernel may have without asking.
constexpr size_t kSharedBytesUnasked = 48 * 1024;

// The block's dynamic shared memory, aligned for any vector type. The whole of it, wherever called.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if defined(KBD_CUDA_ON_CPU)
  return static_cast<T*>(cuda_on_cpu::dynamic_shared());
#else
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#endif
}

// Launches a kernel; the status is that of the launch, not of what the kernel will do.
template <class... P, class... A>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, A&&... args) {
  if (shared_bytes > kSharedBytesUnasked) {
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes));
    if (status != cudaSuccess) {
      cudaGetLastError();  // Or the next launch would be blamed.
      return status;
    }
  }
#if defined(KBD_CUDA_ON_CPU)
  cuda_on_cpu::launch(kernel, grid, block, shared_bytes, stream, std::forward<A>(args)...);
#else
  // clang-format off
  kernel<<<grid, block, shared_bytes, stream>>>(std::forward<A>(args)...);
  // clang-format on
#endif
  return cudaGetLastError();
}

}  // namespace kbd

#endif  // KBD_CUDA_PLATFORM_H_
