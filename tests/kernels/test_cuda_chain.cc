// SPDX-License-Identifier: Apache-2.0
//
// The CUDA kernels of a chain, run on the CPU (cuda_on_cpu), against plain loops: every arithmetic,
// every tile, all noises, odd sizes. Masks to the bit; outputs by the error that a plain loop of
// the same precision makes; and nothing that the emulator finds fault with.
//
// With an argument, fewer cases, until the first failure: enough to find a defect.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "check.h"
#include "cuda/chain.h"
#include "cuda/platform.h"
#include "cuda/ptx.h"
#include "network.h"

namespace {

using kbd::Bfloat16;
using kbd::GpuOptions;
using kbd::GpuTile;
using kbd::GpuWay;
using kbd::Half;

bool brief = false;

// A number type and how its products are made.
struct Fma {
  using T = float;
  static constexpr const char* kName = "float32";
  static constexpr double kEpsilon = 0x1p-23;
  static constexpr bool kTf32 = false;
};
struct Tf32 {
  using T = float;
  static constexpr const char* kName = "TF32";
  static constexpr double kEpsilon = 0x1p-10;
  static constexpr bool kTf32 = true;
};
struct F16 {
  using T = Half;
  static constexpr const char* kName = "float16";
  static constexpr double kEpsilon = 0x1p-10;
  static constexpr bool kTf32 = false;
};
struct Bf16 {
  using T = Bfloat16;
  static constexpr const char* kName = "bfloat16";
  static constexpr double kEpsilon = 0x1p-7;
  static constexpr bool kTf32 = false;
};

template <class T>
T number(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return {__half_as_ushort(__float2half_rn(float(value)))};
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(float(value)))};
  } else {
    return float(value);
  }
}
template <class T>
float value_of(T number) {
  if constexpr (std::is_same_v<T, Half>) {
    return __half2float(__ushort_as_half(number.bits));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return __bfloat162float(__ushort_as_bfloat16(number.bits));
  } else {
    return number;
  }
}

// As it is stored, and as it is multiplied.
template <class Kind>
double stored(double value) {
  return double(value_of(number<typename Kind::T>(value)));
}
template <class Kind>
double multiplied(double value) {
  const double v = stored<Kind>(value);
  return Kind::kTf32 ? double(__uint_as_float(kbd::to_tf32(float(v)))) : v;
}

bool expect(bool fine, const char* what) {
  if (!check(fine, what) && brief) {
    std::exit(report());
  }
  return fine;
}

// Device memory that ends where its contents end, `skipped` numbers after an aligned address.
template <class T>
std::vector<T> upload(const float* from, size_t size, size_t skipped) {
  std::vector<T> to(size + skipped);
  for (size_t i = 0; i < size; ++i) {
    to[i + skipped] = number<T>(double(from[i]));
  }
  return to;
}

struct Part {
  int64_t row = 0, rows = -1;        // all from `row` on
  int64_t sample = 0, samples = -1;  // all from `sample` on
  size_t skipped = 0;
};

template <class Kind>
std::vector<float> run(const Network<float>& network, GpuOptions options, const Part& part = {}) {
  using T = typename Kind::T;
  const Shape& shape = network.shape;
  const int64_t rows = part.rows < 0 ? shape.rows - part.row : part.rows;
  const int64_t samples = part.samples < 0 ? shape.samples - part.sample : part.samples;
  const int64_t row_size = shape.entries * shape.widths[0];
  std::vector<float> x;
  for (int64_t s = 0; s < (shape.x_per_sample ? samples : 1); ++s) {
    const int64_t of_sample = shape.x_per_sample ? (part.sample + s) * shape.rows : 0;
    const auto begin = network.x.begin() + (of_sample + part.row) * row_size;
    x.insert(x.end(), begin, begin + rows * row_size);
  }
  const size_t skipped = part.skipped;
  const std::vector<T> device_x = upload<T>(x.data(), x.size(), skipped);
  std::vector<std::vector<T>> memory;
  std::vector<Step<T>> steps;
  for (size_t l = 0; l < network.steps.size(); ++l) {
    const Step<float>& from = network.steps[l];
    memory.push_back(upload<T>(from.kernel, size_t(from.in * from.out), skipped));
    Step<T> step{};
    step.kernel = memory.back().data() + skipped;
    if (from.bias) {
      memory.push_back(upload<T>(from.bias, size_t(from.out), skipped));
      step.bias = memory.back().data() + skipped;
    }
    step.in = from.in, step.out = from.out;
    step.activation = from.activation, step.noise = from.noise;
    step.threshold = from.threshold, step.scale = from.scale;
    step.site = from.site, step.per_entry = from.per_entry;
    steps.push_back(step);
  }
  const size_t size = size_t(samples * rows * shape.entries * network.out());
  std::vector<T> out(size + skipped, number<T>(-77));
  Chain<T> chain{};
  chain.x = device_x.data() + skipped;
  chain.x_per_sample = shape.x_per_sample;
  chain.rows = rows;
  chain.entries = shape.entries;
  chain.steps = steps.data();
  chain.num_steps = int(steps.size());
  chain.seed = kSeed;
  chain.first_sample = shape.first_sample + part.sample;
  chain.num_samples = samples;
  chain.first_row = shape.first_row + part.row;
  chain.shared = shape.shared;
  chain.balanced = shape.balanced;
  chain.out = out.data() + skipped;

  options.allow_tf32 = Kind::kTf32;
  const size_t bytes = kbd::workspace_bytes(chain, options);
  // Rubbish that would show: not a number in any type.
  std::vector<uint64_t> workspace(bytes / 8 + 1, ~uint64_t(0));
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const int status = kbd::run_chain_gpu(chain, options, workspace.data(), bytes, stream);
  cudaStreamDestroy(stream);
  if (!expect(status == 0, "status")) {
    std::printf("  %s\n", kbd::gpu_error(status));
  }
  expect(cuda_on_cpu::record().total() == 0, "the emulator found a fault");
  cuda_on_cpu::record().clear();
  std::vector<float> result;
  for (size_t i = 0; i < size; ++i) {
    result.push_back(value_of(out[i + skipped]));
  }
  return result;
}

// The definition with the roundings of a kind: to what is stored, and to what is multiplied. Sums
// are exact, unless they are to be added up in float.
template <class Kind>
std::vector<double> rounded_reference(const Network<float>& network, bool sum_in_float) {
  const Shape& shape = network.shape;
  std::vector<double> result;
  for (int64_t s = 0; s < shape.samples; ++s) {
    for (int64_t v = 0; v < network.vectors(); ++v) {
      const int64_t of_sample = shape.x_per_sample ? s * network.vectors() : 0;
      const float* x = network.x.data() + (of_sample + v) * shape.widths[0];
      std::vector<double> h(x, x + shape.widths[0]);
      for (const Step<float>& step : network.steps) {
        const int64_t row = v / shape.entries, entry = v % shape.entries;
        const int64_t units = step.per_entry ? shape.entries * step.in : step.in;
        std::vector<double> sum(size_t(step.out));
        for (int64_t k = 0; k < step.in; ++k) {
          const int64_t unit = step.per_entry ? entry * step.in + k : k;
          const uint32_t word = kbd::word_of(kSeed, step.site, uint64_t(shape.first_sample + s),
                                             shape.shared ? 0 : uint64_t(shape.first_row + row),
                                             units, unit, shape.balanced);
          double a = h[size_t(k)];
          if (step.noise == Noise::kBernoulli) {
            a = word >= step.threshold ? a : 0;
          } else if (step.noise == Noise::kGaussian) {
            a *= 1 + step.scale * kbd::normal_of_word<double>(word);
          }
          a = multiplied<Kind>(a);
          for (int64_t n = 0; n < step.out; ++n) {
            double& to = sum[size_t(n)];
            to += a * multiplied<Kind>(double(step.kernel[k * step.out + n]));
            to = sum_in_float ? double(float(to)) : to;
          }
        }
        const double scale = step.noise == Noise::kBernoulli ? step.scale : 1;
        for (int64_t n = 0; n < step.out; ++n) {
          sum[size_t(n)] = sum[size_t(n)] * scale + (step.bias ? double(step.bias[n]) : 0.0);
        }
        kbd::apply_activation(step.activation, step.out, sum.data());
        for (double& value : sum) {
          value = stored<Kind>(value);
        }
        h = sum;
      }
      result.insert(result.end(), h.begin(), h.end());
    }
  }
  return result;
}

template <class A, class B>
double rms(const std::vector<A>& a, const std::vector<B>& b) {
  double sum = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    sum += std::pow(double(a[i]) - double(b[i]), 2);
  }
  return std::sqrt(sum / double(std::max<size_t>(a.size(), 1)));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::vector<float> part_of(const Network<float>& network, const std::vector<float>& whole,
                           const Part& part) {
  const int64_t size = network.shape.entries * network.out();
  std::vector<float> result;
  for (int64_t s = part.sample; s < part.sample + part.samples; ++s) {
    const auto begin = whole.begin() + (s * network.shape.rows + part.row) * size;
    result.insert(result.end(), begin, begin + part.rows * size);
  }
  return result;
}

// Makes a network's numbers such as the kind can store.
template <class Kind>
void round_network(Network<float>* network) {
  const auto round = [](std::vector<float>* values) {
    for (float& value : *values) {
      value = float(stored<Kind>(double(value)));
    }
  };
  round(&network->x);
  for (size_t l = 0; l < network->steps.size(); ++l) {
    round(&network->kernels[l]);
    round(&network->biases[l]);
  }
}

constexpr GpuTile kTiles[] = {GpuTile::kLarge, GpuTile::kMedium, GpuTile::kSmall};

// Checks a network, whose numbers are rounded first. The error is at most twice that of a plain
// loop of the same precision; where both are near zero, a few units of the largest value are
// allowed. What differs from a loop with the same roundings is far less, for only a sum on the
// border between two numbers rounds otherwise.
template <class Kind>
void compare(Network<float> network, const char* what, std::vector<GpuTile> tiles,
             bool parts = true) {
  // The steps point to the numbers of the network that was copied.
  for (size_t l = 0; l < network.steps.size(); ++l) {
    network.steps[l].kernel = network.kernels[l].data();
    network.steps[l].bias = network.steps[l].bias ? network.biases[l].data() : nullptr;
  }
  round_network<Kind>(&network);
  const std::vector<double> truth = network.reference<double>();
  const bool is_float = std::is_same_v<Kind, Fma>;
  const std::vector<double> plain = is_float ? [&] {
    const std::vector<float> loop = network.reference<float>();
    return std::vector<double>(loop.begin(), loop.end());
  }()
                                             : rounded_reference<Kind>(network, true);
  const std::vector<double> exact = rounded_reference<Kind>(network, false);
  double largest = 1;
  for (double value : truth) {
    largest = std::max(largest, std::fabs(value));
  }
  const double allowed = 2 * rms(plain, truth) + Kind::kEpsilon * largest;
  const double usual = rms(exact, truth) / 3 + 8 * 0x1p-23 * largest;
  std::vector<float> first;
  GpuOptions options;
  for (GpuTile tile : tiles) {
    options.tile = tile;
    for (GpuWay way : {GpuWay::kCut, GpuWay::kMasked}) {
      if (way == GpuWay::kMasked && !network.shape.shared) {
        continue;  // The same.
      }
      options.way = way;
      const std::vector<float> values = run<Kind>(network, options);
      const double error = rms(values, truth), difference = rms(values, exact);
      if (!expect(error <= allowed && (is_float || values.size() < 50 || difference <= usual),
                  what)) {
        std::printf("  %s: tile %d, way %d: error %g, allowed %g; difference %g, usual %g\n",
                    Kind::kName, int(tile), int(way), error, allowed, difference, usual);
      }
      if (first.empty()) {
        first = values;
      } else if (is_float || way == GpuWay::kCut) {
        if (!expect(same_bits(first, values), "the tile or the way changes the result")) {
          std::printf("  %s, %s: tile %d, way %d\n", what, Kind::kName, int(tile), int(way));
        }
      }
    }
  }
  if (!parts || first.empty()) {
    return;
  }
  options.way = is_float ? GpuWay::kAuto : GpuWay::kCut;
  options.tile = GpuTile::kAuto;
  const int64_t rows = network.shape.rows, samples = network.shape.samples;
  Part one_row{rows / 2, 1, 0, samples, 1};  // and nothing aligned
  expect(same_bits(part_of(network, first, one_row), run<Kind>(network, options, one_row)),
         "the batch changes the result");
  Part some{0, rows, samples / 2, samples - samples / 2, 0};
  expect(same_bits(part_of(network, first, some), run<Kind>(network, options, some)),
         "the samples of a call change the result");
}

int turn = 0;
std::vector<GpuTile> next_tile() { return {kTiles[turn++ % 3]}; }
std::vector<GpuTile> all_tiles() { return {kTiles[0], kTiles[1], kTiles[2]}; }

template <class Kind>
void networks() {
  const auto test = [](const char* what, std::vector<int64_t> widths, int64_t rows, double rate,
                       Noise noise, Activation activation, bool biased = true, bool all = false) {
    Shape shape;
    shape.widths = std::move(widths);
    shape.rows = rows;
    shape.samples = 2;
    for (bool shared : {true, false}) {
      shape.shared = shared;
      shape.balanced = turn % 2 == 0;
      compare<Kind>(Network<float>(shape, rate, noise, activation, biased), what,
                    all ? all_tiles() : next_tile());
    }
  };
  test("all tiles", {41, 68, 140, 5}, 19, 0.4, Noise::kBernoulli, Activation::kRelu, true, true);
  if (brief) {
    return;
  }
  test("more than a tile", {97, 257, 131}, 131, 0.3, Noise::kBernoulli, Activation::kRelu);
  for (int a = 0; a < kbd::kNumActivations; ++a) {
    test("activation", {13, 59, 97, 5}, 7, 0.4, Noise::kBernoulli, Activation(a), a % 2 == 0);
  }
  for (double rate : {0.0, 0.1, 0.999999, 1.0}) {
    test("rate", {59, 33, 1}, 5, rate, Noise::kBernoulli, Activation::kSigmoid);
  }
  for (int64_t size : {1, 3, 16, 59, 64, 97}) {
    test("size", {size, size, 3}, 3, 0.2, Noise::kBernoulli, Activation::kRelu, size % 2 == 0);
  }
  test("one step", {97, 59}, 17, 0.5, Noise::kBernoulli, Activation::kLinear);
  test("four steps", {24, 32, 40, 32, 8}, 5, 0.2, Noise::kBernoulli, Activation::kElu);
  test("gaussian", {21, 34, 5}, 6, 0.3, Noise::kGaussian, Activation::kSilu, true, true);
  test("gaussian", {64, 64, 8}, 21, 0.3, Noise::kGaussian, Activation::kTanh);
  test("many units", {2101, 3}, 2, 0.4, Noise::kBernoulli, Activation::kLinear);
  test("no noise", {21, 34, 8}, 6, 0.3, Noise::kNone, Activation::kGelu, false);
}

// Rows of several entries, with noise of their own or not, at widths that are not multiples of 4.
template <class Kind>
void entries() {
  for (int kind = 0; kind < 8; ++kind) {
    for (Noise noise : {Noise::kBernoulli, Noise::kGaussian}) {
      Shape shape;
      shape.widths = std::vector<int64_t>{13, 19, 23, 6};
      shape.rows = 3;
      shape.entries = 5;
      shape.samples = 2;
      shape.first_row = 1000;
      shape.first_sample = 15;
      shape.shared = kind & 1;
      shape.balanced = kind == 3 || kind == 4 || kind == 6;
      shape.x_per_sample = kind & 2;
      Network<float> network(shape, 0.2, noise, Activation::kRelu);
      network.steps[0].per_entry = kind & 4;
      network.steps[1].noise = noise;
      network.steps[2].per_entry = (kind & 2) == 0;
      compare<Kind>(network, "entries", next_tile(), noise == Noise::kBernoulli);
    }
  }
}

// Steps of different noise and activation follow each other.
template <class Kind>
void mixtures() {
  const Noise noises[][3] = {{Noise::kBernoulli, Noise::kGaussian, Noise::kBernoulli},
                             {Noise::kGaussian, Noise::kBernoulli, Noise::kNone},
                             {Noise::kNone, Noise::kBernoulli, Noise::kBernoulli}};
  for (const auto& noise : noises) {
    Shape shape;
    shape.widths = std::vector<int64_t>{30, 45, 37, 11};
    shape.rows = 9;
    shape.samples = 3;
    Network<float> network(shape, 0.3, Noise::kBernoulli, Activation::kSelu);
    for (size_t l = 0; l < 3; ++l) {
      network.steps[l].noise = noise[l];
      network.steps[l].scale = noise[l] == Noise::kGaussian ? 0.4 : 1 / 0.7;
    }
    network.steps[0].activation = Activation::kSoftmax;
    network.steps[2].activation = Activation::kSoftmax;
    compare<Kind>(network, "mixture", next_tile());
  }
}

// Masks to the bit: kernels that change nothing, and numbers that every kind can store.
template <class Kind>
void masks() {
  for (int kind = 0; kind < 8; ++kind) {
    Shape shape;
    const int64_t units = kind & 2 ? 52 : 35;
    shape.balanced = kind & 4;
    shape.widths = std::vector<int64_t>{units, units, units};
    shape.rows = 3;
    shape.entries = kind & 2 ? 1 : 3;
    shape.samples = 5;
    shape.first_sample = (int64_t(1) << 33) + 14;
    shape.first_row = (int64_t(1) << 32) / 16 / (units / 4) - 1;  // a counter's low half overflows
    shape.shared = kind & 1;
    Network<float> network(shape, 0.3, Noise::kBernoulli, Activation::kLinear, false);
    for (size_t l = 0; l < 2; ++l) {
      network.steps[l].scale = 1;
      network.steps[l].per_entry = l == 1;
      for (int64_t i = 0; i < units * units; ++i) {
        network.kernels[l][size_t(i)] = i / units == i % units ? 1.f : 0.f;
      }
    }
    for (size_t i = 0; i < network.x.size(); ++i) {
      network.x[i] = float(1 + i % 100);
    }
    const std::vector<float> truth = network.reference<float>();
    for (GpuTile tile : kTiles) {
      for (GpuWay way : {GpuWay::kCut, GpuWay::kMasked}) {
        GpuOptions options;
        options.tile = tile;
        options.way = way;
        expect(same_bits(truth, run<Kind>(network, options)), "masks");
      }
    }
  }
}

// More samples and columns than a grid takes, and less memory than a block of samples needs.
template <class Kind>
void limits() {
  for (bool shared : {true, false}) {
    Shape shape;
    shape.widths = std::vector<int64_t>{9, 140, 131};
    shape.rows = 2;
    shape.samples = 23;
    shape.shared = shared;
    const Network<float> network(shape, 0.5, Noise::kBernoulli, Activation::kSoftmax);
    GpuOptions options;
    options.way = GpuWay::kCut;
    options.tile = GpuTile::kMedium;
    const std::vector<float> whole = run<Kind>(network, options);
    options.most_blocks = 2;
    expect(same_bits(whole, run<Kind>(network, options)), "the grid changes the result");
    options.most_blocks = 65535;
    options.workspace_limit = 1;
    expect(same_bits(whole, run<Kind>(network, options)), "the memory changes the result");
    cuda_on_cpu::options().shuffle_seed = 5;
    options.workspace_limit = 20000;
    expect(same_bits(whole, run<Kind>(network, options)), "the order changes the result");
    cuda_on_cpu::options().shuffle_seed = 0;
  }
}

// Every size zero in turn: nothing is read or written that is not there.
template <class Kind>
void nothing() {
  for (int zero = 0; zero < 6; ++zero) {
    for (bool shared : {true, false}) {
      Shape shape;
      shape.widths = std::vector<int64_t>{5, 6, 3};
      if (zero < 3) {
        shape.widths[size_t(zero)] = 0;
      }
      shape.rows = zero == 3 ? 0 : 2;
      shape.entries = zero == 4 ? 0 : 3;
      shape.samples = zero == 5 ? 0 : 2;
      shape.shared = shared;
      for (Activation activation : {Activation::kRelu, Activation::kSoftmax}) {
        compare<Kind>(Network<float>(shape, 0.2, Noise::kBernoulli, activation), "zero size",
                      next_tile(), false);
      }
    }
  }
}

void refusals() {
  Shape shape;
  shape.widths = std::vector<int64_t>{5, 6, 3};
  const Network<float> network(shape, 0.2, Noise::kBernoulli, Activation::kRelu);
  std::vector<float> out(9, -77.f);
  Chain<float> chain{};
  chain.x = network.x.data();
  chain.rows = chain.entries = 1;
  chain.steps = network.steps.data();
  chain.num_steps = 2;
  chain.num_samples = 3;
  chain.shared = true;
  chain.out = out.data();
  const GpuOptions options;
  const size_t bytes = kbd::workspace_bytes(chain, options);
  std::vector<uint64_t> workspace(bytes / 8 + 1);
  const int status = kbd::run_chain_gpu(chain, options, workspace.data(), 100, nullptr);
  expect(status != 0 && std::strstr(kbd::gpu_error(status), "workspace") != nullptr,
         "too small a workspace");
  expect(out[0] == -77.f, "nothing is written");
  expect(std::strlen(kbd::gpu_error(int(cudaErrorInvalidValue))) > 0, "text of an error");
  expect(kbd::workspace_bytes(Chain<Half>{}, options) == 0 &&
             kbd::run_chain_gpu(Chain<Half>{}, options, nullptr, 0, nullptr) == 0,
         "empty chain");
}

template <class Kind>
void all() {
  networks<Kind>();
  masks<Kind>();
  if (brief) {
    return;
  }
  entries<Kind>();
  mixtures<Kind>();
  limits<Kind>();
  nothing<Kind>();
}

}  // namespace

int main(int argc, char**) {
  brief = argc > 1;
  all<Fma>();
  if (kbd::kHasTf32Mma) {  // Elsewhere never chosen: GpuOptions::sm.
    all<Tf32>();
  }
  all<F16>();
  all<Bf16>();
  refusals();
  return report();
}
