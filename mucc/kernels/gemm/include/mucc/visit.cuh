// What mucc/epilogue.cuh does with accumulators: values that bodies compute from them, vectors, numbers and matrices, of
// which one is stored and others are reduced.
#pragma once

#include <cuda.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/numeric_conversion.h>
#include <mucc/apply.cuh>

namespace mucc::gemm {

// ---- what a body reads beside the accumulator -----------------------------------------------------------------
//
// `Arguments` is what the kernel gets, `Storage` lies in shared memory. All threads of the epilogue call `begin` once
// per output tile, and meet afterwards if `kShared`. `fetch` starts to load what a thread needs of a box, while the
// thread still works on the box before. `get` is for two neighbours, which a `Spot` names.

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

// ---- formats of results ---------------------------------------------------------------------------------------

template <class T>
struct Output;
template <>
struct Output<float> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
};
template <>
struct Output<cutlass::bfloat16_t> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  static CUTLASS_DEVICE uint32_t pack(Pair p) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(p.y), "f"(p.x));
    return both;
  }
};
template <>
struct Output<cutlass::half_t> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  static CUTLASS_DEVICE uint32_t pack(Pair p) {
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(p.y), "f"(p.x));
    return both;
  }
};

template <class T>
struct OutputFloat8 {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static CUTLASS_DEVICE uint16_t pack(Pair p) {
    uint16_t both;
    if constexpr (cute::is_same_v<T, cutlass::float_e4m3_t>) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(p.y), "f"(p.x));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(p.y), "f"(p.x));
    }
    return both;
  }
};
template <>
struct Output<cutlass::float_e4m3_t> : OutputFloat8<cutlass::float_e4m3_t> {};
template <>
struct Output<cutlass::float_e5m2_t> : OutputFloat8<cutlass::float_e5m2_t> {};

template <class T>
struct OutputInteger8 {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static CUTLASS_DEVICE uint16_t pack(Pair p) {
    cutlass::NumericConverter<T, float> const narrow;
    return uint16_t(uint8_t(narrow(p.x)) | uint8_t(narrow(p.y)) << 8);
  }
};
template <>
struct Output<int8_t> : OutputInteger8<int8_t> {};
template <>
struct Output<uint8_t> : OutputInteger8<uint8_t> {};
template <>
struct Output<int32_t> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_INT32;
};

// ---- what is reduced or stored besides ------------------------------------------------------------------------
//
// Of a value. `add` takes two neighbours, `end_box` comes after a box, `end_columns` after all boxes of the same columns, and
// `end` after the tile. What is reduced is combined with what memory holds, which is filled before the launch.

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

// ---- several of them ------------------------------------------------------------------------------------------

template <int I, class T>
struct Numbered {
  T value;
};

template <class Numbers, class... Part>
struct Parts;
template <int... I, class... Part>
struct Parts<cute::seq<I...>, Part...> {
  struct Arguments : Numbered<I, typename Part::Arguments>... {};
  struct Storage : Numbered<I, typename Part::Storage>... {};
  struct State : Numbered<I, Part>... {};
  static constexpr bool kShared = (Part::kShared || ...);

  static CUTLASS_DEVICE void begin(State& s, Arguments const& a, Storage& storage, Place const& p) {
    (s.Numbered<I, Part>::value.begin(a.Numbered<I, typename Part::Arguments>::value,
                                      storage.Numbered<I, typename Part::Storage>::value, p),
     ...);
  }
  static CUTLASS_DEVICE void fetch(State& s, Place const& p, int m, int n, int groups) {
    (s.Numbered<I, Part>::value.fetch(p, m, n, groups), ...);
  }
  // Calls `f` with the number of each part, as a constant, and the part.
  template <class F>
  static CUTLASS_DEVICE void each(State& s, F const& f) {
    (f(cute::Int<I>{}, s.Numbered<I, Part>::value), ...);
  }
};

// What is computed for each element. `Body` is one function of the accumulators and of what each Load reads, in this order,
// or a Graph.
template <class Body, class... Load>
struct Work : Parts<cute::make_seq<int(sizeof...(Load))>, Load...> {
  using State = typename Parts<cute::make_seq<int(sizeof...(Load))>, Load...>::State;
  static constexpr bool kFolds = false;

  template <class... Accumulator>
  static CUTLASS_DEVICE Pair apply(State& s, Place const&, Spot const& at, Accumulator const&... acc) {
    return with(s, at, cute::make_seq<int(sizeof...(Load))>{}, acc...);
  }

 private:
  template <int... I, class... Accumulator>
  static CUTLASS_DEVICE Pair with(State const& s, Spot const& at, cute::seq<I...>, Accumulator const&... acc) {
    return {gemm::apply<Body>(acc.x..., s.Numbered<I, Load>::value.get(at).x...),
            gemm::apply<Body>(acc.y..., s.Numbered<I, Load>::value.get(at).y...)};
  }
};

// One function of several values, by their numbers in a Graph.
template <class Body, int... kInputs>
struct Step {
  template <int kCount>
  static CUTLASS_DEVICE Pair apply(Pair const (&v)[kCount]) {
    return {gemm::apply<Body>(v[kInputs].x...), gemm::apply<Body>(v[kInputs].y...)};
  }
};

// The reduction of each group of kWidth neighbours in a row, for all of the group. Pairs of a thread are eight columns
// apart, and the four lanes of a row hold neighbouring pairs.
template <class Kind, int kWidth, int kInput>
struct GroupStep {
  static constexpr int kGroup = kWidth;
  static_assert(kWidth % 8 == 0 || kWidth == 2 || kWidth == 4, "a group is made of whole pairs of a lane, or of lanes");

  template <int kPairs, int kCount>
  static CUTLASS_DEVICE void apply(Pair (&v)[kPairs][kCount], int to) {
    static constexpr int kOwn = kWidth < 8 ? 1 : kWidth / 8, kLanes = kWidth < 8 ? kWidth / 2 : 4;
    static_assert(kPairs % kOwn == 0);
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < kPairs; g += kOwn) {
      float total = Kind::combine(Kind::first(v[g][kInput].x), Kind::first(v[g][kInput].y));
      CUTLASS_PRAGMA_UNROLL
      for (int i = 1; i < kOwn; ++i) {
        Pair const more = v[g + i][kInput];
        total = Kind::combine(total, Kind::combine(Kind::first(more.x), Kind::first(more.y)));
      }
      CUTLASS_PRAGMA_UNROLL
      for (int lanes = 1; lanes < kLanes; lanes *= 2) total = Kind::combine(total, __shfl_xor_sync(~0u, total, lanes));
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < kOwn; ++i) v[g + i][to] = {total, total};
    }
  }
};

// The columns that are computed together because of a step: those of its groups; 1 where it needs no others.
template <class Step, class = void>
inline constexpr int group_of = 1;
template <class Step>
inline constexpr int group_of<Step, std::void_t<decltype(Step::kGroup)>> = Step::kGroup;

constexpr int least_common_multiple(int a, int b) {
  int x = a, y = b;
  while (y != 0) {
    int const rest = x % y;
    x = y, y = rest;
  }
  return a / x * b;
}
template <class Body>
inline constexpr int columns_of = 1;

// Several functions. Values are numbered: the accumulators, what the first kLoads parts read, what each Step computes.
// Value kStored is stored, and each further part folds one of the values kFolded.
template <int kLoads, int kStored, class Folded, class... Steps>
struct Graph;
template <int kLoads, int kStored, int... kFolded, class... Steps, class... Part>
struct Work<Graph<kLoads, kStored, cute::seq<kFolded...>, Steps...>, Part...>
    : Parts<cute::make_seq<int(sizeof...(Part))>, Part...> {
  using Base = Parts<cute::make_seq<int(sizeof...(Part))>, Part...>;
  using State = typename Base::State;
  static constexpr bool kFolds = sizeof...(kFolded) > 0;

  // Computes pairs of a row that are eight columns apart, from `column` of the tile on; further parts store one value
  // for each group. `acc` gives an accumulator.
  template <int kPairs, class Accumulators>
  static CUTLASS_DEVICE void apply_row(State& s, Place const& p, int i, int column, Accumulators const& acc,
                                       Pair (&d)[kPairs]) {
    static constexpr int kFoldedValues[] = {kFolded..., 0};
    Pair v[kPairs][1 + kLoads + sizeof...(Steps)];
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < kPairs; ++g) v[g][0] = acc(g);
    int next = 1 + kLoads;
    (step<Steps>(s, i, column, v, next++), ...);
    Base::each(s, [&](auto k, auto& part) {
      if constexpr (k >= kLoads) {
        CUTLASS_PRAGMA_UNROLL
        for (int g = 0; g < kPairs; g += part.kEvery)
          part.add(p, {i, column + g * 8, g % 4, i % 2}, v[g][kFoldedValues[k - kLoads]]);
      }
    });
    CUTLASS_PRAGMA_UNROLL
    for (int g = 0; g < kPairs; ++g) d[g] = v[g][kStored < 0 ? 0 : kStored];
  }

  template <class... Accumulator>
  static CUTLASS_DEVICE Pair apply(State& s, Place const& p, Spot const& at, Accumulator const&... acc) {
    static constexpr int kGiven = sizeof...(Accumulator);
    static constexpr int kFoldedValues[] = {kFolded..., 0};
    Pair v[kGiven + kLoads + sizeof...(Steps)] = {acc...};
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i < kLoads) v[kGiven + i] = part.get(at);
    });
    int next = kGiven + kLoads;
    ((v[next] = Steps::apply(v), ++next), ...);
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.add(p, at, v[kFoldedValues[i - kLoads]]);
    });
    return v[kStored < 0 ? 0 : kStored];
  }
  static CUTLASS_DEVICE void end_box(State& s, Place const& p, int m, int n, int groups) {
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.end_box(p, m, n, groups);
    });
  }
  static CUTLASS_DEVICE void end_columns(State& s, Place const& p, int n, int groups) {
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.end_columns(p, n, groups);
    });
  }
  static CUTLASS_DEVICE void end(State& s, Place const& p) {
    Base::each(s, [&](auto i, auto& part) {
      if constexpr (i >= kLoads) part.end(p);
    });
  }

 private:
  // One step for all pairs. What is loaded is loaded for each step, so that nothing of it is held while a group is
  // reduced.
  template <class Step, int kPairs, int kCount>
  static CUTLASS_DEVICE void step(State& s, int i, int column, Pair (&v)[kPairs][kCount], int to) {
    if constexpr (group_of<Step> > 1) {
      Step::apply(v, to);
    } else {
      CUTLASS_PRAGMA_UNROLL
      for (int g = 0; g < kPairs; ++g) {
        Base::each(s, [&](auto k, auto& part) {
          if constexpr (k < kLoads) v[g][1 + k] = part.get({i, column + g * 8, g % 4, i % 2});
        });
        v[g][to] = Step::apply(v[g]);
      }
    }
  }
};

// The columns that bodies compute together.
template <int kLoads, int kStored, class Folded, class... Steps>
inline constexpr int columns_of<Graph<kLoads, kStored, Folded, Steps...>> = [] {
  int all = 1;
  ((all = least_common_multiple(all, group_of<Steps>)), ...);
  return all;
}();

}  // namespace mucc::gemm
