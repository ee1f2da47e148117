// SPDX-License-Identifier: Apache-2.0
//
// Prints as JSON how the kernels are launched, from the headers that launch them. Runs on the host:
// no GPU is needed.
#include <cstdio>

#include "cuda/compact.cuh"
#include "cuda/gemm.cuh"
#include "cuda/softmax.cuh"
#include "cuda/traits.h"

namespace {

const char* separator = "[";

void print(const char* kind, const char* number, int math, const char* tile, int threads,
           size_t dynamic_shared) {
  std::printf(
      "%s{\"kind\": \"%s\", \"number\": \"%s\", \"math\": %d, \"tile\": \"%s\", \"threads\": %d, "
      "\"dynamic_shared\": %zu}",
      separator, kind, number, math, tile, threads, dynamic_shared);
  separator = ",\n ";
}

template <class T, kbd::Math kMath, kbd::GpuTile kTile, bool kNoisy>
void print_product(const char* number) {
  using Traits = typename kbd::TraitsOf<T, kMath, kTile, kNoisy>::type;
  char tile[32];
  std::snprintf(tile, sizeof(tile), "%dx%d", Traits::kM, Traits::kN);
  print(kNoisy ? "masked" : "gathered", number, int(kMath), tile, Traits::kThreads,
        kbd::kGemmSharedBytes<Traits, kNoisy>);
}

template <class T, kbd::Math kMath, kbd::GpuTile kTile>
void print_both(const char* number) {
  print_product<T, kMath, kTile, false>(number);
  print_product<T, kMath, kTile, true>(number);
}

template <class T, kbd::Math kMath>
void print_products(const char* number) {
  print_both<T, kMath, kbd::GpuTile::kLarge>(number);
  print_both<T, kMath, kbd::GpuTile::kMedium>(number);
  print_both<T, kMath, kbd::GpuTile::kSmall>(number);
}

}  // namespace

int main() {
  print_products<float, kbd::Math::kFma>("float32");
  print_products<float, kbd::Math::kTf32>("float32");
  print_products<kbd::Half, kbd::Math::kMma>("float16");
  print_products<kbd::Bfloat16, kbd::Math::kMma>("bfloat16");
  print("compact", "", -1, "", kbd::kCompactThreads, kbd::kCompactSharedBytes);
  for (const char* number : {"float32", "float16", "bfloat16"}) {
    print("softmax", number, -1, "", kbd::kSoftmaxThreads, 0);
  }
  std::printf("]\n");
}
