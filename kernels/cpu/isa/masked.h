// SPDX-License-Identifier: Apache-2.0
//
// Masked networks: every vector of every sample is a row with noise of its own, and passes whole
// kernels. A Bernoulli mask selects; its scale is applied to the sum, so that the result is bit
// for bit that of the cut network.
#ifndef KBD_CPU_ISA_MASKED_H_
#define KBD_CPU_ISA_MASKED_H_

#include "cpu/isa/activate.h"
#include "cpu/isa/base.h"

namespace kbd {
namespace {

// Noise of one step for one vector, kept while it serves the next vector too.
template <class T>
struct NoiseBuffers {
  uint32_t* words;
  typename Lanes<T>::Int* keep;
  T* multiplier;
};

template <class T>
NoiseBuffers<T> noise_buffers(const Chain<T>& chain, Scratch* scratch) {
  const int64_t width = row_width(chain);
  return {scratch->take<uint32_t>(words_size(width)), scratch->take<typename Lanes<T>::Int>(width),
          scratch->take<T>(width)};
}

// The input of a step for vectors [begin, end), of which `first` is row 0 of `rows`: the previous
// step's activation, and the noise. For step 0, sums begin with those of x. After the last step,
// the output.
template <class T>
void make_input(const Chain<T>& chain, const Base<T>& base, int l, const Rows<T>& rows,
                int64_t first, int64_t begin, int64_t end, const NoiseBuffers<T>& noise) {
  const int64_t per_sample = chain.rows * chain.entries;
  const Step<T>* before = l > 0 ? &chain.steps[l - 1] : nullptr;
  const Step<T>* step = l < chain.num_steps ? &chain.steps[l] : nullptr;
  int64_t made_sample = -1, made_row = -1, made_entry = -1;
  for (int64_t v = begin; v < end; ++v) {
    const int64_t sample = v / per_sample, within = v % per_sample;
    T* input = rows.input + (v - first) * rows.width;
    T* sums = rows.sums + (v - first) * rows.sums_width;
    if (before && !in_epilogue(before->activation)) {
      activate_row(before->activation, before->out, sums);
    }
    if (!step) {
      copy(sums, before->out, chain.out + v * before->out);
      continue;
    }
    const T* from = before ? sums : chain.x + (chain.x_per_sample ? v : within) * step->in;
    if (step->noise == Noise::kNone) {
      copy(from, step->in, input);
      continue;
    }
    const int64_t row = chain.shared ? 0 : within / chain.entries;
    const int64_t entry = step->per_entry ? within % chain.entries : 0;
    if (sample != made_sample || row != made_row || entry != made_entry) {
      const uint32_t* words = step_words(chain, *step, sample, row, entry, noise.words);
      if (step->noise == Noise::kBernoulli) {
        make_mask<T>(words, step->threshold, step->in, noise.keep);
      } else {
        make_multipliers(words, *step, noise.multiplier);
      }
      made_sample = sample, made_row = row, made_entry = entry;
    }
    if (step->noise == Noise::kGaussian) {
      for (int64_t unit = 0; unit < step->in; ++unit) {
        input[unit] = from[unit] * noise.multiplier[unit];
      }
    } else if (before || !base.sums) {
      select_kept(from, noise.keep, step->in, input);
    } else if (subtracts(base, within, from, noise.keep, step->in)) {
      select_dropped(from, noise.keep, step->in, input);
      const int64_t width = padded<T>(step->out);
      copy(base.sums + within * width, width, sums);
    } else {
      select_kept(from, noise.keep, step->in, input);
      std::memset(sums, 0, size_t(padded<T>(step->out)) * sizeof(T));
    }
  }
}

template <class T>
Epilogue<T> masked_epilogue(const Step<T>& step, T* bias) {
  return {step.noise == Noise::kBernoulli ? T(step.scale) : T(1), pack_bias(step, nullptr, bias),
          step.activation};
}

// The widest sums of a chain, padded.
template <class T>
int64_t sums_width(const Chain<T>& chain) {
  int64_t width = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    width = width < chain.steps[l].out ? chain.steps[l].out : width;
  }
  return padded<T>(width);
}

template <class T>
Rows<T> take_rows(const Chain<T>& chain, int64_t vectors, Scratch* scratch) {
  const int64_t width = row_width(chain), sums = sums_width(chain);
  return {scratch->take<T>(vectors * width), scratch->take<T>(vectors * sums), width, sums,
          scratch->take<uint64_t>(vectors * bit_words(width))};
}

template <class T>
struct MaskedBuffers {
  NoiseBuffers<T> noise;
  Rows<T> rows;
  T* bias;
  T* partial;
};

template <class T>
MaskedBuffers<T> masked_buffers(const Chain<T>& chain, int64_t vectors, Scratch* scratch) {
  MaskedBuffers<T> buffers;
  buffers.noise = noise_buffers(chain, scratch);
  buffers.rows = take_rows(chain, vectors, scratch);
  buffers.bias = scratch->take<T>(sums_width(chain));
  buffers.partial = scratch->take<T>(kPartial<T>);
  return buffers;
}

template <class T>
int64_t masked_scratch(const Chain<T>& chain, int64_t vectors) {
  Scratch scratch(nullptr);
  masked_buffers(chain, vectors, &scratch);
  return scratch.used();
}

template <class T>
int64_t run_masked(const Chain<T>& chain, const Base<T>& base, const T* const* packed,
                   int64_t begin, int64_t end, void* memory) {
  Scratch scratch(memory);
  const MaskedBuffers<T> buffers = masked_buffers(chain, end - begin, &scratch);
  const Rows<T>& rows = buffers.rows;
  int64_t done = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    make_input(chain, base, l, rows, begin, begin, end, buffers.noise);
    done +=
        product(end - begin, groups_of(step.in), step.out, rows.input, rows.width,
                find_nonzeros_of(end - begin, step.in, step.out, rows.input, rows.width, rows.bits),
                packed[l], buffers.partial, rows.sums, rows.sums_width, l == 0 && base.sums,
                masked_epilogue(step, buffers.bias));
  }
  make_input(chain, base, chain.num_steps, rows, begin, begin, end, buffers.noise);
  return done;
}

template <class T>
int64_t rows_bytes(const Chain<T>& chain, int64_t vectors) {
  Scratch scratch(nullptr);
  take_rows(chain, vectors, &scratch);
  return scratch.used();
}

template <class T>
Rows<T> rows_in(const Chain<T>& chain, int64_t vectors, void* memory) {
  Scratch scratch(memory);
  return take_rows(chain, vectors, &scratch);
}

template <class T>
int64_t rows_scratch(const Chain<T>& chain) {
  Scratch scratch(nullptr);
  noise_buffers(chain, &scratch);
  return scratch.used();
}

template <class T>
void step_rows(const Chain<T>& chain, const Base<T>& base, int l, const Rows<T>& rows,
               int64_t begin, int64_t end, void* memory) {
  Scratch scratch(memory);
  make_input(chain, base, l, rows, 0, begin, end, noise_buffers(chain, &scratch));
  if (l < chain.num_steps) {
    const int64_t in = chain.steps[l].in;
    if (!may_be_sparse(in, chain.steps[l].out, Lanes<T>::kPanel)) {
      return;
    }
    find_nonzeros(end - begin, in, rows.input + begin * rows.width, rows.width,
                  rows.bits + begin * bit_words(in));
  }
}

// Scratch of a task that runs some columns of any step.
template <class T>
struct ColumnBuffers {
  T* block;
  T* partial;
  T* bias;
};

template <class T>
ColumnBuffers<T> column_buffers(const Chain<T>& chain, Scratch* scratch) {
  return {scratch->take<T>(kBlock<T>), scratch->take<T>(kPartial<T>),
          scratch->take<T>(sums_width(chain))};
}

template <class T>
int64_t columns_scratch(const Chain<T>& chain) {
  Scratch scratch(nullptr);
  column_buffers(chain, &scratch);
  return scratch.used();
}

template <class T>
int64_t step_columns(const Chain<T>& chain, const Base<T>& base, int l, const Rows<T>& rows,
                     int64_t column, int64_t width, void* memory) {
  Scratch scratch(memory);
  const ColumnBuffers<T> buffers = column_buffers(chain, &scratch);
  const Step<T>& step = chain.steps[l];
  const int64_t vectors = chain.num_samples * chain.rows * chain.entries;
  return product_of_kernel<T>(step, column, width, vectors, rows.input, rows.width,
                              may_be_sparse(step.in, step.out, Lanes<T>::kPanel)
                                  ? nonzeros_of(vectors, step.in, rows.bits)
                                  : Nonzeros{nullptr, vectors * step.in},
                              buffers.block, buffers.partial, rows.sums, rows.sums_width,
                              l == 0 && base.sums, masked_epilogue(step, buffers.bias));
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_MASKED_H_
