// SPDX-License-Identifier: Apache-2.0
//
// The launchers of the matrix product. Each is compiled in a file of its own.
#ifndef KBD_CUDA_GEMM_H_
#define KBD_CUDA_GEMM_H_

#include "cuda/params.h"
#include "cuda/platform.h"
#include "cuda/traits.h"

namespace kbd {

// One step of `samples` samples (z of the grid). No more than `most_blocks` along y and z.
template <class T, Math kMath>
cudaError_t launch_gemm(GpuTile tile, const GemmParams<T>& p, int64_t samples, int64_t most_blocks,
                        cudaStream_t stream);

extern template cudaError_t launch_gemm<float, Math::kFma>(GpuTile, const GemmParams<float>&,
                                                           int64_t, int64_t, cudaStream_t);
extern template cudaError_t launch_gemm<float, Math::kTf32>(GpuTile, const GemmParams<float>&,
                                                            int64_t, int64_t, cudaStream_t);
extern template cudaError_t launch_gemm<Half, Math::kMma>(GpuTile, const GemmParams<Half>&, int64_t,
                                                          int64_t, cudaStream_t);
extern template cudaError_t launch_gemm<Bfloat16, Math::kMma>(GpuTile, const GemmParams<Bfloat16>&,
                                                              int64_t, int64_t, cudaStream_t);

}  // namespace kbd

#endif  // KBD_CUDA_GEMM_H_
