// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of a chain, compiled once per instruction set. The including file defines
//
//   KBD_VECTOR_BYTES   width of a vector register
//   KBD_TILE_ROWS      rows of a register tile
//   KBD_ISA(type)      name of the function that returns the table for a type
//
// Everything here has internal linkage and no template of the standard library is used: a weak
// symbol compiled with wider instructions could be the one that the linker keeps for all.
//
// Matrix product. C[m, n] = sum_k A[m, k] B[k, n] with A row-major and B packed in panels of
// two vectors of columns. A register tile is KBD_TILE_ROWS x 2 vectors; depth is cut in blocks so
// that a panel's block stays in the first-level cache while all rows pass. Every element of C is
// the sum over k in order, block after block, whatever the number of rows: results do not
// depend on tiling, batch size, or threads.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/isa.h"
#include "kbd/activation.h"
#include "kbd/philox.h"

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace kbd {
namespace {

template <class T>
struct Lanes {
  static constexpr int kWidth = KBD_VECTOR_BYTES / sizeof(T);
  static constexpr int kPanel = 2 * kWidth;
  typedef T Vector __attribute__((vector_size(KBD_VECTOR_BYTES)));
  typedef T Unaligned __attribute__((vector_size(KBD_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

constexpr int kTileRows = KBD_TILE_ROWS;
// Deepest block: 320 floats x 16 columns are 20 KB, two thirds of a first-level cache.
constexpr int64_t kMaxDepth = 320;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
template <class T>
inline int64_t padded(int64_t n) {
  return round_up(n, Lanes<T>::kPanel);
}

// Hands out aligned pieces of a scratch buffer. With a null buffer it only counts.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(int64_t count) {
    char* at = base_ + used_;
    used_ += round_up(count * int64_t(sizeof(T)), 64);
    return reinterpret_cast<T*>(at);
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

// ---------------------------------------------------------------- noise

// Writes the words of units [0, round_up(units, 4)) of a stream.
inline void make_words(const Stream& stream, int64_t units, uint32_t* words) {
  const int64_t groups = ceil_div(units, kWordsPerCounter);
  int64_t group = 0;
#if defined(__AVX2__)
  // Eight counters at once, even and odd lanes in turn because a multiply of 32-bit lanes
  // makes 64-bit products of every second one.
  const __m256i multiplier0 = _mm256_set1_epi32(int(kPhiloxMultiplier0));
  const __m256i multiplier1 = _mm256_set1_epi32(int(kPhiloxMultiplier1));
  for (; group + 8 <= groups; group += 8) {
    const uint64_t low = stream.low + uint64_t(group);
    if (uint32_t(low) > 0xFFFFFFFFu - 8) {
      break;  // A carry into the upper half: the scalar loop does it.
    }
    __m256i c0 = _mm256_add_epi32(_mm256_set1_epi32(int(uint32_t(low))),
                                  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i c1 = _mm256_set1_epi32(int(uint32_t(low >> 32)));
    __m256i c2 = _mm256_set1_epi32(int(uint32_t(stream.high)));
    __m256i c3 = _mm256_set1_epi32(int(uint32_t(stream.high >> 32)));
    uint32_t k0 = uint32_t(stream.key), k1 = uint32_t(stream.key >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const __m256i even0 = _mm256_mul_epu32(c0, multiplier0);
      const __m256i odd0 = _mm256_mul_epu32(_mm256_srli_epi64(c0, 32), multiplier0);
      const __m256i even1 = _mm256_mul_epu32(c2, multiplier1);
      const __m256i odd1 = _mm256_mul_epu32(_mm256_srli_epi64(c2, 32), multiplier1);
      const __m256i low0 = _mm256_blend_epi32(even0, _mm256_slli_epi64(odd0, 32), 0xAA);
      const __m256i high0 = _mm256_blend_epi32(_mm256_srli_epi64(even0, 32), odd0, 0xAA);
      const __m256i low1 = _mm256_blend_epi32(even1, _mm256_slli_epi64(odd1, 32), 0xAA);
      const __m256i high1 = _mm256_blend_epi32(_mm256_srli_epi64(even1, 32), odd1, 0xAA);
      c0 = _mm256_xor_si256(_mm256_xor_si256(high1, c1), _mm256_set1_epi32(int(k0)));
      c1 = low1;
      c2 = _mm256_xor_si256(_mm256_xor_si256(high0, c3), _mm256_set1_epi32(int(k1)));
      c3 = low0;
      k0 += kPhiloxKeyStep0;
      k1 += kPhiloxKeyStep1;
    }
    // From a vector per word to four words per counter.
    const __m256i a = _mm256_unpacklo_epi32(c0, c1), b = _mm256_unpackhi_epi32(c0, c1);
    const __m256i c = _mm256_unpacklo_epi32(c2, c3), d = _mm256_unpackhi_epi32(c2, c3);
    const __m256i g04 = _mm256_unpacklo_epi64(a, c), g15 = _mm256_unpackhi_epi64(a, c);
    const __m256i g26 = _mm256_unpacklo_epi64(b, d), g37 = _mm256_unpackhi_epi64(b, d);
    __m256i* to = reinterpret_cast<__m256i*>(words + group * kWordsPerCounter);
    _mm256_storeu_si256(to + 0, _mm256_permute2x128_si256(g04, g15, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(g26, g37, 0x20));
    _mm256_storeu_si256(to + 2, _mm256_permute2x128_si256(g04, g15, 0x31));
    _mm256_storeu_si256(to + 3, _mm256_permute2x128_si256(g26, g37, 0x31));
  }
#endif
  for (; group < groups; ++group) {
    const Words w = philox(stream.key, stream.low + uint64_t(group), stream.high);
    std::memcpy(words + group * kWordsPerCounter, w.word, sizeof(w.word));
  }
}

template <class T>
Stream stream_at(const Chain<T>& chain, const Step<T>& step, int64_t sample, int64_t row) {
  return stream_of(chain.seed, step.site, uint64_t(chain.first_sample + sample),
                   chain.shared ? 0 : uint64_t(chain.first_row + row), step.in);
}

// Finds the units that are kept (or, complemented, those that are dropped).
inline void find_kept(const uint32_t* words, uint32_t threshold, int64_t units, bool complement,
                      Kept* kept) {
  int64_t count = 0;
  std::memset(kept->bits, 0, size_t(ceil_div(units, 8)));
  for (int64_t unit = 0; unit < units; ++unit) {
    const bool keep = (words[unit] >= threshold) != complement;
    kept->index[count] = int32_t(unit);
    count += keep;
    kept->bits[unit >> 3] = uint8_t(kept->bits[unit >> 3] | (int(keep) << (unit & 7)));
  }
  kept->count = count;
}

// The multiplier of every unit of one stream.
template <class T>
void make_multipliers(const Stream& stream, const Step<T>& step, uint32_t* words, T* multiplier) {
  make_words(stream, step.in, words);
  if (step.noise == Noise::kBernoulli) {
    const T scale = T(step.scale);
    for (int64_t unit = 0; unit < step.in; ++unit) {
      multiplier[unit] = words[unit] >= step.threshold ? scale : T(0);
    }
  } else {
    for (int64_t unit = 0; unit < step.in; ++unit) {
      multiplier[unit] = T(1) + T(step.scale) * normal_of_word<T>(words[unit]);
    }
  }
}

// ---------------------------------------------------------------- gathering

// to[j] = from[index[j]], for the kept units. Writes up to seven elements beyond the last.
template <class T>
inline void compress(const T* from, int64_t, const Kept& kept, T* to) {
  for (int64_t j = 0; j < kept.count; ++j) {
    to[j] = from[kept.index[j]];
  }
}

#if defined(__AVX2__)
// Permutations that move the elements whose bit is set to the front, one per byte.
struct CompressTable {
  alignas(32) int32_t order[256][8];
};
constexpr CompressTable make_compress_table() {
  CompressTable table{};
  for (int mask = 0; mask < 256; ++mask) {
    int count = 0;
    for (int bit = 0; bit < 8; ++bit) {
      if (mask >> bit & 1) {
        table.order[mask][count++] = bit;
      }
    }
  }
  return table;
}
constexpr CompressTable kCompress = make_compress_table();

template <>
inline void compress<float>(const float* from, int64_t units, const Kept& kept, float* to) {
  int64_t unit = 0;
  for (; unit + 8 <= units; unit += 8) {
    const uint8_t mask = kept.bits[unit >> 3];
    const __m256i order =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(kCompress.order[mask]));
    _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(_mm256_loadu_ps(from + unit), order));
    to += __builtin_popcount(mask);
  }
  for (; unit < units; ++unit) {
    *to = from[unit];
    to += kept.bits[unit >> 3] >> (unit & 7) & 1;
  }
}
#endif

// Packs rows `rows` (all if null) of a kernel, columns `columns` (all if null), in panels.
template <class T>
void pack_cut(const Step<T>& step, const Kept* rows, const Kept* columns, T* line, T* panels) {
  constexpr int kPanel = Lanes<T>::kPanel;
  const int64_t in = rows ? rows->count : step.in;
  const int64_t out = columns ? columns->count : step.out;
  const int64_t num_panels = ceil_div(out, kPanel);
  for (int64_t r = 0; r < in; ++r) {
    const T* from = step.kernel + (rows ? int64_t(rows->index[r]) : r) * step.out;
    if (columns) {
      compress(from, step.out, *columns, line);
      from = line;
    }
    T* to = panels + r * kPanel;
    const int64_t whole = out / kPanel;
    for (int64_t p = 0; p < whole; ++p, to += in * kPanel) {
      std::memcpy(to, from + p * kPanel, kPanel * sizeof(T));
    }
    if (whole < num_panels) {
      const int64_t rest = out - whole * kPanel;
      for (int64_t j = 0; j < kPanel; ++j) {
        to[j] = j < rest ? from[whole * kPanel + j] : T(0);
      }
    }
  }
}

template <class T>
void pack(const Step<T>& step, int64_t first_panel, int64_t last_panel, T* panels) {
  constexpr int kPanel = Lanes<T>::kPanel;
  for (int64_t p = first_panel; p < last_panel; ++p) {
    const int64_t column = p * kPanel;
    const int64_t count = step.out - column < kPanel ? step.out - column : kPanel;
    T* to = panels + p * step.in * kPanel;
    for (int64_t r = 0; r < step.in; ++r, to += kPanel) {
      const T* from = step.kernel + r * step.out + column;
      for (int64_t j = 0; j < kPanel; ++j) {
        to[j] = j < count ? from[j] : T(0);
      }
    }
  }
}

// ---------------------------------------------------------------- matrix product

// a * b + c, rounded once where the set can. Written out, and contraction is off in the build:
// left to the compiler, a tile of one row may round otherwise than a tile of six.
template <class Vector>
inline __attribute__((always_inline)) Vector multiply_add(Vector a, Vector b, Vector c) {
  return a * b + c;
}
#if KBD_VECTOR_BYTES == 32
inline __attribute__((always_inline)) __m256 multiply_add(__m256 a, __m256 b, __m256 c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline __attribute__((always_inline)) __m256d multiply_add(__m256d a, __m256d b, __m256d c) {
  return _mm256_fmadd_pd(a, b, c);
}
#elif KBD_VECTOR_BYTES == 64
inline __attribute__((always_inline)) __m512 multiply_add(__m512 a, __m512 b, __m512 c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline __attribute__((always_inline)) __m512d multiply_add(__m512d a, __m512d b, __m512d c) {
  return _mm512_fmadd_pd(a, b, c);
}
#endif

// What is done to a finished sum: y = activation(sum * scale + bias).
template <class T>
struct Epilogue {
  T scale;
  const T* bias;  // padded to whole panels, or null
  Activation activation;
};

template <class T, int kRows>
inline __attribute__((always_inline)) void tile(int64_t depth, const T* a, int64_t lda, const T* b,
                                                T* c, int64_t ldc, bool load,
                                                const Epilogue<T>* epilogue, int64_t column) {
  using Vector = typename Lanes<T>::Vector;
  using Unaligned = typename Lanes<T>::Unaligned;
  constexpr int kWidth = Lanes<T>::kWidth;
  Vector sum[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      sum[r][v] =
          load ? Vector(*reinterpret_cast<const Unaligned*>(c + r * ldc + v * kWidth)) : Vector{};
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    const Vector b0 = *reinterpret_cast<const Unaligned*>(b + k * 2 * kWidth);
    const Vector b1 = *reinterpret_cast<const Unaligned*>(b + k * 2 * kWidth + kWidth);
    for (int r = 0; r < kRows; ++r) {
      const Vector value = a[r * lda + k] - Vector{};  // in every lane
      sum[r][0] = multiply_add(value, b0, sum[r][0]);
      sum[r][1] = multiply_add(value, b1, sum[r][1]);
    }
  }
  if (epilogue) {
    for (int v = 0; v < 2; ++v) {
      Vector bias{};
      if (epilogue->bias) {
        bias = *reinterpret_cast<const Unaligned*>(epilogue->bias + column + v * kWidth);
      }
      for (int r = 0; r < kRows; ++r) {
        Vector y = multiply_add(sum[r][v], epilogue->scale - Vector{}, bias);
        if (epilogue->activation == Activation::kRelu) {
          // As std::max(y, 0): a NaN stays a NaN.
          y = y < Vector{} ? Vector{} : y;
        }
        sum[r][v] = y;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      *reinterpret_cast<Unaligned*>(c + r * ldc + v * kWidth) = sum[r][v];
    }
  }
}

template <class T, int kRows>
void edge(int64_t rows, int64_t depth, const T* a, int64_t lda, const T* b, T* c, int64_t ldc,
          bool load, const Epilogue<T>* epilogue, int64_t column) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      tile<T, kRows>(depth, a, lda, b, c, ldc, load, epilogue, column);
    } else {
      edge<T, kRows - 1>(rows, depth, a, lda, b, c, ldc, load, epilogue, column);
    }
  }
}

// C = epilogue(A B), or of C + A B where `accumulate`. C has padded rows of `ldc` elements.
template <class T>
void product(int64_t rows, int64_t depth, int64_t columns, const T* a, int64_t lda, const T* panels,
             T* c, int64_t ldc, bool accumulate, const Epilogue<T>& epilogue) {
  constexpr int kPanel = Lanes<T>::kPanel;
  const int64_t blocks = depth > 0 ? ceil_div(depth, kMaxDepth) : 1;
  const int64_t block = ceil_div(depth, blocks);
  for (int64_t n = 0; n < blocks; ++n) {
    const int64_t first = n * block;
    const int64_t size = first + block < depth ? block : depth - first;
    const bool load = accumulate || n > 0;
    const Epilogue<T>* last = n == blocks - 1 ? &epilogue : nullptr;
    for (int64_t column = 0; column < columns; column += kPanel) {
      const T* b = panels + column * depth + first * kPanel;
      int64_t row = 0;
      for (; row + kTileRows <= rows; row += kTileRows) {
        tile<T, kTileRows>(size, a + row * lda + first, lda, b, c + row * ldc + column, ldc, load,
                           last, column);
      }
      edge<T, kTileRows - 1>(rows - row, size, a + row * lda + first, lda, b,
                             c + row * ldc + column, ldc, load, last, column);
    }
  }
}

// Activations that the product's epilogue does not know, row by row.
template <class T>
void activate(Activation activation, int64_t rows, int64_t columns, T* c, int64_t ldc) {
  for (int64_t row = 0; row < rows; ++row) {
    apply_activation(activation, columns, c + row * ldc);
  }
}

inline bool in_epilogue(Activation activation) {
  return activation == Activation::kLinear || activation == Activation::kRelu;
}

// ---------------------------------------------------------------- cut networks

// Whether the columns of a step can be cut to what the next keeps: an activation that looks at
// the whole row needs the whole row.
template <class T>
bool cuts_columns(const Chain<T>& chain, int step) {
  return step + 1 < chain.num_steps && chain.steps[step + 1].noise == Noise::kBernoulli &&
         chain.steps[step].activation != Activation::kSoftmax;
}

template <class T>
struct CutBuffers {
  uint32_t* words;
  Kept kept[2];
  T* line;
  T* bias;
  T* panels;
  T* h[2];
};

template <class T>
CutBuffers<T> cut_buffers(const Chain<T>& chain, int64_t rows, Scratch* scratch) {
  int64_t width = 0, kernel = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    width = width < step.in ? step.in : width;
    width = width < step.out ? step.out : width;
    const int64_t size = step.in * padded<T>(step.out);
    kernel = kernel < size ? size : kernel;
  }
  CutBuffers<T> buffers;
  // compress() writes up to a vector beyond the last element.
  width = padded<T>(width) + Lanes<T>::kPanel;
  buffers.words = scratch->take<uint32_t>(width);
  for (Kept& kept : buffers.kept) {
    kept.bits = scratch->take<uint8_t>(ceil_div(width, 8));
    kept.index = scratch->take<int32_t>(width + 1);
    kept.count = 0;
  }
  buffers.line = scratch->take<T>(width);
  buffers.bias = scratch->take<T>(width);
  buffers.panels = scratch->take<T>(kernel);
  for (T*& h : buffers.h) {
    h = scratch->take<T>(rows * width);
  }
  return buffers;
}

template <class T>
int64_t cut_scratch(const Chain<T>& chain, int64_t rows) {
  Scratch scratch(nullptr);
  cut_buffers(chain, rows, &scratch);
  return scratch.used();
}

template <class T>
void run_cut(const Chain<T>& chain, int64_t sample, int64_t row_begin, int64_t row_end,
             const T* product_of_x, void* memory) {
  Scratch scratch(memory);
  const int64_t rows = row_end - row_begin;
  CutBuffers<T> buffers = cut_buffers(chain, rows, &scratch);
  const Step<T>& first = chain.steps[0];
  Kept* now = &buffers.kept[0];
  Kept* next = &buffers.kept[1];
  const T* a = chain.x + row_begin * first.in;
  int64_t lda = first.in;
  T* h = buffers.h[0];
  T* spare = buffers.h[1];
  const bool subtract = product_of_x != nullptr;
  const bool first_noisy = first.noise == Noise::kBernoulli;
  if (first_noisy) {
    make_words(stream_at(chain, first, sample, 0), first.in, buffers.words);
    find_kept(buffers.words, first.threshold, first.in, /*complement=*/subtract, now);
    lda = now->count;
    // compress() spills over the end of a row into the next, which is written after it.
    for (int64_t row = 0; row < rows; ++row) {
      compress(a + row * first.in, first.in, *now, h + row * lda);
      if (subtract) {
        for (int64_t j = 0; j < lda; ++j) {
          h[row * lda + j] = -h[row * lda + j];
        }
      }
    }
    a = h;
  }
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    const bool noisy = step.noise == Noise::kBernoulli;
    const bool cut = cuts_columns(chain, l);
    if (cut) {
      const Step<T>& following = chain.steps[l + 1];
      make_words(stream_at(chain, following, sample, 0), following.in, buffers.words);
      find_kept(buffers.words, following.threshold, following.in, false, next);
    }
    const int64_t depth = noisy ? now->count : step.in;
    const int64_t columns = cut ? next->count : step.out;
    const int64_t ldc = padded<T>(columns) + Lanes<T>::kPanel;
    pack_cut(step, noisy ? now : nullptr, cut ? next : nullptr, buffers.line, buffers.panels);
    if (step.bias) {
      std::memset(buffers.bias, 0, size_t(padded<T>(columns)) * sizeof(T));
      if (cut) {
        compress(step.bias, step.out, *next, buffers.bias);
        for (int64_t j = columns; j < padded<T>(columns); ++j) {
          buffers.bias[j] = T(0);
        }
      } else {
        std::memcpy(buffers.bias, step.bias, size_t(columns) * sizeof(T));
      }
    }
    const bool accumulate = l == 0 && subtract;
    if (accumulate) {
      for (int64_t row = 0; row < rows; ++row) {
        const T* from = product_of_x + (row_begin + row) * padded<T>(step.out);
        if (cut) {
          compress(from, step.out, *next, spare + row * ldc);
        } else {
          std::memcpy(spare + row * ldc, from, size_t(columns) * sizeof(T));
        }
      }
    }
    const Epilogue<T> epilogue{noisy ? T(step.scale) : T(1), step.bias ? buffers.bias : nullptr,
                               step.activation};
    product(rows, depth, columns, a, lda, buffers.panels, spare, ldc, accumulate, epilogue);
    if (!in_epilogue(step.activation)) {
      activate(step.activation, rows, columns, spare, ldc);
    }
    T* const made = spare;
    spare = h;
    h = made;
    a = made;
    lda = ldc;
    if (!cut && l + 1 < chain.num_steps && chain.steps[l + 1].noise == Noise::kBernoulli) {
      // A whole row was needed (softmax): cut it now.
      const Step<T>& following = chain.steps[l + 1];
      make_words(stream_at(chain, following, sample, 0), following.in, buffers.words);
      find_kept(buffers.words, following.threshold, following.in, false, next);
      for (int64_t row = 0; row < rows; ++row) {
        compress(h + row * ldc, columns, *next, spare + row * ldc);
      }
      T* const whole = h;
      h = spare;
      spare = whole;
      a = h;
    }
    Kept* const used = now;
    now = next;
    next = used;
  }
  const int64_t out = chain.steps[chain.num_steps - 1].out;
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(chain.out + (sample * chain.rows + row_begin + row) * out, h + row * lda,
                size_t(out) * sizeof(T));
  }
}

// ---------------------------------------------------------------- masked networks

template <class T>
struct MaskedBuffers {
  uint32_t* words;
  T* multiplier;
  T* bias;
  T* h[2];
  int64_t width;
};

template <class T>
MaskedBuffers<T> masked_buffers(const Chain<T>& chain, int64_t rows, Scratch* scratch) {
  int64_t width = 0;
  for (int l = 0; l < chain.num_steps; ++l) {
    width = width < chain.steps[l].in ? chain.steps[l].in : width;
    width = width < chain.steps[l].out ? chain.steps[l].out : width;
  }
  MaskedBuffers<T> buffers;
  buffers.width = padded<T>(width) + Lanes<T>::kPanel;
  buffers.words = scratch->take<uint32_t>(buffers.width);
  buffers.multiplier = scratch->take<T>(buffers.width);
  buffers.bias = scratch->take<T>(buffers.width);
  for (T*& h : buffers.h) {
    h = scratch->take<T>(rows * buffers.width);
  }
  return buffers;
}

template <class T>
int64_t masked_scratch(const Chain<T>& chain, int64_t rows) {
  Scratch scratch(nullptr);
  masked_buffers(chain, rows, &scratch);
  return scratch.used();
}

// to = from * multiplier, the noise of virtual rows [begin, begin + rows).
template <class T>
void perturb(const Chain<T>& chain, const Step<T>& step, int64_t begin, int64_t rows, const T* from,
             int64_t stride, bool from_x, T* to, MaskedBuffers<T>* buffers) {
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t sample = (begin + i) / chain.rows, row = (begin + i) % chain.rows;
    if (step.noise != Noise::kNone && (i == 0 || !chain.shared || row == 0)) {
      make_multipliers(stream_at(chain, step, sample, row), step, buffers->words,
                       buffers->multiplier);
    }
    const T* source = from_x ? from + row * stride : from + i * stride;
    T* target = to + i * buffers->width;
    if (step.noise == Noise::kNone) {
      std::memmove(target, source, size_t(step.in) * sizeof(T));
    } else {
      for (int64_t unit = 0; unit < step.in; ++unit) {
        target[unit] = source[unit] * buffers->multiplier[unit];
      }
    }
  }
}

template <class T>
void run_masked(const Chain<T>& chain, const Packed<T>* packed, int64_t begin, int64_t end,
                void* memory) {
  Scratch scratch(memory);
  const int64_t rows = end - begin;
  MaskedBuffers<T> buffers = masked_buffers(chain, rows, &scratch);
  T* h = buffers.h[0];
  T* spare = buffers.h[1];
  perturb(chain, chain.steps[0], begin, rows, chain.x, chain.steps[0].in, true, h, &buffers);
  for (int l = 0; l < chain.num_steps; ++l) {
    const Step<T>& step = chain.steps[l];
    if (l > 0 && step.noise != Noise::kNone) {
      perturb(chain, step, begin, rows, h, buffers.width, false, h, &buffers);
    }
    if (step.bias) {
      std::memset(buffers.bias, 0, size_t(padded<T>(step.out)) * sizeof(T));
      std::memcpy(buffers.bias, step.bias, size_t(step.out) * sizeof(T));
    }
    const Epilogue<T> epilogue{T(1), step.bias ? buffers.bias : nullptr, step.activation};
    product(rows, step.in, step.out, h, buffers.width, packed[l].panels, spare, buffers.width,
            false, epilogue);
    if (!in_epilogue(step.activation)) {
      activate(step.activation, rows, step.out, spare, buffers.width);
    }
    T* const made = spare;
    spare = h;
    h = made;
  }
  const int64_t out = chain.steps[chain.num_steps - 1].out;
  for (int64_t i = 0; i < rows; ++i) {
    std::memcpy(chain.out + (begin + i) * out, h + i * buffers.width, size_t(out) * sizeof(T));
  }
}

// product[row] = x[row] W, whole rows of the first kernel; `product` has rows of padded width.
template <class T>
void multiply(const Chain<T>& chain, const Packed<T>& packed, int64_t begin, int64_t end,
              T* result) {
  const Epilogue<T> nothing{T(1), nullptr, Activation::kLinear};
  product(end - begin, packed.in, packed.out, chain.x + begin * packed.in, packed.in, packed.panels,
          result + begin * padded<T>(packed.out), padded<T>(packed.out), false, nothing);
}

template <class T>
const Isa<T>* table() {
  static const Isa<T> isa{Lanes<T>::kPanel, cut_scratch<T>, masked_scratch<T>, pack<T>,
                          run_cut<T>,       run_masked<T>,  multiply<T>};
  return &isa;
}

}  // namespace

const Isa<float>* KBD_ISA(float)() { return table<float>(); }
const Isa<double>* KBD_ISA(double)() { return table<double>(); }

}  // namespace kbd
