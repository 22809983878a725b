// Two phases that one pass finds: a mean and the squares of distances from it, or a maximum and the sum of exponentials.
#pragma once

#include <mucc/row_phases.cuh>

namespace mucc {

// The number of elements, their mean, and the sum of the squares of their distances from it.
struct Moments {
  float count = 0, mean = 0, squares = 0;

  MUCC_DEVICE void combine(Moments const& other) {
    float const all = count + other.count, share = other.count * fast_reciprocal(max(all, 1.0f));
    float const apart = other.mean - mean;
    squares += other.squares + apart * apart * count * share;
    mean += apart * share;
    count = all;
  }
};

// Totals of reductions, and behind them kMore numbers, which start at 0.
template <class Kinds, int kMore>
struct WithMore {
  static constexpr int kCount = Kinds::kCount + kMore, kOwn = Kinds::kCount;
  using Totals = float[kCount];
  using Own = typename Kinds::Totals;

  static MUCC_DEVICE Own& own(Totals& acc) { return *reinterpret_cast<Own*>(&acc); }
  static MUCC_DEVICE Own const& own(Totals const& acc) { return *reinterpret_cast<Own const*>(&acc); }
  static MUCC_DEVICE void start(Totals& acc) {
    Kinds::start(own(acc));
#pragma unroll
    for (int i = 0; i < kMore; ++i) acc[kOwn + i] = 0;
  }
};

// Reductions together with moments of one of their values.
template <class Kinds>
struct WithMoments : WithMore<Kinds, 3> {
  using Base = WithMore<Kinds, 3>;
  using typename Base::Totals;
  using Base::kOwn, Base::own;

  static MUCC_DEVICE void combine(Totals& acc, Totals const& other) {
    Kinds::combine(own(acc), own(other));
    Moments moments{acc[kOwn], acc[kOwn + 1], acc[kOwn + 2]};
    moments.combine({other[kOwn], other[kOwn + 1], other[kOwn + 2]});
    acc[kOwn] = moments.count, acc[kOwn + 1] = moments.mean, acc[kOwn + 2] = moments.squares;
  }
};

// Reductions together with the sum of exp(x - the largest x) of the values x of one of them, a maximum.
template <class Kinds, int kMost>
struct WithExponentials : WithMore<Kinds, 1> {
  using Base = WithMore<Kinds, 1>;
  using typename Base::Totals;
  using Base::kOwn, Base::own;

  // A sum as one of distances from another maximum. Without elements it is 0, whatever the maxima are.
  static MUCC_DEVICE float moved(float sum, float from, float to) {
    return from == to ? sum : sum * fast_exp(from - to);
  }
  static MUCC_DEVICE void combine(Totals& acc, Totals const& other) {
    float const mine = acc[kMost], theirs = other[kMost];
    Kinds::combine(own(acc), own(other));
    acc[kOwn] = moved(acc[kOwn], mine, acc[kMost]) + moved(other[kOwn], theirs, acc[kMost]);
  }
};

// The totals of the first phase with those from which the second one is found.
template <class Kinds, class Work, bool kHasMoments>
struct SecondOf {
  using Type = WithMoments<Kinds>;
};
template <class Kinds, class Work>
struct SecondOf<Kinds, Work, false> {
  using Type = WithExponentials<Kinds, Work::kExponentials>;
};

// Whether the first phase finds the result of the second one too.
template <class Work>
inline constexpr bool finds_second = Work::kMoments >= 0 || Work::kExponentials >= 0;

// The pass over rows side by side that are loaded again in which phase `k` is.
template <class Work, bool kAgain>
MUCC_DEVICE constexpr int pass_of(int k) {
  return k - (kAgain && !Work::kInner && finds_second<Work> ? 1 : 0);
}

// What a thread finds in the first phase of V rows side by side, and of the second one.
template <int V, int kItems, class Work>
struct ColumnFirst {
  using Kinds = KindsOf<Work, 0>;
  static constexpr bool kHasMoments = Work::kMoments >= 0;
  using WithSecond = typename SecondOf<Kinds, Work, kHasMoments>::Type;
  typename WithSecond::Totals acc[V];

  MUCC_DEVICE void start() {
#pragma unroll
    for (int v = 0; v < V; ++v) WithSecond::start(acc[v]);
  }
  MUCC_DEVICE void add(RowValues<V, Kinds::kCount> const (&values)[kItems], bool const (&inside)[kItems]) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      typename WithSecond::Totals round;
      WithSecond::start(round);
#pragma unroll
      for (int i = 0; i < kItems; ++i)
        if (inside[i]) Kinds::add(WithSecond::own(round), values[i], v);
      if constexpr (kHasMoments)
        moments(round, values, inside, v);
      else
        exponentials(round, values, inside, v);
      WithSecond::combine(acc[v], round);
    }
  }
  MUCC_DEVICE void moments(float* round, RowValues<V, Kinds::kCount> const (&values)[kItems], bool const (&inside)[kItems], int v) const {
    float count = 0, sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      count += inside[i] ? 1.0f : 0.0f;
      sum += inside[i] ? values[i].of[Work::kMoments].of[v] : 0.0f;
    }
    float const mean = sum * fast_reciprocal(max(count, 1.0f));
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      float const apart = inside[i] ? values[i].of[Work::kMoments].of[v] - mean : 0.0f;
      squares += apart * apart;
    }
    round[WithSecond::kOwn] = count, round[WithSecond::kOwn + 1] = mean, round[WithSecond::kOwn + 2] = squares;
  }
  MUCC_DEVICE void exponentials(float* round, RowValues<V, Kinds::kCount> const (&values)[kItems], bool const (&inside)[kItems], int v) const {
    float const most = round[Work::kExponentials], from = most == Max::identity ? 0.0f : most;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i)
      sum += fast_exp((inside[i] ? values[i].of[Work::kExponentials].of[v] : Max::identity) - from);
    round[WithSecond::kOwn] = sum;
  }
  template <class Row, class Sharing>
  MUCC_DEVICE void end(Work const& work, Row& row, Sharing& sharing) {
    sharing.template combine<WithSecond>(acc);
    RowValues<V, Kinds::kCount> results;
    RowValues<V, 1> second;
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) results.of[k].of[v] = acc[v][k];
      if constexpr (kHasMoments) {
        second.of[0].of[v] = acc[v][WithSecond::kOwn + 2];
      } else {
        bool const is_empty = acc[v][Work::kExponentials] == Max::identity;
        second.of[0].of[v] = is_empty ? __uint_as_float(0x7fc00000u) : acc[v][WithSecond::kOwn];
      }
    }
    work.template end<V>(Phase<0>{}, row, results);
    work.template end<V>(Phase<1>{}, row, second);
  }
};

}  // namespace mucc
