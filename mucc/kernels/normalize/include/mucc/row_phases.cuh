// Phases of a chain of reductions, how totals of lanes are combined, and where in a row a thread is.
#pragma once

#include <mucc/rows.h>
#include <mucc/view.cuh>

namespace mucc {

template <int k>
struct Phase {};

// V neighbouring elements of each of the values that a phase reduces.
template <int V, int kCount>
struct RowValues {
  Lanes<V> of[kCount];
};

// The reductions of a phase. The counters in the folds are constants once the loops are unrolled.
template <class... Kinds>
struct RowKinds {
  static constexpr int kCount = sizeof...(Kinds);
  using Totals = float[kCount];

  static MUCC_DEVICE void start(Totals& acc) {
    int k = 0;
    ((acc[k] = Kinds::identity, ++k), ...);
  }
  static MUCC_DEVICE void combine(Totals& acc, Totals const& other) {
    int k = 0;
    ((acc[k] = Kinds::combine(acc[k], other[k]), ++k), ...);
  }
  template <int V>
  static MUCC_DEVICE void add(Totals& acc, RowValues<V, kCount> const& values, int v) {
    int k = 0;
    ((acc[k] = Kinds::combine(acc[k], Kinds::first(values.of[k].of[v])), ++k), ...);
  }
};

template <class Work, int k>
using KindsOf = decltype(Work::kinds(Phase<k>{}));

// Combines S totals over lanes of a warp whose numbers differ in the bits from `low` to below `high`; all of them have
// the result.
template <class Kinds, int S = 1>
MUCC_DEVICE void combine_lanes(typename Kinds::Totals* acc, int low, int high) {
#pragma unroll
  for (int bit = 16; bit > 0; bit /= 2) {
    if (bit >= high || bit < low) continue;
#pragma unroll
    for (int s = 0; s < S; ++s) {
      typename Kinds::Totals other;
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) other[k] = __shfl_xor_sync(~0u, acc[s][k], bit);
      Kinds::combine(acc[s], other);
    }
  }
}

template <int V, class Kinds>
MUCC_DEVICE void combine_vector(typename Kinds::Totals (&acc)[V]) {
#pragma unroll
  for (int half = V / 2; half > 0; half /= 2) {
#pragma unroll
    for (int v = 0; v < half; ++v) Kinds::combine(acc[v], acc[v + half]);
  }
}

// Which of the V lanes of a step are elements of its row: all or none, unless rows do not begin with a vector.
template <int V, bool kShifted>
struct Inside {
  bool exists;
  MUCC_DEVICE bool lane(int) const { return exists; }
  MUCC_DEVICE bool whole() const { return exists; }
};
template <int V>
struct Inside<V, true> {
  bool exists;
  int64_t first;  // the element in the first lane
  uint32_t length;
  MUCC_DEVICE bool lane(int v) const { return exists && uint32_t(first + v) < length; }
  MUCC_DEVICE bool whole() const { return exists && first >= 0 && first + V <= length; }
};

// The step of a row at which a thread is. Extents of the innermost axis count vectors where it is reduced, unless rows are
// shifted: those lie one behind the other, and have no whole number of vectors. Their steps are the vectors of memory, the
// first and the last of which have elements of the rows next to them too.
template <int V, class Work>
struct RowPlace {
  static constexpr int kFast = Work::kInner ? Work::kRank - 1 : Work::kKept - 1;
  static constexpr bool kShifted = Work::kShifted && V > 1;
  Position<Work::kRank, int64_t> p;
  uint32_t shift = 0;  // the lanes before the first element

  MUCC_DEVICE void start(uint32_t row, Extents<Work::kRank> const& extents) {
    split_known<Work, kFast, V, 0, Work::kKept>(p, row, extents.of);
    if constexpr (!Work::kInner) p.at[Work::kKept - 1] *= V;
    if constexpr (kShifted) shift = uint32_t(uint64_t(row) * uint64_t(extents.of[kFast]) % V);
  }
  MUCC_DEVICE void move(uint32_t step, Extents<Work::kRank> const& extents) {
    if constexpr (kShifted) {
      uint32_t const most = last(step, extents);
      p.at[kFast] = int64_t(step < most ? step : most) * V - shift;
    } else {
      split_known<Work, kFast, V, Work::kKept, Work::kRank>(p, step, extents.of);
      if constexpr (Work::kInner) p.at[Work::kRank - 1] *= V;
    }
  }
  // The last step of the row; `known` where all rows have as many.
  MUCC_DEVICE uint32_t last(uint32_t known, Extents<Work::kRank> const& extents) const {
    return kShifted ? (shift + uint32_t(extents.of[kFast]) - 1) / V : known;
  }
  // The lanes of a step, at which this is if it exists.
  MUCC_DEVICE Inside<V, kShifted> inside(uint32_t step, bool exists, Extents<Work::kRank> const& extents) const {
    if constexpr (kShifted)
      return {exists && step <= last(step, extents), p.at[kFast], uint32_t(extents.of[kFast])};
    else
      return {exists};
  }
};

template <int V, class Work>
using InsideOf = Inside<V, RowPlace<V, Work>::kShifted>;

// Stores the results of the lanes that are inside.
template <bool kOnce, int V, class Work>
MUCC_DEVICE void store_inside(Work const& work, RowPlace<V, Work> const& place,
                              typename Work::template Results<V> const& results, InsideOf<V, Work> const& inside) {
  if constexpr (!RowPlace<V, Work>::kShifted) {
    work.template store<kOnce>(place.p, results, inside.exists);
  } else if (inside.whole()) {
    work.template store<kOnce>(place.p, results, true);
  } else if (inside.exists) {
    using One = typename Work::template Results<1>;
    auto const* const from = reinterpret_cast<float const*>(&results);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      One one;
#pragma unroll
      for (int k = 0; k < int(sizeof(One) / sizeof(float)); ++k) reinterpret_cast<float*>(&one)[k] = from[k * V + v];
      auto p = place.p;
      p.at[RowPlace<V, Work>::kFast] += v;
      work.template store<false>(p, one, inside.lane(v));
    }
  }
}

}  // namespace mucc
