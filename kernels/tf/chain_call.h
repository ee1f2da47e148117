// SPDX-License-Identifier: Apache-2.0
//
// From the tensors and attributes of `KerasBayesdrop>DropoutChain` to the plain structs of
// kbd/chain.h, every shape checked. The same for every device.
#ifndef KBD_TF_CHAIN_CALL_H_
#define KBD_TF_CHAIN_CALL_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kbd/balanced.h"
#include "kbd/chain.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace kbd {

// The attributes.
struct ChainSettings {
  std::vector<bool> has_bias;
  std::vector<bool> per_entry;
  std::vector<bool> has_table;
  std::vector<Noise> noise;
  std::vector<Activation> activations;
  bool shared = true;
  bool balanced = false;
  bool x_per_sample = false;

  int num_steps() const { return int(has_bias.size()); }
  absl::Status read(tensorflow::OpKernelConstruction* ctx);
};

// Refuses a call in three beats: what is wrong, what was expected, what was received.
template <class... Args>
absl::Status refuse(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("DropoutChain: ", args...));
}

// The numbers of a tensor. T is the type of kbd that lies in memory as the tensor's own does.
template <class T>
T* data_of(const tensorflow::Tensor& tensor) {
  return static_cast<T*>(tensor.data());
}

// One call, checked. Keeps the input tensors alive.
template <class T>
struct ChainCall {
  tensorflow::TensorShape output_shape;

  absl::Status read(tensorflow::OpKernelContext* ctx, const ChainSettings& settings);
  // The chain without its output.
  Chain<T> chain() const {
    Chain<T> result = chain_;
    result.steps = steps_.data();
    return result;
  }

 private:
  absl::Status read_steps(const tensorflow::OpInputList& kernels,
                          const tensorflow::OpInputList& biases,
                          const tensorflow::OpInputList& tables, const ChainSettings& settings,
                          int64_t width);
  absl::Status read_table(const tensorflow::Tensor& table, int number, Step<T>* step);
  absl::Status read_sizes(const tensorflow::Tensor& x, const ChainSettings& settings,
                          int64_t num_samples);

  Chain<T> chain_{};
  std::vector<Step<T>> steps_;
};

inline absl::Status ChainSettings::read(tensorflow::OpKernelConstruction* ctx) {
  // In the order of the enumerations. A table is Bernoulli noise with masks of its own.
  static const char* const kNoises[] = {"none", "bernoulli", "gaussian", "table"};
  constexpr int kTable = 3;
  static const char* const kActivations[] = {"linear",  "relu",     "sigmoid",   "tanh",
                                             "softmax", "elu",      "selu",      "gelu",
                                             "silu",    "softplus", "leaky_relu"};
  static_assert(sizeof(kActivations) / sizeof(kActivations[0]) == kNumActivations, "a name each");
  int steps, num_biases, num_tables;
  std::string masks, draws;
  std::vector<std::string> noise_names, activation_names;
  TF_RETURN_IF_ERROR(ctx->GetAttr("L", &steps));
  TF_RETURN_IF_ERROR(ctx->GetAttr("M", &num_biases));
  TF_RETURN_IF_ERROR(ctx->GetAttr("K", &num_tables));
  TF_RETURN_IF_ERROR(ctx->GetAttr("has_bias", &has_bias));
  TF_RETURN_IF_ERROR(ctx->GetAttr("per_entry", &per_entry));
  TF_RETURN_IF_ERROR(ctx->GetAttr("noise", &noise_names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("activations", &activation_names));
  TF_RETURN_IF_ERROR(ctx->GetAttr("masks", &masks));
  TF_RETURN_IF_ERROR(ctx->GetAttr("x_per_sample", &x_per_sample));
  TF_RETURN_IF_ERROR(ctx->GetAttr("draws", &draws));
  shared = masks == "shared";
  balanced = draws == "balanced";
  const size_t wanted = size_t(steps);
  for (const auto& [name, size] : {std::pair<const char*, size_t>{"has_bias", has_bias.size()},
                                   {"per_entry", per_entry.size()},
                                   {"noise", noise_names.size()},
                                   {"activations", activation_names.size()}}) {
    if (size != wanted) {
      return refuse("attribute `", name, "` has the wrong length. Expected one entry per kernel, ",
                    wanted, ". Received: ", size);
    }
  }
  int biased = 0;
  for (bool has : has_bias) {
    biased += has;
  }
  if (biased != num_biases) {
    return refuse("the biases do not fit `has_bias`. Expected ", biased,
                  " biases. Received: ", num_biases);
  }
  for (const std::string& name : noise_names) {
    int number = 0;
    while (name != kNoises[number]) {
      ++number;  // TensorFlow has checked the name.
    }
    has_table.push_back(number == kTable);
    noise.push_back(number == kTable ? Noise::kBernoulli : Noise(number));
  }
  int with_table = 0;
  for (bool has : has_table) {
    with_table += has;
  }
  if (with_table != num_tables) {
    return refuse("the tables do not fit `noise`. Expected ", with_table,
                  " tables. Received: ", num_tables);
  }
  for (const std::string& name : activation_names) {
    int number = 0;
    while (name != kActivations[number]) {
      ++number;
    }
    activations.push_back(Activation(number));
  }
  return absl::OkStatus();
}

template <class T>
absl::Status ChainCall<T>::read(tensorflow::OpKernelContext* ctx, const ChainSettings& settings) {
  using tensorflow::OpInputList;
  using tensorflow::Tensor;
  const Tensor *x, *seed, *thresholds, *scales, *sites, *first_sample, *num_samples, *first_row;
  OpInputList kernels, biases, tables;
  TF_RETURN_IF_ERROR(ctx->input("x", &x));
  TF_RETURN_IF_ERROR(ctx->input_list("kernels", &kernels));
  TF_RETURN_IF_ERROR(ctx->input_list("biases", &biases));
  TF_RETURN_IF_ERROR(ctx->input_list("tables", &tables));
  const struct {
    const char* name;
    const Tensor** tensor;
    bool scalar;
  } small[] = {{"seed", &seed, true},
               {"thresholds", &thresholds, false},
               {"scales", &scales, false},
               {"sites", &sites, false},
               {"first_sample", &first_sample, true},
               {"num_samples", &num_samples, true},
               {"first_row", &first_row, true}};
  for (const auto& input : small) {
    TF_RETURN_IF_ERROR(ctx->input(input.name, input.tensor));
    const tensorflow::TensorShape& shape = (*input.tensor)->shape();
    const bool fits = input.scalar ? shape.dims() == 0
                                   : shape.dims() == 1 && shape.dim_size(0) == settings.num_steps();
    if (!fits) {
      return refuse("`", input.name, "` has the wrong shape. Expected ",
                    input.scalar
                        ? "a scalar"
                        : "one entry per kernel, [" + std::to_string(settings.num_steps()) + "]",
                    ". Received: ", shape.DebugString());
    }
  }
  chain_.seed = seed->scalar<uint64_t>()();
  chain_.first_sample = first_sample->scalar<int64_t>()();
  chain_.num_samples = num_samples->scalar<int64_t>()();
  chain_.first_row = first_row->scalar<int64_t>()();
  chain_.shared = settings.shared;
  chain_.balanced = settings.balanced;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 64;
  for (const auto& [name, value] :
       {std::pair<const char*, int64_t>{"first_sample", chain_.first_sample},
        {"num_samples", chain_.num_samples},
        {"first_row", chain_.first_row}}) {
    if (value < 0 || value > kMost) {
      return refuse("`", name, "` is out of range. Expected 0 to ", kMost, ". Received: ", value);
    }
  }
  steps_.resize(size_t(settings.num_steps()));
  for (size_t l = 0; l < steps_.size(); ++l) {
    steps_[l].threshold = thresholds->flat<uint32_t>()(int64_t(l));
    steps_[l].scale = scales->flat<double>()(int64_t(l));
    steps_[l].site = sites->flat<uint32_t>()(int64_t(l));
    if (settings.balanced && steps_[l].site >= kOrderSites) {
      return refuse("site ", steps_[l].site, " has no counters for the orders of balanced draws. ",
                    "Expected a number below ", kOrderSites, ". Received: ", steps_[l].site);
    }
  }
  TF_RETURN_IF_ERROR(read_sizes(*x, settings, chain_.num_samples));
  return read_steps(kernels, biases, tables, settings, x->dim_size(x->dims() - 1));
}

template <class T>
absl::Status ChainCall<T>::read_sizes(const tensorflow::Tensor& x, const ChainSettings& settings,
                                      int64_t num_samples) {
  const int lead = settings.x_per_sample ? 1 : 0;
  if (x.dims() != lead + 2 && x.dims() != lead + 3) {
    return refuse("`x` has the wrong rank. Expected [",
                  lead ? "samples, rows, k] or [samples, rows, entries, k]"
                       : "rows, k] or [rows, entries, k]",
                  ". Received: ", x.shape().DebugString());
  }
  if (lead && x.dim_size(0) != num_samples) {
    return refuse("`x` has the wrong number of samples. Expected ", num_samples,
                  ". Received: ", x.shape().DebugString());
  }
  chain_.x = data_of<T>(x);
  chain_.x_per_sample = settings.x_per_sample;
  chain_.rows = x.dim_size(lead);
  chain_.entries = x.dims() == lead + 3 ? x.dim_size(lead + 1) : 1;
  TF_RETURN_IF_ERROR(output_shape.AddDimWithStatus(num_samples));
  for (int axis = lead; axis + 1 < x.dims(); ++axis) {
    TF_RETURN_IF_ERROR(output_shape.AddDimWithStatus(x.dim_size(axis)));
  }
  return absl::OkStatus();
}

template <class T>
absl::Status ChainCall<T>::read_steps(const tensorflow::OpInputList& kernels,
                                      const tensorflow::OpInputList& biases,
                                      const tensorflow::OpInputList& tables,
                                      const ChainSettings& settings, int64_t width) {
  // Units are numbered by 32-bit integers inside.
  constexpr int64_t kMostUnits = std::numeric_limits<int32_t>::max() / 4;
  int next_bias = 0, next_table = 0;
  for (int l = 0; l < settings.num_steps(); ++l) {
    const size_t at = size_t(l);
    const tensorflow::Tensor& kernel = kernels[l];
    if (kernel.dims() != 2 || kernel.dim_size(0) != width) {
      return refuse("kernel ", l, " has the wrong shape. Expected [", width,
                    ", units]. Received: ", kernel.shape().DebugString());
    }
    Step<T>& step = steps_[at];
    step.in = width;
    step.out = width = kernel.dim_size(1);
    if (step.in > kMostUnits || step.out > kMostUnits) {
      return refuse("kernel ", l, " is too large. Expected at most ", kMostUnits,
                    " units. Received: ", kernel.shape().DebugString());
    }
    step.kernel = data_of<T>(kernel);
    step.bias = nullptr;
    if (settings.has_bias[at]) {
      const tensorflow::Tensor& bias = biases[next_bias++];
      if (bias.dims() != 1 || bias.dim_size(0) != width) {
        return refuse("the bias of kernel ", l, " has the wrong shape. Expected [", width,
                      "]. Received: ", bias.shape().DebugString());
      }
      step.bias = data_of<T>(bias);
    }
    step.activation = settings.activations[at];
    step.noise = settings.noise[at];
    step.per_entry = settings.per_entry[at];
    if (settings.has_table[at]) {
      TF_RETURN_IF_ERROR(read_table(tables[next_table++], l, &step));
    }
  }
  chain_.num_steps = settings.num_steps();
  return output_shape.AddDimWithStatus(width);
}

template <class T>
absl::Status ChainCall<T>::read_table(const tensorflow::Tensor& table, int number, Step<T>* step) {
  if (table.dims() != 2 || table.dim_size(0) < 1 || table.dim_size(1) != step->in) {
    return refuse("the table of kernel ", number, " has the wrong shape. Expected [masks, ",
                  step->in, "] with at least one mask. Received: ", table.shape().DebugString());
  }
  if (step->threshold == 0) {
    return refuse("the threshold of kernel ", number,
                  " does not fit its table. Expected at least 1. Received: 0");
  }
  step->table = data_of<const uint8_t>(table);
  step->num_masks = table.dim_size(0);
  return absl::OkStatus();
}

// The op on some device: what all have in common.
template <class T>
class ChainKernel : public tensorflow::OpKernel {
 public:
  explicit ChainKernel(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, settings_.read(ctx));
  }

  void Compute(tensorflow::OpKernelContext* ctx) final {
    ChainCall<T> call;
    OP_REQUIRES_OK(ctx, call.read(ctx, settings_));
    tensorflow::Tensor* y = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, call.output_shape, &y));
    if (y->NumElements() == 0) {
      return;
    }
    Chain<T> chain = call.chain();
    chain.out = data_of<T>(*y);
    OP_REQUIRES_OK(ctx, run(ctx, chain));
  }

 private:
  // Runs a chain that has been checked, and has something to compute.
  virtual absl::Status run(tensorflow::OpKernelContext* ctx, const Chain<T>& chain) = 0;

  ChainSettings settings_;
};

}  // namespace kbd

#endif  // KBD_TF_CHAIN_CALL_H_
