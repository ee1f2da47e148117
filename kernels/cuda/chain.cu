// SPDX-License-Identifier: Apache-2.0
//
// A dropout chain as launches: for every block of samples, the lists of kept units, then step by
// step a matrix product and, after it, perhaps a softmax. Activations go back and forth between two
// buffers; what is cut out of a network never takes part.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cuda/chain.h"
#include "cuda/compact.cuh"
#include "cuda/gemm.h"
#include "cuda/heuristics.h"
#include "cuda/params.h"
#include "cuda/platform.h"
#include "cuda/softmax.cuh"

namespace kbd {
namespace {

constexpr int kWorkspaceTooSmall = -1;

bool is_aligned(const void* pointer, size_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

// Hands out pieces of the workspace.
class Pieces {
 public:
  Pieces(void* memory, size_t bytes)
      : next_(reinterpret_cast<uintptr_t>(memory)), end_(next_ + bytes) {}

  template <class U>
  U* take(int64_t count) {
    next_ = uintptr_t(round_up(int64_t(next_), WorkspaceLayout::kAlign));
    U* piece = reinterpret_cast<U*>(next_);
    next_ += size_t(count) * sizeof(U);
    return piece;
  }
  bool enough() const { return next_ <= end_; }

 private:
  uintptr_t next_;
  uintptr_t end_;
};

template <class T>
class GpuRunner {
 public:
  GpuRunner(const Chain<T>& chain, const GpuOptions& options, cudaStream_t stream)
      : chain_(chain),
        options_(options),
        way_(choose_way(chain, options)),
        layout_(plan_workspace(chain, options, way_)),
        vectors_(chain.rows * chain.entries),
        stream_(stream) {}

  int run(void* workspace, size_t bytes) {
    Pieces pieces(workspace, bytes);
    for (int l = 0; l < chain_.num_steps; ++l) {
      KeptLists lists{};
      if (plan_step(chain_, way_, l).cuts_rows) {
        lists.stride = chain_.steps[l].in;
        // Never null, though the site may have no units.
        lists.index = pieces.take<int32_t>(layout_.samples * lists.stride);
        lists.count = pieces.take<int32_t>(layout_.samples);
      }
      kept_.push_back(lists);
    }
    for (T*& buffer : buffers_) {
      buffer = pieces.take<T>(layout_.samples * layout_.buffer / int64_t(sizeof(T)));
    }
    logits_ = pieces.take<float>(layout_.samples * layout_.logits / 4);
    if (!pieces.enough()) {
      return kWorkspaceTooSmall;
    }
    for (int64_t first = 0; first < chain_.num_samples; first += layout_.samples) {
      const int status = run_block(first, std::min(layout_.samples, chain_.num_samples - first));
      if (status != cudaSuccess) {
        return status;
      }
    }
    return cudaSuccess;
  }

 private:
  int run_block(int64_t first, int64_t samples) {
    int status = list_kept(first, samples);
    for (int l = 0; l < chain_.num_steps && status == cudaSuccess; ++l) {
      if (chain_.steps[l].out == 0) {
        continue;
      }
      const GemmParams<T> p = params_of(l, first, samples);
      const StepPlan plan = plan_step(chain_, way_, l);
      const double kept = plan.cuts_columns ? kept_fraction(chain_, l + 1) : 1.0;
      status = multiply(p, int64_t(kept * double(p.out)), plan.samples_apart ? samples : 1);
      if (status == cudaSuccess && chain_.steps[l].activation == Activation::kSoftmax) {
        status = normalize(p, samples);
      }
    }
    return status;
  }

  // Lists the kept units of all sites that are cut.
  int list_kept(int64_t first, int64_t samples) {
    CompactParams p{};
    p.seed = chain_.seed;
    p.first_sample = uint64_t(chain_.first_sample + first);
    p.balanced = chain_.balanced;
    unsigned count = 0;
    for (int l = 0; l < chain_.num_steps; ++l) {
      const Step<T>& step = chain_.steps[l];
      if (kept_[size_t(l)].index) {
        p.sites[count++] = {step.site, step.threshold, int32_t(step.in), kept_[size_t(l)]};
      }
      if (count == kMostSites || (count > 0 && l + 1 == chain_.num_steps)) {
        const int status = launch(compact_kernel, dim3(unsigned(samples), count), kCompactThreads,
                                  kCompactSharedBytes, stream_, p);
        if (status != cudaSuccess) {
          return status;
        }
        count = 0;
      }
    }
    return cudaSuccess;
  }

  GemmParams<T> params_of(int l, int64_t first, int64_t samples) {
    const Step<T>& step = chain_.steps[l];
    const StepPlan plan = plan_step(chain_, way_, l);
    constexpr int64_t kVector = 16 / int64_t(sizeof(T));
    const bool is_last = l + 1 == chain_.num_steps;
    GemmParams<T> p{};
    p.in = int32_t(step.in);
    p.out = int32_t(step.out);
    p.vectors = vectors_;
    p.grid_rows = plan.samples_apart ? vectors_ : samples * vectors_;

    p.a_vector_stride = l == 0 ? step.in : padded_width<T>(step.in);
    p.a_sample_stride = l > 0 || chain_.x_per_sample ? vectors_ * p.a_vector_stride : 0;
    p.a = l == 0 ? chain_.x + first * p.a_sample_stride : buffers_[(l + 1) % 2];
    p.a_gathered = plan.cuts_rows && !plan.a_compact;
    p.a_vector = !p.a_gathered && p.a_vector_stride % kVector == 0 && is_aligned(p.a, 16);

    p.w = step.kernel;
    p.w_vector = step.out % kVector == 0 && is_aligned(step.kernel, 16);
    p.bias = step.bias;
    if (plan.cuts_rows) {
      p.rows = kept_[size_t(l)];
    }
    if (plan.cuts_columns) {
      p.columns = kept_[size_t(l) + 1];
    }

    p.d_stride = is_last ? step.out : padded_width<T>(step.out);
    p.d = is_last ? chain_.out + first * vectors_ * step.out : buffers_[l % 2];
    p.d_padded = !is_last;
    p.d_vector = p.d_stride % 4 == 0 && is_aligned(p.d, 4 * sizeof(T));
    const bool is_softmax = step.activation == Activation::kSoftmax;
    p.logits = is_softmax && sizeof(T) == 2 ? logits_ : nullptr;
    p.activation = is_softmax ? Activation::kLinear : step.activation;
    p.scale = step.noise == Noise::kBernoulli ? float(step.scale) : 1.f;

    if (plan.makes_noise) {
      p.noise.noise = step.noise;
      p.noise.threshold = step.threshold;
      p.noise.deviation = float(step.scale);
      p.noise.seed = chain_.seed;
      p.noise.site = step.site;
      p.noise.units = step.per_entry ? chain_.entries * step.in : step.in;
      p.noise.in = step.in;
      p.noise.entries = chain_.entries;
      p.noise.first_sample = uint64_t(chain_.first_sample + first);
      p.noise.first_row = uint64_t(chain_.first_row);
      p.noise.shared = chain_.shared;
      p.noise.balanced = chain_.balanced;
      p.noise.per_entry = step.per_entry;
    }
    return p;
  }

  // `columns` is about how many there will be.
  int multiply(const GemmParams<T>& p, int64_t columns, int64_t samples) {
    const GpuTile tile =
        choose_tile(options_, p.grid_rows, columns, samples, p.noise.noise != Noise::kNone);
    const int64_t most = options_.most_blocks;
    if constexpr (!std::is_same_v<T, float>) {
      return launch_gemm<T, Math::kMma>(tile, p, samples, most, stream_);
    } else if (choose_math<T>(options_) == Math::kTf32) {
      return launch_gemm<T, Math::kTf32>(tile, p, samples, most, stream_);
    } else {
      return launch_gemm<T, Math::kFma>(tile, p, samples, most, stream_);
    }
  }

  int normalize(const GemmParams<T>& p, int64_t samples) {
    SoftmaxParams<T> s{};
    if constexpr (sizeof(T) == 4) {
      s.from = p.d;
    } else {
      s.from = p.logits;
    }
    s.to = p.d;
    s.rows = samples * vectors_;
    s.stride = p.d_stride;
    s.columns = p.out;
    s.padded = p.d_padded ? int32_t(p.d_stride) : p.out;
    const int64_t blocks = ceil_div(s.rows, kSoftmaxRows);
    if (blocks > 2147483647) {
      return cudaErrorInvalidConfiguration;
    }
    return launch(softmax_kernel<T>, unsigned(blocks), kSoftmaxThreads, 0, stream_, s);
  }

  const Chain<T>& chain_;
  const GpuOptions& options_;
  const GpuWay way_;
  const WorkspaceLayout layout_;
  const int64_t vectors_;
  const cudaStream_t stream_;
  std::vector<KeptLists> kept_;  // per step; index is null where nothing is cut
  T* buffers_[2] = {};
  float* logits_ = nullptr;
};

template <class T>
bool is_empty(const Chain<T>& chain) {
  return chain.rows == 0 || chain.entries == 0 || chain.num_samples == 0 || chain.num_steps == 0 ||
         chain.steps[chain.num_steps - 1].out == 0;
}

}  // namespace

template <class T>
size_t workspace_bytes(const Chain<T>& chain, const GpuOptions& options) {
  if (is_empty(chain)) {
    return 0;
  }
  return size_t(plan_workspace(chain, options, choose_way(chain, options)).bytes);
}

template <class T>
int run_chain_gpu(const Chain<T>& chain, const GpuOptions& options, void* workspace, size_t bytes,
                  void* stream) {
  if (is_empty(chain)) {
    return cudaSuccess;
  }
  return GpuRunner<T>(chain, options, static_cast<cudaStream_t>(stream)).run(workspace, bytes);
}

const char* gpu_error(int code) {
  return code == kWorkspaceTooSmall ? "the workspace is smaller than workspace_bytes"
                                    : cudaGetErrorString(cudaError_t(code));
}

#define KBD_INSTANTIATE(T)                                                \
  template size_t workspace_bytes<T>(const Chain<T>&, const GpuOptions&); \
  template int run_chain_gpu<T>(const Chain<T>&, const GpuOptions&, void*, size_t, void*)
KBD_INSTANTIATE(float);
KBD_INSTANTIATE(Half);
KBD_INSTANTIATE(Bfloat16);

}  // namespace kbd
