// SPDX-License-Identifier: Apache-2.0
#include "cuda/device.h"
#include "cuda/platform.h"

namespace kbd {

int use_device(int ordinal, GpuOptions* options) {
  cudaError_t error = cudaSetDevice(ordinal);
  const auto read = [&](cudaDeviceAttr attribute) {
    int value = 0;
    if (error == cudaSuccess) {
      error = cudaDeviceGetAttribute(&value, attribute, ordinal);
    }
    return value;
  };
  const int major = read(cudaDevAttrComputeCapabilityMajor);
  const int minor = read(cudaDevAttrComputeCapabilityMinor);
  options->sm = 10 * major + minor;
  options->multiprocessors = read(cudaDevAttrMultiProcessorCount);
  return int(error);
}

}  // namespace kbd
