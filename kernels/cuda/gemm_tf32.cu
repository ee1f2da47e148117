// SPDX-License-Identifier: Apache-2.0
//
// The matrix product of float32 through tensor cores as TF32.
#include "cuda/gemm.cuh"

namespace kbd {

template cudaError_t launch_gemm<float, Math::kTf32>(GpuTile, const GemmParams<float>&, int64_t,
                                                     int64_t, cudaStream_t);

}  // namespace kbd
