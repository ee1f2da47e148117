// SPDX-License-Identifier: Apache-2.0
//
// The matrix product of float16 through tensor cores.
#include "cuda/gemm.cuh"

namespace kbd {

template cudaError_t launch_gemm<Half, Math::kMma>(GpuTile, const GemmParams<Half>&, int64_t,
                                                   int64_t, cudaStream_t);

}  // namespace kbd
