// SPDX-License-Identifier: Apache-2.0
//
// Cut networks: with shared Bernoulli masks a sample is a smaller dense network, of the rows and
// columns of each kernel that survive.
#ifndef KBD_CPU_ISA_CUT_H_
#define KBD_CPU_ISA_CUT_H_

#include "cpu/isa/activate.h"
#include "cpu/isa/base.h"

namespace kbd {
namespace {

template <class T>
bool is_noisy(const Chain<T>& chain, int step) {
  return step < chain.num_steps && chain.steps[step].noise == Noise::kBernoulli;
}

// Whether the columns of a step can be cut to what the next keeps: an activation that looks at
// the whole row needs the whole row.
template <class T>
bool cuts_columns(const Chain<T>& chain, int step) {
  return is_noisy(chain, step + 1) && chain.steps[step].activation != Activation::kSoftmax;
}

template <class T>
struct CutBuffers {
  uint32_t* words;
  typename Lanes<T>::Int* keep;
  Kept kept[2];
  Kept dropped;
  T* bias;
  T* block;
  uint64_t* bits;
  T* partial;
  T* h[2];
  int64_t* order;  // the vectors: first those that subtract
};

// The input of a network is taken in blocks of so many groups: a tile of a wide one would be larger
// than all else.
constexpr int64_t kInputGroups = 16;

// The widest vector that a tile holds, with room for what compress() writes beyond the end.
template <class T>
int64_t tile_width(const Chain<T>& chain) {
  const int64_t in = chain.steps[0].in, most = kInputGroups * kGroup;
  int64_t width = in < most ? in : most;
  for (int l = 0; l < chain.num_steps; ++l) {
    width = width < chain.steps[l].out ? chain.steps[l].out : width;
  }
  return padded<T>(width) + Lanes<T>::kPanel;
}

template <class T>
CutBuffers<T> cut_buffers(const Chain<T>& chain, int64_t vectors, Scratch* scratch) {
  const int64_t width = row_width(chain), tile = tile_width(chain);
  CutBuffers<T> buffers;
  buffers.words = scratch->take<uint32_t>(words_size(width));
  buffers.keep = scratch->take<typename Lanes<T>::Int>(width);
  for (Kept* kept : {&buffers.kept[0], &buffers.kept[1], &buffers.dropped}) {
    kept->bits = scratch->take<uint8_t>(ceil_div(width, 8));
    kept->index = scratch->take<int32_t>(width + 8);
    kept->ends = scratch->take<int32_t>(ceil_div(width, kGroup));
    kept->groups = 0;
    kept->count = 0;
  }
  buffers.bias = scratch->take<T>(tile);
  buffers.order = scratch->take<int64_t>(vectors);
  buffers.block = scratch->take<T>(kBlock<T>);
  buffers.bits = scratch->take<uint64_t>(vectors * bit_words(tile));
  buffers.partial = scratch->take<T>(kPartial<T>);
  for (T*& h : buffers.h) {
    h = scratch->take<T>(vectors * tile);
  }
  return buffers;
}

template <class T>
int64_t cut_scratch(const Chain<T>& chain, int64_t vectors) {
  Scratch scratch(nullptr);
  cut_buffers(chain, vectors, &scratch);
  return scratch.used();
}

// Rows of a product's left side.
template <class T>
struct Matrix {
  const T* data;
  int64_t stride;
};

// The product of one step for `count` vectors; returns the multiply-adds done. input(groups)
// returns their columns in these groups: all of them, or those of one block after another.
template <class T, class Input>
int64_t cut_product(const Step<T>& step, const Kept* kept, const Kept* columns, int64_t count,
                    int64_t groups_at_once, const Input& input, const CutBuffers<T>& buffers, T* c,
                    int64_t ldc, bool accumulate, const Epilogue<T>& epilogue) {
  const Groups groups = kept ? groups_of(*kept) : groups_of(step.in);
  bool ends = false;
  int64_t done = 0;
  for (int64_t first = 0; !ends; first += groups_at_once) {
    const int64_t rest = groups.count - first;
    const Groups part =
        groups.count == 0
            ? groups
            : groups.part(first, first + (rest < groups_at_once ? rest : groups_at_once));
    // The last block of which anything is kept ends the sums.
    ends = part.before + part.depth == groups.depth;
    if (part.depth == 0 && !ends) {
      continue;
    }
    const Matrix<T> a = input(part);
    const Nonzeros nonzeros = find_nonzeros_of(
        count, part.depth, columns ? columns->count : step.out, a.data, a.stride, buffers.bits);
    done +=
        product_of_cut(step, kept, columns, count, part, a.data, a.stride, nonzeros, buffers.block,
                       buffers.partial, c, ldc, accumulate, ends ? &epilogue : nullptr);
    accumulate = true;
  }
  return done;
}

template <class T>
int64_t run_cut(const Chain<T>& chain, const Base<T>& base, int64_t sample, int64_t entry,
                int64_t stride, int64_t begin, int64_t end, void* memory) {
  Scratch scratch(memory);
  const int64_t count = end - begin;
  CutBuffers<T> buffers = cut_buffers(chain, count, &scratch);
  const int64_t per_sample = chain.rows * chain.entries;
  const Step<T>& first = chain.steps[0];
  const T* x = chain.x + (chain.x_per_sample ? sample * per_sample * first.in : 0);
  Kept* now = &buffers.kept[0];
  Kept* next = &buffers.kept[1];
  T* h = buffers.h[0];
  T* spare = buffers.h[1];
  int64_t lda = 0;
  int64_t subtracting = 0, done = 0;
  for (int64_t i = 0; i < count; ++i) {
    buffers.order[i] = entry + stride * (begin + i);
  }

  if (is_noisy(chain, 0)) {
    const uint32_t* words = step_words(chain, first, sample, 0, entry, buffers.words);
    find_kept(words, first.threshold, first.in, false, now);
    if (base.sums) {
      find_kept(words, first.threshold, first.in, true, &buffers.dropped);
      make_mask<T>(words, first.threshold, first.in, buffers.keep);
      int64_t direct = count;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t v = entry + stride * (begin + i);
        const bool way = subtracts(base, v, x + v * first.in, buffers.keep, first.in);
        buffers.order[way ? subtracting++ : --direct] = v;
      }
    }
  }

  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    const bool noisy = is_noisy(chain, l);
    const bool cut = cuts_columns(chain, l);
    if (is_noisy(chain, l + 1)) {
      const Step<T>& following = chain.steps[l + 1];
      const uint32_t* words = step_words(chain, following, sample, 0, entry, buffers.words);
      find_kept(words, following.threshold, following.in, false, next);
    }
    const Kept* columns_kept = cut ? next : nullptr;
    const int64_t columns = cut ? next->count : step.out;
    const int64_t ldc = padded<T>(columns) + Lanes<T>::kPanel;
    const Epilogue<T> epilogue{noisy ? T(step.scale) : T(1),
                               pack_bias(step, columns_kept, buffers.bias), step.activation};
    if (l > 0) {
      done += cut_product(
          step, noisy ? now : nullptr, columns_kept, count, ceil_div(step.in, kGroup),
          [&](const Groups&) { return Matrix<T>{h, lda}; }, buffers, spare, ldc, false, epilogue);
    } else {
      if (subtracting > 0) {
        const int64_t width = padded<T>(step.out);
        for (int64_t i = 0; i < subtracting; ++i) {
          const T* from = base.sums + buffers.order[i] * width;
          if (cut) {
            compress(from, step.out, *next, spare + i * ldc);
          } else {
            copy(from, columns, spare + i * ldc);
          }
        }
        const auto dropped = [&](const Groups& groups) {
          const int64_t wide = padded<T>(groups.depth) + Lanes<T>::kPanel;
          for (int64_t i = 0; i < subtracting; ++i) {
            T* to = h + i * wide;
            compress(x + buffers.order[i] * step.in, step.in, buffers.dropped, groups.before,
                     groups.depth, to);
            for (int64_t j = 0; j < groups.depth; ++j) {
              to[j] = -to[j];
            }
          }
          return Matrix<T>{h, wide};
        };
        done += cut_product(step, &buffers.dropped, columns_kept, subtracting, kInputGroups,
                            dropped, buffers, spare, ldc, true, epilogue);
      }
      if (subtracting < count) {
        const auto rest = [&](const Groups& groups) {
          if (!noisy) {  // Then none subtracts, and the vectors are in their order.
            return Matrix<T>{x + buffers.order[0] * step.in + groups.before, stride * step.in};
          }
          const int64_t wide = padded<T>(groups.depth) + Lanes<T>::kPanel;
          for (int64_t i = subtracting; i < count; ++i) {
            compress(x + buffers.order[i] * step.in, step.in, *now, groups.before, groups.depth,
                     h + (i - subtracting) * wide);
          }
          return Matrix<T>{h, wide};
        };
        done += cut_product(step, noisy ? now : nullptr, columns_kept, count - subtracting,
                            kInputGroups, rest, buffers, spare + subtracting * ldc, ldc, false,
                            epilogue);
      }
    }
    activate(step.activation, count, columns, spare, ldc);
    T* const made = spare;
    spare = h;
    h = made;
    lda = ldc;
    if (!cut && is_noisy(chain, l + 1)) {
      // A whole row was needed (softmax): cut it now.
      for (int64_t i = 0; i < count; ++i) {
        compress(h + i * ldc, columns, *next, spare + i * ldc);
      }
      T* const whole = h;
      h = spare;
      spare = whole;
    }
    Kept* const used = now;
    now = next;
    next = used;
  }

  const int64_t out = chain.steps[chain.num_steps - 1].out;
  for (int64_t i = 0; i < count; ++i) {
    copy(h + i * lda, out, chain.out + (sample * per_sample + buffers.order[i]) * out);
  }
  return done;
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_CUT_H_
