// What an epilogue reduces or stores beside the result: reductions over rows, columns or both, further matrices, and one
// element for each group of columns.
//
// `add` takes two neighbours, `end_box` comes after a box, `end_columns` after all boxes of the same columns, and
// `end` after the tile. What is reduced is combined with what memory holds, which is filled before the launch.
#pragma once

#include <mucc/visit_formats.cuh>

namespace mucc::gemm {

// A reduction by `Kind`, combined with memory by atomic operations.
template <class Kind>
struct Fold : Ready {
  struct Arguments {
    float* data;
    int64_t batch;
  };
  struct Storage {};
  static constexpr bool kShared = false;
  float* to;

  CUTLASS_DEVICE void begin(Arguments const& a, Storage&, Place const& p) { to = a.data + p.l * a.batch; }

  CUTLASS_DEVICE void end_box(Place const&, int, int, int) {}

  static CUTLASS_DEVICE void combine(float& sum, float x) { sum = Kind::combine(sum, Kind::first(x)); }
  // Over lanes whose numbers differ in these bits.
  static CUTLASS_DEVICE float combine_lanes(float sum, int from, int upto) {
    CUTLASS_PRAGMA_UNROLL
    for (int lanes = from; lanes <= upto; lanes *= 2) sum = Kind::combine(sum, __shfl_xor_sync(~0u, sum, lanes));
    return sum;
  }
};

// Over N, into a vector along M.
template <class Kind, int kRows>
struct FoldColumns : Fold<Kind> {
  float sums[kRows];

  CUTLASS_DEVICE void begin(typename Fold<Kind>::Arguments const& a, typename Fold<Kind>::Storage& s, Place const& p) {
    Fold<Kind>::begin(a, s, p);
    CUTLASS_PRAGMA_UNROLL
    for (float& sum : sums) sum = Kind::identity;
  }
  CUTLASS_DEVICE void add(Place const& p, Spot const& at, Pair x) {
    if (p.n + at.n < p.N) this->combine(sums[at.i], x.x);
    if (p.n + at.n + 1 < p.N) this->combine(sums[at.i], x.y);
  }
  CUTLASS_DEVICE void end_columns(Place const&, int, int) {}
  CUTLASS_DEVICE void end(Place const& p) {
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kRows; ++i) {
      float const sum = this->combine_lanes(sums[i], 1, 2);
      if (p.col == 0 && p.row_of(i) < p.M) Kind::atomic(this->to + p.row_of(i), sum);
    }
  }
};

// Over M, into a vector along N.
template <class Kind>
struct FoldRows : Fold<Kind> {
  Pair sums[4];

  CUTLASS_DEVICE void begin(typename Fold<Kind>::Arguments const& a, typename Fold<Kind>::Storage& s, Place const& p) {
    Fold<Kind>::begin(a, s, p);
    clear();
  }
  CUTLASS_DEVICE void clear() {
    CUTLASS_PRAGMA_UNROLL
    for (Pair& sum : sums) sum = {Kind::identity, Kind::identity};
  }
  CUTLASS_DEVICE void add(Place const& p, Spot const& at, Pair x) {
    if (p.row_of(at.i) >= p.M) return;
    this->combine(sums[at.g].x, x.x);
    this->combine(sums[at.g].y, x.y);
  }
  CUTLASS_DEVICE void end_columns(Place const& p, int n, int groups) {
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < 4; ++g) {
      if (g >= groups) continue;
      Pair const sum{this->combine_lanes(sums[g].x, 4, 16), this->combine_lanes(sums[g].y, 4, 16)};
      int const column = p.n + n + g * 8 + p.col;
      if (p.thread % 32 >= 4) continue;
      if (column < p.N) Kind::atomic(this->to + column, sum.x);
      if (column + 1 < p.N) Kind::atomic(this->to + column + 1, sum.y);
    }
    clear();
  }
  CUTLASS_DEVICE void end(Place const&) {}
};

// Over both, into a number.
template <class Kind>
struct FoldAll : Fold<Kind> {
  float sum;

  CUTLASS_DEVICE void begin(typename Fold<Kind>::Arguments const& a, typename Fold<Kind>::Storage& s, Place const& p) {
    Fold<Kind>::begin(a, s, p);
    sum = Kind::identity;
  }
  CUTLASS_DEVICE void add(Place const& p, Spot const& at, Pair x) {
    if (p.row_of(at.i) >= p.M) return;
    if (p.n + at.n < p.N) this->combine(sum, x.x);
    if (p.n + at.n + 1 < p.N) this->combine(sum, x.y);
  }
  CUTLASS_DEVICE void end_columns(Place const&, int, int) {}
  CUTLASS_DEVICE void end(Place const& p) {
    float const all = this->combine_lanes(sum, 1, 16);
    if (p.thread % 32 == 0) Kind::atomic(this->to, all);
  }
};

// A further matrix that is stored, which lies as a Matrix does. Threads store what they hold where it belongs; of rows
// of 16-bit elements the four lanes that hold pieces of the same row exchange them first, so that each has 16 bytes.
template <class T, bool kColumns = false>
struct Stored : Ready {
  struct Arguments {
    T* data;
    int64_t line, batch;
  };
  struct Storage {};
  static constexpr bool kShared = false, kExchanges = sizeof(T) == 2 && !kColumns;
  T* to;
  int64_t line;
  uint32_t box[4][2];

  CUTLASS_DEVICE void begin(Arguments const& a, Storage&, Place const& p) {
    to = a.data + p.l * a.batch + (kColumns ? p.n * a.line : p.n);
    line = a.line;
  }
  CUTLASS_DEVICE void add(Place const& p, Spot const& at, Pair x) {
    int64_t const m = p.row_of(at.i);
    if constexpr (kExchanges) {
      box[at.g][at.h] = Output<T>::pack(x);
      return;
    }
    if (m >= p.M || p.n + at.n >= p.N) return;
    if constexpr (kColumns) {
      to[at.n * line + m] = narrowed(x).x;
      if (p.n + at.n + 1 < p.N) to[(at.n + 1) * line + m] = narrowed(x).y;
    } else {
      *reinterpret_cast<Two*>(to + m * line + at.n) = narrowed(x);
    }
  }
  // Columns past the last one come in eights, as rows are whole multiples of 16 bytes.
  CUTLASS_DEVICE void end_box(Place const& p, int m, int n, int groups) {
    if constexpr (!kExchanges) return;
    int const own = p.thread % 4;  // the eight columns that this lane stores
    CUTLASS_PRAGMA_UNROLL
    for (int h = 0; h < 2; ++h) {
      uint32_t piece[4] = {};
      CUTLASS_PRAGMA_UNROLL
      for (int step = 0; step < 4; ++step) {
        int const other = own ^ step;
        uint32_t const sent = other == 0 ? box[0][h] : other == 1 ? box[1][h] : other == 2 ? box[2][h] : box[3][h];
        uint32_t const got = __shfl_xor_sync(~0u, sent, step);
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < 4; ++i) piece[i] = i == other ? got : piece[i];
      }
      int64_t const row = p.row_of(2 * m + h);
      int const column = n + own * 8;
      if (own < groups && row < p.M && p.n + column < p.N)
        *reinterpret_cast<uint4*>(to + row * line + column) = {piece[0], piece[1], piece[2], piece[3]};
    }
  }
  CUTLASS_DEVICE void end_columns(Place const&, int, int) {}
  CUTLASS_DEVICE void end(Place const&) {}

 private:
  struct alignas(2 * sizeof(T)) Two {
    T x, y;
  };
  static CUTLASS_DEVICE Two narrowed(Pair x) {
    if constexpr (std::is_same_v<T, float>) {
      return {x.x, x.y};
    } else {
      auto const both = Output<T>::pack(x);
      return *reinterpret_cast<Two const*>(&both);
    }
  }
};

// One element of a matrix for each group of kWidth neighbours in a row: what is added has one value for all of a group.
template <int kWidth>
struct Grouped : Ready {
  struct Arguments {
    float* data;
    int64_t line, batch;
  };
  struct Storage {};
  static constexpr bool kShared = false;
  static constexpr int kEvery = kWidth < 8 ? 1 : kWidth / 8;  // pairs of a thread that have the same value
  float* to;
  int64_t line;

  CUTLASS_DEVICE void begin(Arguments const& a, Storage&, Place const& p) {
    to = a.data + p.l * a.batch;
    line = a.line;
  }
  CUTLASS_DEVICE void add(Place const& p, Spot const& at, Pair x) {
    int const m = p.row_of(at.i), n = p.n + at.n;
    if (n % kWidth == 0 && m < p.M && n < p.N) to[m * line + n / kWidth] = x.x;
  }
  CUTLASS_DEVICE void end_box(Place const&, int, int, int) {}
  CUTLASS_DEVICE void end_columns(Place const&, int, int) {}
  CUTLASS_DEVICE void end(Place const&) {}
};

}  // namespace mucc::gemm
