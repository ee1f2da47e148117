// SPDX-License-Identifier: Apache-2.0
//
// The matrix product of float32 by fused multiply-adds.
#include "cuda/gemm.cuh"

namespace kbd {

template cudaError_t launch_gemm<float, Math::kFma>(GpuTile, const GemmParams<float>&, int64_t,
                                                    int64_t, cudaStream_t);

}  // namespace kbd
