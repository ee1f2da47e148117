// SPDX-License-Identifier: Apache-2.0
//
// Matrix product. C[m, n] = sum_k A[m, k] B[k, n] with A row-major and B packed in slabs. There
// are two ways:
//
//   dense   register tiles of KBD_TILE_ROWS x 2 vectors; depth is cut in blocks so that a
//           panel's block stays in the first-level cache while all rows pass
//   sparse  one row at a time, as wide as a slab, over the elements of A that are not zero: what
//           a mask has dropped and what relu has cut off costs nothing
//
// In both every element of C is made of the sums over groups of units, each in order and from zero,
// one after another: a long sum would round more than it need. The groups are those of the kernel's
// own units, whether or not some of them are cut out, and a zero adds nothing, exactly: results
// do not depend on the way, tiling, batch size, or threads.
#ifndef KBD_CPU_ISA_PRODUCT_H_
#define KBD_CPU_ISA_PRODUCT_H_

#include "cpu/isa/pack.h"

namespace kbd {
namespace {

constexpr int kTileRows = KBD_TILE_ROWS;
// Depth of a block of the sparse way: a bit each in a word. 64 x 80 floats are 20 KB.
constexpr int64_t kSparseDepth = 64;
// What is done to a finished sum: y = activation(sum * scale + bias).
template <class T>
struct Epilogue {
  T scale;
  const T* bias;  // padded to whole panels, or null
  Activation activation;
};

template <class T>
KBD_INLINE Vec<T> finish(Vec<T> sum, Vec<T> bias, const Epilogue<T>& epilogue) {
  const Vec<T> y = multiply_add(sum, splat<T>(epilogue.scale), bias);
  // As std::max(y, 0): a NaN stays a NaN.
  return epilogue.activation == Activation::kRelu ? (y < Vec<T>{} ? Vec<T>{} : y) : y;
}

template <class T>
KBD_INLINE Vec<T> bias_at(const Epilogue<T>& epilogue, int64_t column) {
  return epilogue.bias ? load(epilogue.bias + column) : Vec<T>{};
}

// Where the groups of A's columns end.
struct Groups {
  const int32_t* ends;  // null: every kGroup columns
  int64_t count;
  int64_t depth;
  int64_t before;  // columns of A that lie in groups before these

  int64_t end(int64_t group) const {
    const int64_t whole = (group + 1) * kGroup;
    return ends ? ends[group] - before : whole < depth ? whole : depth;
  }

  // Groups [first, last) as a whole of its own.
  Groups part(int64_t first, int64_t last) const {
    const int64_t skipped = first > 0 ? end(first - 1) : 0;
    return {ends ? ends + first : nullptr, last - first, end(last - 1) - skipped, before + skipped};
  }
};

inline Groups groups_of(int64_t depth) { return {nullptr, ceil_div(depth, kGroup), depth, 0}; }
inline Groups groups_of(const Kept& kept) { return {kept.ends, kept.groups, kept.count, 0}; }

template <class T, int kRows>
KBD_INLINE void tile(int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                     int64_t ldc, bool resume, const Epilogue<T>* epilogue, int64_t column) {
  using Vector = Vec<T>;
  constexpr int kWidth = Lanes<T>::kWidth;
  Vector sum[kRows][2];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      sum[r][v] = Vector{};
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    const Vector b0 = load(b + k * ldb);
    const Vector b1 = load(b + k * ldb + kWidth);
    for (int r = 0; r < kRows; ++r) {
      const Vector value = splat<T>(a[r * lda + k]);
      sum[r][0] = multiply_add(value, b0, sum[r][0]);
      sum[r][1] = multiply_add(value, b1, sum[r][1]);
    }
  }
  for (int v = 0; v < 2; ++v) {
    const Vector bias = epilogue ? bias_at(*epilogue, column + v * kWidth) : Vector{};
    for (int r = 0; r < kRows; ++r) {
      T* to = c + r * ldc + v * kWidth;
      const Vector total = resume ? load(to) + sum[r][v] : sum[r][v];
      store<T>(to, epilogue ? finish<T>(total, bias, *epilogue) : total);
    }
  }
}

template <class T, int kRows>
void edge(int64_t rows, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
          int64_t ldc, bool resume, const Epilogue<T>* epilogue, int64_t column) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      tile<T, kRows>(depth, a, lda, b, ldb, c, ldc, resume, epilogue, column);
    } else {
      edge<T, kRows - 1>(rows, depth, a, lda, b, ldb, c, ldc, resume, epilogue, column);
    }
  }
}

// One slab, or a block of its depth.
template <class T>
void dense_slab(int64_t rows, int64_t depth, const T* a, int64_t lda, const T* b, int64_t width,
                T* c, int64_t ldc, bool resume, const Epilogue<T>* epilogue, int64_t column) {
  constexpr int kPanel = Lanes<T>::kPanel;
  for (int64_t panel = 0; panel < width; panel += kPanel) {
    int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows) {
      tile<T, kTileRows>(depth, a + row * lda, lda, b + panel, width, c + row * ldc + panel, ldc,
                         resume, epilogue, column + panel);
    }
    edge<T, kTileRows - 1>(rows - row, depth, a + row * lda, lda, b + panel, width,
                           c + row * ldc + panel, ldc, resume, epilogue, column + panel);
  }
}

// Words of bits of a row of so many elements.
inline int64_t bit_words(int64_t depth) { return ceil_div(depth, kSparseDepth); }

// One bit per element of A: whether it is not zero. bits: [rows, bit_words(depth)].
template <class T>
void find_nonzeros(int64_t rows, int64_t depth, const T* a, int64_t lda, uint64_t* bits) {
  constexpr int kWidth = Lanes<T>::kWidth;
  for (int64_t row = 0; row < rows; ++row) {
    const T* from = a + row * lda;
    for (int64_t first = 0; first < depth; first += kSparseDepth, ++bits) {
      const int64_t size = depth - first < kSparseDepth ? depth - first : kSparseDepth;
      uint64_t word = 0;
      int64_t k = 0;
      for (; k + kWidth <= size; k += kWidth) {
        word |= bits_of_lanes<T>(load(from + first + k) != T(0)) << k;
      }
      if (k < size) {
        word |= bits_of_lanes<T>(load_part(from + first + k, size - k) != T(0)) << k;
      }
      *bits = word;
    }
  }
}

// The bits of A if it is sparse, else null; and how many elements are multiplied then.
struct Nonzeros {
  const uint64_t* bits;
  int64_t count;
};

inline Nonzeros nonzeros_of(int64_t rows, int64_t depth, const uint64_t* bits) {
  int64_t count = 0;
  for (int64_t i = 0; i < rows * bit_words(depth); ++i) {
    count += __builtin_popcountll(bits[i]);
  }
  const bool sparse = double(count) < kMostSparse * double(rows) * double(depth);
  return sparse ? Nonzeros{bits, count} : Nonzeros{nullptr, rows * depth};
}

template <class T>
Nonzeros find_nonzeros_of(int64_t rows, int64_t depth, const T* a, int64_t lda, uint64_t* bits) {
  find_nonzeros(rows, depth, a, lda, bits);
  return nonzeros_of(rows, depth, bits);
}

// A piece of a group: `count` columns of A, of which `bits >> shift` has a bit each.
struct Piece {
  const uint64_t* bits;
  int64_t words;  // from row to row of the bits
  int shift;
  int64_t count;
  bool starts;  // the group
  bool ends;
};

// Adds a piece of a group to `partial`, and the whole group to C.
template <class T, int kVectors>
__attribute__((noinline)) void sparse_slab(int64_t rows, const T* a, int64_t lda,
                                           const Piece& piece, const T* b, T* partial, T* c,
                                           int64_t ldc, bool resume, const Epilogue<T>* epilogue,
                                           int64_t column) {
  constexpr int kWidth = Lanes<T>::kWidth;
  const uint64_t* bits = piece.bits;
  const uint64_t mask = piece.count < 64 ? (uint64_t(1) << piece.count) - 1 : ~uint64_t(0);
  for (int64_t row = 0; row < rows;
       ++row, a += lda, bits += piece.words, c += ldc, partial += kVectors * kWidth) {
    Vec<T> sum[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = piece.starts ? Vec<T>{} : load(partial + v * kWidth);
    }
    for (uint64_t left = *bits >> piece.shift & mask; left != 0; left &= left - 1) {
      const int64_t k = __builtin_ctzll(left);
      const Vec<T> value = splat<T>(a[k]);
      const T* from = b + k * (kVectors * kWidth);
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = multiply_add(value, load(from + v * kWidth), sum[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      if (!piece.ends) {
        store<T>(partial + v * kWidth, sum[v]);
        continue;
      }
      const Vec<T> total = resume ? load(c + v * kWidth) + sum[v] : sum[v];
      store<T>(
          c + v * kWidth,
          epilogue ? finish<T>(total, bias_at(*epilogue, column + v * kWidth), *epilogue) : total);
    }
  }
}

// Rows that pass a block of a slab together.
constexpr int64_t kChunk = 252;
// Elements of scratch for their partial sums.
template <class T>
constexpr int64_t kPartial = kChunk * Lanes<T>::kSlab;

// The columns of C that belong to one slab; returns the multiply-adds done. source(first, count)
// returns rows [first, first + count) of the slab, a group or a part of one. Without an epilogue
// the sums are left as they are.
template <class T, class Source>
KBD_INLINE int64_t product_of_slab(int64_t rows, const Groups& groups, const T* a, int64_t lda,
                                   const Nonzeros& nonzeros, const Source& source, int64_t column,
                                   int64_t columns, T* partial, T* c, int64_t ldc, bool accumulate,
                                   const Epilogue<T>* epilogue) {
  const int64_t width = padded<T>(columns);
  const uint64_t* bits = nonzeros.bits;
  // A single panel is not wide enough to hide the latency of a sum.
  const int64_t panels = bits ? width / Lanes<T>::kPanel : 1;
  const bool sparse = panels > 1;
  c += column;
  const int64_t words = bit_words(groups.depth);
  // An empty group adds nothing; but the last one, empty or not, has the epilogue.
  int64_t last = groups.count - 1;
  while (last > 0 && groups.end(last) == groups.end(last - 1)) {
    --last;
  }
  bool resume = accumulate;
  int64_t first = 0;
  for (int64_t group = 0; group <= last || group == 0; ++group) {
    const int64_t end = groups.count > 0 ? groups.end(group) : 0;
    const Epilogue<T>* finally = group >= last ? epilogue : nullptr;
    if (first == end && !finally) {
      continue;
    }
    // Few rows take a piece from the cache it was just put into.
    const T* whole = sparse && rows <= kChunk ? nullptr : source(first, end - first);
    for (int64_t row = 0; row < rows; row += kChunk) {
      const int64_t some = rows - row < kChunk ? rows - row : kChunk;
      const T* from = a + row * lda;
      T* to = c + row * ldc;
      if (!sparse) {
        dense_slab(some, end - first, from + first, lda, whole, width, to, ldc, resume, finally,
                   column);
        continue;
      }
      int64_t at = first;
      do {
        const int64_t next = (at / kSparseDepth + 1) * kSparseDepth;
        const int64_t until = next < end ? next : end;
        const Piece piece{bits + row * words + at / kSparseDepth,
                          words,
                          int(at % kSparseDepth),
                          until - at,
                          at == first,
                          until == end};
        const T* b = whole ? whole + (at - first) * width : source(at, until - at);
        switch (panels) {
          case 2:
            sparse_slab<T, 4>(some, from + at, lda, piece, b, partial, to, ldc, resume, finally,
                              column);
            break;
          case 3:
            sparse_slab<T, 6>(some, from + at, lda, piece, b, partial, to, ldc, resume, finally,
                              column);
            break;
          case 4:
            sparse_slab<T, 8>(some, from + at, lda, piece, b, partial, to, ldc, resume, finally,
                              column);
            break;
          default:
            sparse_slab<T, 10>(some, from + at, lda, piece, b, partial, to, ldc, resume, finally,
                               column);
        }
        at = until;
      } while (at < end);
    }
    resume = true;
    first = end;
  }
  return (sparse ? nonzeros.count : rows * groups.depth) * columns;
}

// Columns of the slab that begins at `column`, if there are `out` in all.
template <class T>
int64_t slab_columns(int64_t column, int64_t out) {
  return out - column < Lanes<T>::kSlab ? out - column : int64_t(Lanes<T>::kSlab);
}

// C = epilogue(A B), or of C + A B where `accumulate`. C has padded rows of `ldc` elements. Returns
// the multiply-adds done.
template <class T>
int64_t product(int64_t rows, const Groups& groups, int64_t out, const T* a, int64_t lda,
                const Nonzeros& nonzeros, const T* slabs, T* partial, T* c, int64_t ldc,
                bool accumulate, const Epilogue<T>& epilogue) {
  int64_t done = 0;
  for (int64_t column = 0; column < out; column += Lanes<T>::kSlab) {
    const int64_t width = slab_width<T>(column, out);
    const T* slab = slabs + column * groups.depth;
    done += product_of_slab(
        rows, groups, a, lda, nonzeros,
        [&](int64_t first, int64_t) { return slab + first * width; }, column,
        slab_columns<T>(column, out), partial, c, ldc, accumulate, &epilogue);
  }
  return done;
}

// Elements of scratch for a block of a kernel.
template <class T>
constexpr int64_t kBlock = kGroup * Lanes<T>::kSlab + kBeyondBlock;

// Columns [column, column + width) of the product with a whole kernel that is packed on the way,
// into `block`: a kernel that few rows pass is read once and never written to memory.
template <class T>
int64_t product_of_kernel(const Step<T>& step, int64_t column, int64_t width, int64_t rows,
                          const T* a, int64_t lda, const Nonzeros& nonzeros, T* block, T* partial,
                          T* c, int64_t ldc, bool accumulate, const Epilogue<T>& epilogue) {
  const int64_t rest = step.out - column, columns = rest < width ? rest : width;
  const auto source = [&](int64_t first, int64_t count) {
    pack_rows(step, column, padded<T>(columns), first, count, block);
    return static_cast<const T*>(block);
  };
  return product_of_slab(rows, groups_of(step.in), a, lda, nonzeros, source, column, columns,
                         partial, c, ldc, accumulate, &epilogue);
}

// The product with a kernel that is cut to `kept` and `columns` (all if null), block by block into
// `block`. `groups` are those of A, some or all of the kernel's.
template <class T>
int64_t product_of_cut(const Step<T>& step, const Kept* kept, const Kept* columns, int64_t rows,
                       const Groups& groups, const T* a, int64_t lda, const Nonzeros& nonzeros,
                       T* block, T* partial, T* c, int64_t ldc, bool accumulate,
                       const Epilogue<T>* epilogue) {
  const int64_t out = columns ? columns->count : step.out;
  int64_t done = 0;
  for (int64_t column = 0; column < out; column += Lanes<T>::kSlab) {
    const int64_t width = slab_width<T>(column, out);
    const auto source = [&](int64_t first, int64_t count) {
      pack_block(step, kept, columns, column, width, groups.before + first, count, block);
      return static_cast<const T*>(block);
    };
    done += product_of_slab(rows, groups, a, lda, nonzeros, source, column,
                            slab_columns<T>(column, out), partial, c, ldc, accumulate, epilogue);
  }
  return done;
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_PRODUCT_H_
