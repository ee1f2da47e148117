// SPDX-License-Identifier: Apache-2.0
//
// The part of the CUDA runtime API that launchers and their tests use. Everything is done when the
// call returns: streams only have names here.
#ifndef KBD_CUDA_ON_CPU_HOST_API_H_
#define KBD_CUDA_ON_CPU_HOST_API_H_

#include <cstddef>
#include <tuple>
#include <utility>

#include "types.h"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
};

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9,
};

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
};

using cudaStream_t = struct CUstream_st*;

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream);
cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* to, int value, size_t bytes);

namespace cuda_on_cpu {

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value);

// Runs `invoke(closure)` as every thread of the grid.
cudaError_t run(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                void (*invoke)(const void*), const void* closure);

// What kernel<<<grid, block, shared_bytes, stream>>>(args...) does on a GPU. As there, arguments
// are converted once and every thread has its own copy.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t,
            A&&... args) {
  using Closure = std::pair<void (*)(P...), std::tuple<P...>>;
  const Closure closure(kernel, std::tuple<P...>(std::forward<A>(args)...));
  run(
      reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
      [](const void* opaque) {
        const Closure& c = *static_cast<const Closure*>(opaque);
        std::apply(c.first, c.second);
      },
      &closure);
}

}  // namespace cuda_on_cpu

template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value) {
  return cuda_on_cpu::set_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

#endif  // KBD_CUDA_ON_CPU_HOST_API_H_
