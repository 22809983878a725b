// What an epilogue reads beside accumulators: one element for each column or row of the tile, a number, whether a column
// is within a range, a matrix.
//
// `Arguments` is what the kernel gets, `Storage` lies in shared memory. All threads of the epilogue call `begin` once
// per output tile, and meet afterwards if `kShared`. `fetch` starts to load what a thread needs of a box, while the
// thread still works on the box before. `get` is for two neighbours, which a `Spot` names.
#pragma once

#include <cutlass/cutlass.h>

namespace mucc::gemm {

// The tile of a thread, and which of its elements belong to it.
struct Place {
  int thread, threads;  // of those in the epilogue
  int m, n, l;          // the first element of the output tile, and its batch
  int row, step;        // row 2 * i + h of a thread is `row + step * i + 8 * h` of the tile
  int col;              // of its first element in each eight columns
  int M, N;

  CUTLASS_DEVICE int row_of(int i) const { return m + row + i / 2 * step + i % 2 * 8; }
};

// Columns n and n + 1 of the tile in the thread's row i: pair (g, h) of those that it has in a box.
struct Spot {
  int i, n, g, h;
};

struct Pair {
  float x, y;
};

// What nothing is fetched of.
struct Ready {
  CUTLASS_DEVICE void fetch(Place const&, int, int, int) {}
};

// One element per column of a tile of kTileN columns.
template <class T, int kTileN>
struct Row : Ready {
  struct Arguments {
    T const* data;
    int64_t batch;  // elements from one batch to the next
  };
  struct Storage {
    alignas(16) T values[kTileN];
  };
  struct alignas(2 * sizeof(T)) Two {
    T x, y;
  };
  static constexpr bool kShared = true;
  T const* values;

  CUTLASS_DEVICE void begin(Arguments const& a, Storage& storage, Place const& p) {
    T const* from = a.data + p.l * a.batch + p.n;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kTileN; i += p.threads) {
      int const n = i + p.thread;
      if (n < kTileN) storage.values[n] = p.n + n < p.N ? from[n] : T(0);
    }
    values = storage.values;
  }
  CUTLASS_DEVICE Pair get(Spot const& at) const {
    Two const two = *reinterpret_cast<Two const*>(values + at.n);
    return {float(two.x), float(two.y)};
  }
};

// One element per row; kRows of them belong to a thread.
template <class T, int kRows>
struct Column : Ready {
  struct Arguments {
    T const* data;
    int64_t batch;
  };
  struct Storage {};
  static constexpr bool kShared = false;
  float values[kRows];

  CUTLASS_DEVICE void begin(Arguments const& a, Storage&, Place const& p) {
    T const* from = a.data + p.l * a.batch;
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      int const m = p.row_of(i);
      values[i] = m < p.M ? float(from[m]) : 0.0f;
    }
  }
  CUTLASS_DEVICE Pair get(Spot const& at) const { return {values[at.i], values[at.i]}; }
};

// One number: in memory, or where `data` is null in the arguments.
template <class T>
struct Scalar : Ready {
  struct Arguments {
    T const* data;
    int64_t batch;
    T value;
  };
  struct Storage {};
  static constexpr bool kShared = false;
  float value;

  CUTLASS_DEVICE void begin(Arguments const& a, Storage&, Place const& p) {
    value = float(a.data ? a.data[p.l * a.batch] : a.value);
  }
  CUTLASS_DEVICE Pair get(Spot const&) const { return {value, value}; }
};

// 1 in the columns of a range, 0 in others.
struct Inside : Ready {
  struct Arguments {
    int low, count;
  };
  struct Storage {};
  static constexpr bool kShared = false;
  int first, count;  // the tile's first column, counted from the range's

  CUTLASS_DEVICE void begin(Arguments const& a, Storage&, Place const& p) {
    first = p.n - a.low;
    count = a.count;
  }
  CUTLASS_DEVICE Pair get(Spot const& at) const {
    return {unsigned(first + at.n) < unsigned(count) ? 1.0f : 0.0f,
            unsigned(first + at.n + 1) < unsigned(count) ? 1.0f : 0.0f};
  }
};

// A matrix, of which a thread reads what belongs to its accumulators from memory; kRows rows belong to a thread.
// Neighbours lie side by side in a row or, where `kColumns`, in a column.
template <class T, int kRows, bool kColumns = false>
struct Matrix {
  struct Arguments {
    T const* data;
    int64_t line;  // elements from one row (column) to the next
    int64_t batch;
  };
  struct Storage {};
  struct alignas(2 * sizeof(T)) Two {
    T x, y;
  };
  static constexpr bool kShared = false;
  T const* from;  // of the thread's first element in the tile
  int64_t line;
  Two box[4][2];

  CUTLASS_DEVICE void begin(Arguments const& a, Storage&, Place const& p) {
    int64_t const m = p.row_of(0), n = p.n + p.col;
    from = a.data + p.l * a.batch + (kColumns ? n * a.line + m : m * a.line + n);
    line = a.line;
  }
  // Of row-major matrices N is even: rows are whole multiples of 16 bytes.
  CUTLASS_DEVICE void fetch(Place const& p, int m, int n, int groups) {
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < 4; ++g) {
      if (g >= groups) continue;
      CUTLASS_PRAGMA_UNROLL
      for (int h = 0; h < 2; ++h) {
        int const row = m * p.step + h * 8, column = n + g * 8;
        box[g][h] = {T(0), T(0)};
        if (p.m + p.row + row >= p.M || p.n + p.col + column >= p.N) continue;
        if constexpr (kColumns) {
          T const* const at = from + column * line + row;
          box[g][h].x = at[0];
          if (p.n + p.col + column + 1 < p.N) box[g][h].y = at[line];
        } else {
          box[g][h] = *reinterpret_cast<Two const*>(from + row * line + column);
        }
      }
    }
  }
  CUTLASS_DEVICE Pair get(Spot const& at) const {
    Two const two = box[at.g][at.h];
    return {float(two.x), float(two.y)};
  }
};

}  // namespace mucc::gemm
