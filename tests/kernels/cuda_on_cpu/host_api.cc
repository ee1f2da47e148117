// SPDX-License-Identifier: Apache-2.0
#include "host_api.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <string>

#include "block.h"
#include "schedule.h"
#include "shadow.h"
#include "symbols.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_on_cpu {
namespace {

constexpr uint64_t kMaxGridX = 2147483647;
constexpr unsigned kMaxGridYZ = 65535;
constexpr unsigned kMaxBlockXY = 1024;
constexpr unsigned kMaxBlockZ = 64;
constexpr uint64_t kMaxShuffledBlocks = 1 << 24;

cudaError_t last_error = cudaSuccess;
std::map<const void*, size_t> dynamic_limits;  // what cudaFuncSetAttribute granted
std::mutex one_launch;

cudaError_t status(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

// Static shared memory that the kernel itself declares; that of functions it calls is not known.
size_t static_shared(const void* kernel) {
  const std::string name = symbols().mangled_function(kernel);
  if (name.compare(0, 2, "_Z") != 0) {
    return 0;
  }
  const std::string prefix = "_ZZ" + name.substr(2) + "E";
  size_t bytes = 0;
  for (const Variable& v : symbols().variables) {
    bytes += v.mangled.compare(0, prefix.size(), prefix) == 0 ? v.bytes : 0;
  }
  return bytes;
}

bool possible(dim3 grid, dim3 block) {
  return grid.x >= 1 && grid.x <= kMaxGridX && grid.y >= 1 && grid.y <= kMaxGridYZ && grid.z >= 1 &&
         grid.z <= kMaxGridYZ && block.x >= 1 && block.x <= kMaxBlockXY && block.y >= 1 &&
         block.y <= kMaxBlockXY && block.z >= 1 && block.z <= kMaxBlockZ &&
         uint64_t(block.x) * block.y * block.z <= kMaxThreads;
}

uint3 index_of(uint64_t number, dim3 grid) {
  return {unsigned(number % grid.x), unsigned(number / grid.x % grid.y),
          unsigned(number / grid.x / grid.y)};
}

#if defined(__SANITIZE_ADDRESS__)

void name_thread_at_death() {
  if (current_thread != nullptr) {
    std::fprintf(stderr, "cuda_on_cpu: that was %s, block %s, thread %s\n",
                 current_block->kernel.c_str(), to_string(current_block->index).c_str(),
                 to_string(current_thread->index).c_str());
  }
}

// Makes the rest of the dynamic shared memory untouchable.
struct Fence {
  explicit Fence(size_t bytes) {
    __sanitizer_set_death_callback(name_thread_at_death);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(dynamic_shared()) + bytes,
                              kMaxDynamicShared - bytes);
  }
  ~Fence() { ASAN_UNPOISON_MEMORY_REGION(dynamic_shared(), kMaxDynamicShared); }
};

#else

struct Fence {
  explicit Fence(size_t) {}
};

#endif

}  // namespace

cudaError_t set_attribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
    return cudaSuccess;
  }
  const size_t limit = std::min(options().shared_limit_optin, kMaxDynamicShared);
  if (value < 0 || size_t(value) + static_shared(kernel) > limit) {
    return status(cudaErrorInvalidValue);
  }
  dynamic_limits[kernel] = size_t(value);
  return cudaSuccess;
}

cudaError_t run(const void* kernel, dim3 grid, dim3 block_size, size_t shared_bytes,
                void (*invoke)(const void*), const void* closure) {
  const std::lock_guard<std::mutex> lock(one_launch);
  if (!possible(grid, block_size)) {
    return status(cudaErrorInvalidConfiguration);
  }
  const size_t fixed = static_shared(kernel);
  const auto granted = dynamic_limits.find(kernel);
  const size_t asked = granted == dynamic_limits.end() ? 0 : granted->second;
  if (shared_bytes > asked && shared_bytes + fixed > options().shared_limit) {
    return status(cudaErrorInvalidValue);
  }
  static Block block;
  block.kernel = symbols().function(kernel);
  block.shared_bytes = shared_bytes;
  new_launch_in_report();
  open_arena();
  const Fence fence(shared_bytes);

  const Launch launch{grid, block_size, invoke, closure};
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  const uint64_t seed = options().shuffle_seed;
  std::vector<uint32_t> order;
  if (seed != 0 && blocks <= kMaxShuffledBlocks) {
    order.resize(blocks);
    std::iota(order.begin(), order.end(), 0u);
    shuffle_order(order, seed);
  }
  bool fine = true;
  for (uint64_t i = 0; i < blocks && fine; ++i) {
    const uint64_t number = order.empty() ? i : order[i];
    fine = run_block(block, launch, index_of(number, grid), seed == 0 ? 0 : seed + number);
  }
  close_arena();
  return status(fine ? cudaSuccess : cudaErrorLaunchFailure);
}

}  // namespace cuda_on_cpu

using cuda_on_cpu::last_error;
using cuda_on_cpu::status;

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported:
      return "cudaErrorNotSupported";
  }
  return "cudaErrorUnknown";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotSupported:
      return "operation not supported";
  }
  return "unrecognized error code";
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = static_cast<cudaStream_t>(std::malloc(1));
  return status(*stream == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::free(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = cuda_on_cpu::options().compute_capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = cuda_on_cpu::options().compute_capability % 10;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = int(cuda_on_cpu::options().shared_limit);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = int(cuda_on_cpu::options().shared_limit_optin);
      return cudaSuccess;
  }
  return status(cudaErrorInvalidValue);
}

// Aligned as CUDA's memory is, and with AddressSanitizer fenced to the byte.
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (bytes > 0 && posix_memalign(pointer, 256, bytes) != 0) {
    return status(cudaErrorMemoryAllocation);
  }
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) {
  return cudaMalloc(pointer, bytes);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  if (bytes > 0) {
    std::memset(to, value, bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
