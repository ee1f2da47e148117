// SPDX-License-Identifier: Apache-2.0
//
// The matrix product of bfloat16 through tensor cores.
#include "cuda/gemm.cuh"

namespace kbd {

template cudaError_t launch_gemm<Bfloat16, Math::kMma>(GpuTile, const GemmParams<Bfloat16>&,
                                                       int64_t, int64_t, cudaStream_t);

}  // namespace kbd
