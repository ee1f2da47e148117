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
  T* line;
  T* bias;
  T* slabs;
  uint64_t* bits;
  T* partial;
  T* h[2];
  int64_t* order;  // the vectors: first those that subtract
};

template <class T>
CutBuffers<T> cut_buffers(const Chain<T>& chain, int64_t vectors, Scratch* scratch) {
  int64_t kernel = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const int64_t size = chain.steps[l].in * padded<T>(chain.steps[l].out);
    kernel = kernel < size ? size : kernel;
  }
  const int64_t width = row_width(chain);
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
  buffers.line = scratch->take<T>(width);
  buffers.bias = scratch->take<T>(width);
  buffers.order = scratch->take<int64_t>(vectors);
  buffers.slabs = scratch->take<T>(kernel);
  buffers.bits = scratch->take<uint64_t>(vectors * bit_words(width));
  buffers.partial = scratch->take<T>(kPartial<T>);
  for (T*& h : buffers.h) {
    h = scratch->take<T>(vectors * width);
  }
  return buffers;
}

template <class T>
int64_t cut_scratch(const Chain<T>& chain, int64_t vectors) {
  Scratch scratch(nullptr);
  cut_buffers(chain, vectors, &scratch);
  return scratch.used();
}

template <class T>
void run_cut(const Chain<T>& chain, const Base<T>& base, int64_t sample, int64_t entry,
             int64_t stride, int64_t begin, int64_t end, void* memory) {
  Scratch scratch(memory);
  const int64_t count = end - begin;
  CutBuffers<T> buffers = cut_buffers(chain, count, &scratch);
  const int64_t per_sample = chain.rows * chain.entries;
  const Step<T>& first = chain.steps[0];
  const T* x = chain.x + (chain.x_per_sample ? sample * per_sample * first.in : 0);
  Kept* now = &buffers.kept[0];
  Kept* next = &buffers.kept[1];
  const T* a = x + (entry + stride * begin) * first.in;
  int64_t lda = stride * first.in;
  T* h = buffers.h[0];
  T* spare = buffers.h[1];
  int64_t subtracting = 0;
  for (int64_t i = 0; i < count; ++i) {
    buffers.order[i] = entry + stride * (begin + i);
  }

  if (is_noisy(chain, 0)) {
    const uint32_t* words = step_words(chain, first, sample, 0, entry, buffers.words);
    find_kept(words, first.threshold, first.in, false, now);
    int64_t widest = now->count;
    if (base.sums) {
      find_kept(words, first.threshold, first.in, true, &buffers.dropped);
      make_mask<T>(words, first.threshold, first.in, buffers.keep);
      widest = widest < buffers.dropped.count ? buffers.dropped.count : widest;
      int64_t direct = count;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t v = entry + stride * (begin + i);
        const bool way = subtracts(base, v, x + v * first.in, buffers.keep, first.in);
        buffers.order[way ? subtracting++ : --direct] = v;
      }
    }
    lda = padded<T>(widest) + Lanes<T>::kPanel;
    for (int64_t i = 0; i < count; ++i) {
      T* to = h + i * lda;
      compress(x + buffers.order[i] * first.in, first.in, i < subtracting ? buffers.dropped : *now,
               to);
      if (i < subtracting) {
        for (int64_t j = 0; j < buffers.dropped.count; ++j) {
          to[j] = -to[j];
        }
      }
    }
    a = h;
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
    const int64_t minus = l == 0 ? subtracting : 0;
    if (minus > 0) {
      const int64_t width = padded<T>(step.out);
      for (int64_t i = 0; i < minus; ++i) {
        const T* from = base.sums + buffers.order[i] * width;
        if (cut) {
          compress(from, step.out, *next, spare + i * ldc);
        } else {
          copy(from, columns, spare + i * ldc);
        }
      }
      pack_cut(step, &buffers.dropped, columns_kept, buffers.line, buffers.slabs);
      const int64_t depth = buffers.dropped.count;
      product(minus, groups_of(buffers.dropped), columns, a, lda,
              nonzeros(minus, depth, a, lda, buffers.bits), buffers.slabs, buffers.partial, spare,
              ldc, true, epilogue);
    }
    if (minus < count) {
      pack_cut(step, noisy ? now : nullptr, columns_kept, buffers.line, buffers.slabs);
      const int64_t depth = noisy ? now->count : step.in;
      const T* rest = a + minus * lda;
      product(count - minus, noisy ? groups_of(*now) : groups_of(depth), columns, rest, lda,
              nonzeros(count - minus, depth, rest, lda, buffers.bits), buffers.slabs,
              buffers.partial, spare + minus * ldc, ldc, false, epilogue);
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
    a = h;
    Kept* const used = now;
    now = next;
    next = used;
  }

  const int64_t out = chain.steps[chain.num_steps - 1].out;
  for (int64_t i = 0; i < count; ++i) {
    copy(h + i * lda, out, chain.out + (sample * per_sample + buffers.order[i]) * out);
  }
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_CUT_H_
