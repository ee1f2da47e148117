// SPDX-License-Identifier: Apache-2.0
#include "cpu/perturb.h"

#include <algorithm>

#include "cpu/isa.h"

namespace kbd {
namespace {

// Rows that share one draw of the noise. Making it costs some ten times as much as using it.
constexpr int64_t kSharingRows = 64;
// Operations that a number costs: the noise, and its use.
constexpr int64_t kNoiseCost = 10;
constexpr int64_t kUseCost = 2;

// Joins neighbouring axes along which the noise behaves alike, and leaves out those of size one.
template <class T>
Perturbation<T> joined(const Perturbation<T>& p) {
  Perturbation<T> result = p;
  result.num_dims = 0;
  for (int d = 0; d < p.num_dims; ++d) {
    const int last = result.num_dims - 1;
    if (p.dims[d] == 1) {
      continue;
    }
    if (last >= 0 && result.varies[last] == p.varies[d]) {
      result.dims[last] *= p.dims[d];
    } else {
      result.dims[result.num_dims] = p.dims[d];
      result.varies[result.num_dims++] = p.varies[d];
    }
  }
  return result;
}

}  // namespace

template <class T>
void run_perturbation(const Perturbation<T>& perturbation, const ParallelFor& parallel_for) {
  const Perturbation<T> p = joined(perturbation);
  int64_t size = 1, units = 1;
  for (int d = 0; d < p.num_dims; ++d) {
    size *= p.dims[d];
    units *= p.varies[d] ? p.dims[d] : 1;
  }
  if (size == 0 || p.rows == 0 || p.num_samples == 0) {
    return;
  }
  const int64_t rows = p.shared ? std::min(p.rows, kSharingRows) : 1;
  const int64_t groups = (p.rows + rows - 1) / rows;
  const Isa<T>& isa = chosen_isa<T>();
  // The samples of a row lie next to each other in the output.
  parallel_for(groups * p.num_samples, units * kNoiseCost + rows * size * kUseCost,
               [&](int64_t begin, int64_t end) {
                 for (int64_t t = begin; t < end; ++t) {
                   const int64_t first = t / p.num_samples * rows;
                   isa.perturb(p, t % p.num_samples, first, std::min(p.rows, first + rows));
                 }
               });
}

template void run_perturbation<float>(const Perturbation<float>&, const ParallelFor&);
template void run_perturbation<double>(const Perturbation<double>&, const ParallelFor&);

}  // namespace kbd
