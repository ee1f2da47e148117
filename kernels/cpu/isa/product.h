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

template <class T, int kRows, int kVectors>
KBD_INLINE void tile(int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                     int64_t ldc, bool resume, const Epilogue<T>* epilogue, int64_t column) {
  using Vector = Vec<T>;
  constexpr int kWidth = Lanes<T>::kWidth;
  Vector sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = Vector{};
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector row[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      row[v] = load(b + k * ldb + v * kWidth);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vector value = splat<T>(a[r * lda + k]);
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = multiply_add(value, row[v], sum[r][v]);
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    const Vector bias = epilogue ? bias_at(*epilogue, column + v * kWidth) : Vector{};
    for (int r = 0; r < kRows; ++r) {
      T* to = c + r * ldc + v * kWidth;
      const Vector total = resume ? load(to) + sum[r][v] : sum[r][v];
      store<T>(to, epilogue ? finish<T>(total, bias, *epilogue) : total);
    }
  }
}

template <class T, int kRows, int kVectors>
void edge(int64_t rows, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
          int64_t ldc, bool resume, const Epilogue<T>* epilogue, int64_t column) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      tile<T, kRows, kVectors>(depth, a, lda, b, ldb, c, ldc, resume, epilogue, column);
    } else {
      edge<T, kRows - 1, kVectors>(rows, depth, a, lda, b, ldb, c, ldc, resume, epilogue, column);
    }
  }
}

// Columns of one panel, or of its first vector.
template <class T, int kVectors>
void dense_panel(int64_t rows, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb,
                 T* c, int64_t ldc, bool resume, const Epilogue<T>* epilogue, int64_t column) {
  int64_t row = 0;
  for (; row + kTileRows <= rows; row += kTileRows) {
    tile<T, kTileRows, kVectors>(depth, a + row * lda, lda, b, ldb, c + row * ldc, ldc, resume,
                                 epilogue, column);
  }
  edge<T, kTileRows - 1, kVectors>(rows - row, depth, a + row * lda, lda, b, ldb, c + row * ldc,
                                   ldc, resume, epilogue, column);
}

// One slab, or a block of its depth. Only vectors that have one of the columns are written.
template <class T>
void dense_slab(int64_t rows, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb,
                int64_t columns, T* c, int64_t ldc, bool resume, const Epilogue<T>* epilogue,
                int64_t column) {
  constexpr int kPanel = Lanes<T>::kPanel;
  for (int64_t panel = 0; panel < columns; panel += kPanel) {
    const auto run = columns - panel > Lanes<T>::kWidth ? dense_panel<T, 2> : dense_panel<T, 1>;
    run(rows, depth, a, lda, b + panel, ldb, c + panel, ldc, resume, epilogue, column + panel);
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

// For a product with so many columns.
template <class T>
Nonzeros find_nonzeros_of(int64_t rows, int64_t depth, int64_t columns, const T* a, int64_t lda,
                          uint64_t* bits) {
  if (!may_be_sparse(depth, columns, Lanes<T>::kPanel)) {
    return {nullptr, rows * depth};
  }
  find_nonzeros(rows, depth, a, lda, bits);
  return nonzeros_of(rows, depth, bits);
}

// A piece of a group: `count` columns of A, of which `bits >> shift` has a bit each.
template <class T>
struct Piece {
  const uint64_t* bits;
  int64_t words;  // from row to row of the bits
  int shift;
  int64_t count;
  bool starts;  // the group
  bool ends;
  const T* b;  // its rows of B,
  int64_t ldb;
  const T* ahead;  // and those of the kernel that come next, which are fetched meanwhile
  int64_t ahead_stride;
  int64_t ahead_rows;
};

// The columns of a kernel that a slab is packed from, if its rows lie one after another: few
// vectors read them where they are, or fetch them ahead.
template <class T>
struct InPlace {
  const T* from;  // null: packed from here and there
  int64_t stride;

  // Whether rows begin with a cache line, and 64 of them do not fall on the same few.
  bool is_readable() const {
    const int64_t line = 64, bytes = stride * int64_t(sizeof(T));
    return from && reinterpret_cast<uintptr_t>(from) % line == 0 && bytes % line == 0 &&
           bytes / line % 16 != 0;
  }
};

// Adds a piece of a group to `partial`, and the whole group to C. `kStarts` and `kEnds` say which
// piece of its group it is.
template <class T, int kVectors, bool kStarts, bool kEnds>
__attribute__((noinline)) void sparse_slab(int64_t rows, const T* a, int64_t lda,
                                           const Piece<T>& piece, T* partial, T* c, int64_t ldc,
                                           bool resume, const Epilogue<T>* epilogue,
                                           int64_t column) {
  constexpr int kWidth = Lanes<T>::kWidth;
  const uint64_t* bits = piece.bits;
  const uint64_t mask = piece.count < 64 ? (uint64_t(1) << piece.count) - 1 : ~uint64_t(0);
  const int shift = piece.shift;
  const int64_t words = piece.words, ldb = piece.ldb;
  const T* const b = piece.b;
  const T* ahead = piece.ahead;
  int64_t ahead_left = piece.ahead_rows;
  const int64_t ahead_per_row = ceil_div(ahead_left, rows > 0 ? rows : 1);
  for (int64_t row = 0; row < rows;
       ++row, a += lda, bits += words, c += ldc, partial += kVectors * kWidth) {
    for (int64_t n = ahead_per_row; n > 0 && ahead_left > 0; --n, --ahead_left) {
      for (int v = 0; v < kVectors; ++v) {
        __builtin_prefetch(ahead + v * kWidth, 0, 2);
      }
      ahead += piece.ahead_stride;
    }
    for (int64_t k = 0; k < kSparseDepth; k += 64 / int64_t(sizeof(T))) {
      __builtin_prefetch(a + 2 * lda + k);
    }
    Vec<T> sum[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = kStarts ? Vec<T>{} : load(partial + v * kWidth);
    }
    for (uint64_t left = *bits >> shift & mask; left != 0; left &= left - 1) {
      const int64_t k = __builtin_ctzll(left);
      const Vec<T> value = splat<T>(a[k]);
      const T* from = b + k * ldb;
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = multiply_add(value, load(from + v * kWidth), sum[v]);
      }
    }
    if constexpr (!kEnds) {
      for (int v = 0; v < kVectors; ++v) {
        store<T>(partial + v * kWidth, sum[v]);
      }
    } else {
      for (int v = 0; v < kVectors; ++v) {
        const Vec<T> total = resume ? load(c + v * kWidth) + sum[v] : sum[v];
        store<T>(c + v * kWidth,
                 epilogue ? finish<T>(total, bias_at(*epilogue, column + v * kWidth), *epilogue)
                          : total);
      }
    }
  }
}

template <class T, int kVectors>
void sparse_slab(int64_t rows, const T* a, int64_t lda, const Piece<T>& piece, T* partial, T* c,
                 int64_t ldc, bool resume, const Epilogue<T>* epilogue, int64_t column) {
  const auto run = piece.starts ? piece.ends ? sparse_slab<T, kVectors, true, true>
                                             : sparse_slab<T, kVectors, true, false>
                   : piece.ends ? sparse_slab<T, kVectors, false, true>
                                : sparse_slab<T, kVectors, false, false>;
  run(rows, a, lda, piece, partial, c, ldc, resume, epilogue, column);
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
                                   const Nonzeros& nonzeros, const Source& source,
                                   const InPlace<T>& kernel, int64_t column, int64_t columns,
                                   T* partial, T* c, int64_t ldc, bool accumulate,
                                   const Epilogue<T>* epilogue) {
  const int64_t width = padded<T>(columns);
  const uint64_t* bits = nonzeros.bits;
  // A single panel is not wide enough to hide the latency of a sum.
  const int64_t panels = bits ? width / Lanes<T>::kPanel : 1;
  const bool sparse = panels > 1;
  c += column;
  const bool in_place = sparse && columns == width && kernel.is_readable();
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
    const bool by_pieces = sparse && (in_place || rows <= kChunk);
    const T* whole = in_place    ? kernel.from + first * kernel.stride
                     : by_pieces ? nullptr
                                 : source(first, end - first);
    const int64_t ldb = in_place ? kernel.stride : width;
    for (int64_t row = 0; row < rows; row += kChunk) {
      const int64_t some = rows - row < kChunk ? rows - row : kChunk;
      const T* from = a + row * lda;
      T* to = c + row * ldc;
      if (!sparse) {
        dense_slab(some, end - first, from + first, lda, whole, ldb, columns, to, ldc, resume,
                   finally, column);
        continue;
      }
      int64_t at = first;
      do {
        const int64_t next = (at / kSparseDepth + 1) * kSparseDepth;
        const int64_t until = next < end ? next : end;
        const int64_t rest = groups.depth - until;
        const bool fetches = kernel.from && by_pieces && row == 0;
        const Piece<T> piece{bits + row * words + at / kSparseDepth,
                             words,
                             int(at % kSparseDepth),
                             until - at,
                             at == first,
                             until == end,
                             whole ? whole + (at - first) * ldb : source(at, until - at),
                             ldb,
                             fetches ? kernel.from + until * kernel.stride : nullptr,
                             kernel.stride,
                             !fetches              ? 0
                             : rest < kSparseDepth ? rest
                                                   : kSparseDepth};
        const auto run = panels == 2   ? sparse_slab<T, 4>
                         : panels == 3 ? sparse_slab<T, 6>
                         : panels == 4 ? sparse_slab<T, 8>
                                       : sparse_slab<T, 10>;
        run(some, from + at, lda, piece, partial, to, ldc, resume, finally, column);
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
        [&](int64_t first, int64_t) { return slab + first * width; }, InPlace<T>{nullptr, 0},
        column, slab_columns<T>(column, out), partial, c, ldc, accumulate, &epilogue);
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
  return product_of_slab(rows, groups_of(step.in), a, lda, nonzeros, source,
                         InPlace<T>{step.kernel + column, step.out}, column, columns, partial, c,
                         ldc, accumulate, &epilogue);
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
    done += product_of_slab(rows, groups, a, lda, nonzeros, source, InPlace<T>{nullptr, 0}, column,
                            slab_columns<T>(column, out), partial, c, ldc, accumulate, epilogue);
  }
  return done;
}

}  // namespace
}  // namespace kbd

#endif  // KBD_CPU_ISA_PRODUCT_H_
