// SPDX-License-Identifier: Apache-2.0
//
// Which GPU a chain is for. Neither TensorFlow nor CUDA is needed to include this.
#ifndef KBD_CUDA_DEVICE_H_
#define KBD_CUDA_DEVICE_H_

#include "cuda/chain.h"

namespace kbd {

// Makes a device the one that the calling thread launches on, and fills in what the options say of
// it. Returns 0, or a code that gpu_error explains.
int use_device(int ordinal, GpuOptions* options);

}  // namespace kbd

#endif  // KBD_CUDA_DEVICE_H_
