// Normalize kernels: reductions over the same axes, one after the other, with pointwise work before, between and behind
// them, in one pass over memory.
//
// The space has its kept axes first, then the reduced ones; a row is the elements of one place in the kept axes. The
// compiler writes `Op`, views of tensors, and `Work` upon it. Reductions that need no result of each other are one
// phase. `begin` loads what is the same for a row, `load` what several phases need of V neighbouring elements,
// `values(Phase<k>, ...)` computes what phase k reduces and `end` takes its results; `results` computes what is
// stored of the space's shape and `store` writes it; `finish` writes results of the rows' shape. The order in which elements are combined follows from the shape alone, so
// that results do not change from run to run.
#pragma once

#include <mucc/cluster.cuh>
#include <mucc/rows.h>
#include <mucc/shared.cuh>
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

// The number of elements, their mean, and the sum of the squares of their distances from it.
struct Moments {
  float count = 0, mean = 0, squares = 0;

  MUCC_DEVICE void combine(Moments const& other) {
    float const all = count + other.count, share = all > 0 ? div(other.count, all) : 0.0f;
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
    float const mean = div(sum, max(count, 1.0f));
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

// The blocks that have L2 fetch what all rows have in common.
constexpr uint32_t kFetchers = 16;

// What one thread does of a row: steps `first`, `first + stride` and so on, kItems of them at a time. Unless they are
// loaded again in each phase, in turn from the first one and from the last one, these are all there are. Behind the end of the row the last step is loaded and computed
// with instead, to no effect: without branches all loads are in flight at once, and what two phases compute is computed
// once.
template <int V, int kItems, bool kAgain, class Work>
struct RowThread {
  using Row = typename Work::template Row<V>;
  using Loads = typename Work::template Loads<V>;
  using Inner = InsideOf<V, Work>;
  static constexpr int kSums = Work::kInner ? 1 : V;  // rows that a thread works on

  Work const& work;
  Extents<Work::kRank> const& extents;
  RowPlace<V, Work> place;
  uint32_t first, stride, last;
  bool exists;
  Row row;
  Loads kept[kItems];

  MUCC_DEVICE void load(Loads (&to)[kItems], uint32_t base) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      uint32_t const step = base + first + i * stride;
      place.move(step < last ? step : last, extents);
      work.template load<V>(place.p, to[i]);
    }
  }

  // What only the stores load is on its way to L2 while the row is reduced. Of what all rows have in common the first blocks
  // fetch it for all.
  MUCC_DEVICE void prefetch() {
    if constexpr (Work::kPrefetches) {
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        uint32_t const step = first + i * stride;
        if (step > last) break;
        place.move(step, extents);
        work.template prefetch<V>(place.p, step, blockIdx.x < kFetchers);
      }
    }
  }

  // Calls `each(loads, inside)` for the steps from `base` on.
  template <class Each>
  MUCC_DEVICE void visit(Loads const (&loads)[kItems], uint32_t base, Each const& each) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      uint32_t const step = base + first + i * stride;
      place.move(step < last ? step : last, extents);
      each(loads[i], place.inside(step, exists && step <= last, extents));
    }
  }

  // The steps of a round, those of pass `kPass` in turn from the first one and from the last one.
  template <int kPass>
  MUCC_DEVICE uint32_t base_of(uint32_t round) const {
    return (kPass % 2 ? last / (kItems * stride) - round : round) * (kItems * stride);
  }

  template <int kPass, class Each>
  MUCC_DEVICE void for_each(Each const& each) {
    if constexpr (kAgain) {
#pragma unroll 1
      for (uint32_t round = 0; round <= last / (kItems * stride); ++round) {
        Loads loads[kItems];
        load(loads, base_of<kPass>(round));
        visit(loads, base_of<kPass>(round), each);
      }
    } else {
      visit(kept, 0, each);
    }
  }

  // The first phase of rows side by side that are loaded again, with what the second one finds.
  template <class Sharing>
  MUCC_DEVICE void reduce_first(Sharing& sharing) {
    ColumnFirst<V, kItems, Work> found;
    found.start();
#pragma unroll 1
    for (uint32_t base = 0; base <= last; base += kItems * stride) {
      Loads loads[kItems];
      load(loads, base);
      RowValues<V, KindsOf<Work, 0>::kCount> values[kItems];
      bool inside[kItems];
      int i = 0;
      visit(loads, base, [&](Loads const& of, Inner const& lanes) {
        values[i] = work.template values<V>(Phase<0>{}, place.p, row, of);
        inside[i++] = lanes.exists;
      });
      found.add(values, inside);
    }
    found.end(work, row, sharing);
    reduce<2>(sharing);
  }

  template <int k, class Sharing>
  MUCC_DEVICE void reduce(Sharing& sharing) {
    if constexpr (k == 0 && kAgain && !Work::kInner && finds_second<Work>) {
      reduce_first(sharing);
    } else if constexpr (k < Work::kPhases) {
      using Kinds = KindsOf<Work, k>;
      typename Kinds::Totals acc[V];
#pragma unroll
      for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
      for_each<pass_of<Work, kAgain>(k)>([&](Loads const& loads, Inner const& inside) {
        auto const values = work.template values<V>(Phase<k>{}, place.p, row, loads);
        if (inside.exists) {
#pragma unroll
          for (int v = 0; v < V; ++v)
            if (inside.lane(v)) Kinds::add(acc[v], values, v);
        }
      });
      if constexpr (Work::kInner) combine_vector<V, Kinds>(acc);
      sharing.template combine<Kinds>(acc);
      RowValues<V, Kinds::kCount> results;
#pragma unroll
      for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < Kinds::kCount; ++i) results.of[i].of[v] = acc[Work::kInner ? 0 : v][i];
      work.template end<V>(Phase<k>{}, row, results);
      reduce<k + 1>(sharing);
    }
  }

  template <class Sharing>
  MUCC_DEVICE void run(bool is_first, Sharing& sharing) {
    place.move(0, extents);
    work.template begin<V>(place.p, row);
    if constexpr (!kAgain) {
      load(kept, 0);
      prefetch();
    }
    reduce<0>(sharing);
    if constexpr (Work::kFills) {
      for_each<pass_of<Work, kAgain>(Work::kPhases)>([&](Loads const& loads, Inner const& inside) {
        store_inside<false>(work, place, work.template results<V>(place.p, row, loads), inside);
      });
    }
    place.move(0, extents);
    if (exists && is_first) work.template finish<V, kSums>(place.p, row);
  }
};

// ---- who shares a row ------------------------------------------------------------------------------------------
// `combine<Kinds>(totals)` leaves in each thread the totals of all threads that share its row.

struct WarpRows {
  int lanes;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    combine_lanes<Kinds>(acc, 1, lanes);
  }
};

template <int kWidest>
struct BlockRows {
  float (*shared)[kWidest][32];
  int warps, turn;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    int const lane = threadIdx.x % 32;
    auto& totals = shared[turn++ % 2];
    combine_lanes<Kinds>(acc, 1, 32);
    if (lane == 0) {
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) totals[k][threadIdx.x / 32] = acc[0][k];
    }
    __syncthreads();
    Kinds::start(acc[0]);
    if (lane < warps) {
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) acc[0][k] = totals[k][lane];
    }
    combine_lanes<Kinds>(acc, 1, 32);
  }
};

template <int V, int kWidest, int kWarps, int kMostLanes>
struct ColumnRows {
  float (*shared)[kWidest][kWarps][kMostLanes * V];
  int lanes, warps, turn;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    int const lane = threadIdx.x & (lanes - 1);
    auto& totals = shared[turn++ % 2];
    combine_lanes<Kinds, V>(acc, lanes, 32);
    if (int(threadIdx.x % 32) < lanes) {
#pragma unroll
      for (int v = 0; v < V; ++v)
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) totals[k][threadIdx.x / 32][lane * V + v] = acc[v][k];
    }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
    for (int w = 0; w < warps; ++w) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        typename Kinds::Totals other;
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) other[k] = totals[k][w][lane * V + v];
        Kinds::combine(acc[v], other);
      }
    }
  }
};

// The blocks of a cluster share rows that lie side by side. Totals have two buffers: once all blocks have met again, each has
// read those of the exchange before, whose buffer the next exchange takes.
template <int V, int kWidest>
struct ClusterRows {
  using Shared = ClusterTotals<V, kWidest>;
  static constexpr int kPiece = V < 4 ? V : 4;
  Shared& shared;
  ColumnRows<V, kWidest, Shared::kWarps, kClusterLanes> block;
  int turn;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    block.template combine<Kinds>(acc);
    auto& own = shared.own[turn++ % 2];
    if (threadIdx.x < kClusterLanes) {
#pragma unroll
      for (int v = 0; v < V; ++v)
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) own[k][threadIdx.x * V + v] = acc[v][k];
    }
    sync_cluster();
    auto& totals = shared.warps[block.turn++ % 2];
    if (threadIdx.x < kClusterLanes * kClusterBlocks) {
      int const first = int(threadIdx.x) % kClusterLanes * V, other = int(threadIdx.x) / kClusterLanes;
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k)
#pragma unroll
        for (int v = 0; v < V; v += kPiece) {
          float part[kPiece];
          load_shared_of(part, shared_of(shared_address(&own[k][first + v]), other));
#pragma unroll
          for (int i = 0; i < kPiece; ++i) totals[k][other][first + v + i] = part[i];
        }
    }
    __syncthreads();
    int const first = int(threadIdx.x) % kClusterLanes * V;
#pragma unroll
    for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
#pragma unroll 1
    for (int other = 0; other < kClusterBlocks; ++other) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        typename Kinds::Totals part;
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) part[k] = totals[k][other][first + v];
        Kinds::combine(acc[v], part);
      }
    }
  }
};

// ---- rows of teams of blocks -------------------------------------------------------------------------------------

// A slot has a total and, above it, the number of the exchange that it belongs to.
MUCC_DEVICE void write_slot(uint64_t* slot, uint32_t exchange, float total) {
  uint64_t const both = uint64_t(exchange) << 32 | __float_as_uint(total);
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(slot), "l"(both) : "memory");
}
MUCC_DEVICE uint64_t read_slot(uint64_t const* slot) {
  uint64_t both;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(slot) : "memory");
  return both;
}

// A block that has seen all totals of an exchange has told its own of the one before to all others: two sets of slots are
// enough.
template <int kWidest>
struct TeamRows {
  BlockRows<kWidest> block;
  uint64_t* slots;  // of the team
  int parts, part;
  uint32_t exchange;  // the last one

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    block.template combine<Kinds>(acc);
    if (parts == 1) return;
    uint64_t* const set = slots + int64_t(++exchange % 2) * kWidest * parts;
    if (threadIdx.x == 0) {
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) write_slot(set + k * parts + part, exchange, acc[0][k]);
    }
    Kinds::start(acc[0]);
    for (int i = threadIdx.x; i < parts; i += kTeamThreads) {
      uint64_t both[Kinds::kCount];
      bool all;
      do {
        all = true;
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) both[k] = read_slot(set + k * parts + i);
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) all = all && uint32_t(both[k] >> 32) == exchange;
      } while (!all);
      typename Kinds::Totals other;
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) other[k] = __uint_as_float(uint32_t(both[k]));
      Kinds::combine(acc[0], other);
    }
    __syncwarp();
    block.template combine<Kinds>(acc);
  }
};

// Steps in shared memory: words of up to 16 bytes, those with the same place in all steps side by side.
template <int V, class Work>
struct HeldSteps {
  using Loads = typename Work::template Loads<V>;
  static constexpr int kWidth = V < 4 ? V : 4, kPacks = Work::kLoads * V / kWidth;
  using Piece = Pack<float, kWidth>;
  Piece* of;
  uint32_t count;

  MUCC_DEVICE void put(uint32_t step, Loads const& loads) const {
    auto const* from = reinterpret_cast<float const*>(&loads);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Piece piece;
#pragma unroll
      for (int w = 0; w < kWidth; ++w) piece.of[w] = from[i * kWidth + w];
      of[i * count + step] = piece;
    }
  }
  MUCC_DEVICE void get(uint32_t step, Loads& loads) const {
    auto* to = reinterpret_cast<float*>(&loads);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Piece const piece = of[i * count + step];
#pragma unroll
      for (int w = 0; w < kWidth; ++w) to[i * kWidth + w] = piece.of[w];
    }
  }
};

// What a thread of a team finds in the first phase, in rounds of steps that were loaded together.
template <int V, int kItems, class Work>
struct FirstPhase {
  using Kinds = KindsOf<Work, 0>;
  static constexpr bool kHasMoments = Work::kMoments >= 0, kHasSum = Work::kExponentials >= 0;
  typename Kinds::Totals acc[V];
  Moments moments;
  float most, sum;  // the largest x, and the sum of exp(x - most)

  MUCC_DEVICE void start() {
#pragma unroll
    for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
    moments = {};
    most = Max::identity, sum = 0;
  }
  MUCC_DEVICE void add(RowValues<V, Kinds::kCount> const (&values)[kItems],
                       InsideOf<V, Work> const (&inside)[kItems]) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      if (!inside[i].exists) continue;
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (inside[i].lane(v)) Kinds::add(acc[v], values[i], v);
    }
    if constexpr (kHasSum) {
      float const before = most;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v)
          most = Max::combine(most, inside[i].lane(v) ? values[i].of[Work::kExponentials].of[v] : Max::identity);
      }
      // -inf has no distance from itself.
      float const from = most == Max::identity ? 0.0f : most;
      sum *= fast_exp(before - from);
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v)
          sum += fast_exp((inside[i].lane(v) ? values[i].of[Work::kExponentials].of[v] : Max::identity) - from);
      }
    }
    if constexpr (kHasMoments) {
      Moments round;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        if constexpr (!RowPlace<V, Work>::kShifted) round.count += inside[i].exists ? float(V) : 0.0f;
#pragma unroll
        for (int v = 0; v < V; ++v) {
          if constexpr (RowPlace<V, Work>::kShifted) round.count += inside[i].lane(v) ? 1.0f : 0.0f;
          sum += inside[i].lane(v) ? values[i].of[Work::kMoments].of[v] : 0.0f;
        }
      }
      round.mean = div(sum, max(round.count, 1.0f));
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          float const apart = inside[i].lane(v) ? values[i].of[Work::kMoments].of[v] - round.mean : 0.0f;
          round.squares += apart * apart;
        }
      }
      moments.combine(round);
    }
  }
  // Takes the results of the phase, and of the next one too if the first one has found those.
  template <class Row, class Sharing>
  MUCC_DEVICE void end(Work const& work, Row& row, Sharing& sharing) {
    combine_vector<V, Kinds>(acc);
    RowValues<V, Kinds::kCount> results;
    if constexpr (kHasMoments) {
      using All = WithMoments<Kinds>;
      typename All::Totals all[1];
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) all[0][k] = acc[0][k];
      all[0][All::kOwn] = moments.count, all[0][All::kOwn + 1] = moments.mean, all[0][All::kOwn + 2] = moments.squares;
      sharing.template combine<All>(all);
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) results.of[k] = Lanes<V>(all[0][k]);
      work.template end<V>(Phase<0>{}, row, results);
      work.template end<V>(Phase<1>{}, row, RowValues<V, 1>{{Lanes<V>(all[0][All::kOwn + 2])}});
    } else if constexpr (kHasSum) {
      using All = WithExponentials<Kinds, Work::kExponentials>;
      typename All::Totals all[1];
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) all[0][k] = acc[0][k];
      all[0][All::kOwn] = sum;
      sharing.template combine<All>(all);
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) results.of[k] = Lanes<V>(all[0][k]);
      work.template end<V>(Phase<0>{}, row, results);
      bool const is_empty = all[0][Work::kExponentials] == Max::identity;
      float const total = is_empty ? __uint_as_float(0x7fc00000u) : all[0][All::kOwn];
      work.template end<V>(Phase<1>{}, row, RowValues<V, 1>{{Lanes<V>(total)}});
    } else {
      sharing.template combine<Kinds>(acc);
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) results.of[k] = Lanes<V>(acc[0][k]);
      work.template end<V>(Phase<0>{}, row, results);
    }
  }
};

// What one thread does of a block's part of a row: every kTeamThreads-th step from its own, which are its alone in shared
// memory too. While results are stored, steps of the next row are loaded to the same places. Steps that are not held are
// loaded again in each phase, in turn from the first one and from the last one: those that were loaded last are in L2.
template <int V, int kItems, class Work>
struct TeamThread {
  using Row = typename Work::template Row<V>;
  using Loads = typename Work::template Loads<V>;
  using First = FirstPhase<V, kItems, Work>;
  static constexpr uint32_t kRound = kItems * kTeamThreads;
  static constexpr int kSecond = First::kHasMoments || First::kHasSum ? 2 : 1;  // the phase after the first ones

  Work const& work;
  Extents<Work::kRank> const& extents;
  HeldSteps<V, Work> held;
  uint32_t begin, count, kept;  // the steps of this block, and how many of them are held
  RowPlace<V, Work> place;      // of the row
  Row row;
  First first;

  MUCC_DEVICE uint32_t step_of(uint32_t base, int i) const { return base + threadIdx.x + i * kTeamThreads; }
  MUCC_DEVICE void go(RowPlace<V, Work>& to, uint32_t step) const {
    to.move(begin + (step < count ? step : count - 1), extents);
  }
  MUCC_DEVICE void load(RowPlace<V, Work>& from, uint32_t base, Loads (&to)[kItems]) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      go(from, step_of(base, i));
      work.template load<V>(from.p, to[i]);
    }
  }

  MUCC_DEVICE InsideOf<V, Work> inside_of(RowPlace<V, Work> const& at, uint32_t base, int i, uint32_t end) const {
    return at.inside(begin + step_of(base, i), step_of(base, i) < end, extents);
  }

  // What the first phase takes of steps below `end`.
  MUCC_DEVICE void add_first(RowPlace<V, Work>& at, Row const& of, uint32_t base, uint32_t end, Loads const (&loads)[kItems]) {
    RowValues<V, First::Kinds::kCount> values[kItems];
    InsideOf<V, Work> inside[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      go(at, step_of(base, i));
      values[i] = work.template values<V>(Phase<0>{}, at.p, of, loads[i]);
      inside[i] = inside_of(at, base, i, end);
    }
    first.add(values, inside);
  }

  // Stores results of steps below `end`. All are computed before the first one is stored: what else they need is in flight
  // together.
  MUCC_DEVICE void store(uint32_t base, uint32_t end, Loads const (&loads)[kItems]) {
    if constexpr (Work::kFills) {
      typename Work::template Results<V> results[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        go(place, step_of(base, i));
        results[i] = work.template results<V>(place.p, row, loads[i]);
      }
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        go(place, step_of(base, i));
        store_inside<true>(work, place, results[i], inside_of(place, base, i, end));
      }
    }
  }

  // Calls `each(base, loads)` for rounds of the steps that are not held.
  template <int kPass, class Each>
  MUCC_DEVICE void load_again(Each const& each) {
    uint32_t const rounds = (count - kept + kRound - 1) / kRound;
#pragma unroll 1
    for (uint32_t r = 0; r < rounds; ++r) {
      uint32_t const base = kept + (kPass % 2 ? rounds - 1 - r : r) * kRound;
      Loads loads[kItems];
      load(place, base, loads);
      each(base, loads);
    }
  }

  MUCC_DEVICE void get(uint32_t base, Loads (&to)[kItems]) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      uint32_t const step = step_of(base, i);
      held.get(step < kept ? step : kept - 1, to[i]);
    }
  }

  template <int k>
  MUCC_DEVICE void add(typename KindsOf<Work, k>::Totals (&acc)[V], uint32_t base, uint32_t end, Loads const (&loads)[kItems]) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      go(place, step_of(base, i));
      auto const values = work.template values<V>(Phase<k>{}, place.p, row, loads[i]);
      auto const inside = inside_of(place, base, i, end);
      if (!inside.exists) continue;
#pragma unroll
      for (int v = 0; v < V; ++v)
        if (inside.lane(v)) KindsOf<Work, k>::add(acc[v], values, v);
    }
  }

  template <int k, class Sharing>
  MUCC_DEVICE void reduce(Sharing& sharing) {
    if constexpr (k < Work::kPhases) {
      using Kinds = KindsOf<Work, k>;
      typename Kinds::Totals acc[V];
#pragma unroll
      for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
      load_again<k - kSecond + 1>([&](uint32_t base, Loads const(&loads)[kItems]) { add<k>(acc, base, count, loads); });
#pragma unroll 1
      for (uint32_t base = 0; base < kept; base += kRound) {
        Loads loads[kItems];
        get(base, loads);
        add<k>(acc, base, kept, loads);
      }
      combine_vector<V, Kinds>(acc);
      sharing.template combine<Kinds>(acc);
      RowValues<V, Kinds::kCount> results;
#pragma unroll
      for (int i = 0; i < Kinds::kCount; ++i) results.of[i] = Lanes<V>(acc[0][i]);
      work.template end<V>(Phase<k>{}, row, results);
      reduce<k + 1>(sharing);
    }
  }

  MUCC_DEVICE void begin_row(uint32_t number, RowPlace<V, Work>& at, Row& of) const {
    at.start(number, extents);
    at.move(0, extents);
    work.template begin<V>(at.p, of);
  }

  // Stores the steps of this row that are held (`has_row`), and loads those of the next row in their place (`has_next`).
  MUCC_DEVICE void pass(bool has_row, bool has_next, RowPlace<V, Work>& next, Row const& of_next) {
#pragma unroll 1
    for (uint32_t base = 0; base < kept; base += kRound) {
      Loads fresh[kItems];
      if (has_next) load(next, base, fresh);
      if (has_row && Work::kFills) {
        Loads loads[kItems];
        get(base, loads);
        store(base, kept, loads);
      }
      if (has_next) {
#pragma unroll
        for (int i = 0; i < kItems; ++i)
          if (step_of(base, i) < kept) held.put(step_of(base, i), fresh[i]);
        add_first(next, of_next, base, kept, fresh);
      }
    }
  }

  // Computes rows from `number` on, `stride` apart, below `rows`. One call of `pass` serves the first, the last and all other
  // rows: three inlined copies took a third of the time of compiling.
  template <class Sharing>
  MUCC_DEVICE void run(uint32_t number, uint32_t stride, uint32_t rows, bool is_first, Sharing& sharing) {
    bool has_row = false;
#pragma unroll 1
    while (true) {
      bool const has_next = number < rows;
      RowPlace<V, Work> next = place;
      Row of_next = row;
      if (has_next) begin_row(number, next, of_next);
      first.start();
      pass(has_row, has_next, next, of_next);
      if (has_row) {
        place.move(0, extents);
        if (is_first) work.template finish<V, 1>(place.p, row);
      }
      if (!has_next) break;
      place = next, row = of_next, has_row = true;
      load_again<0>([&](uint32_t base, Loads const(&loads)[kItems]) { add_first(place, row, base, count, loads); });
      number += stride;
      first.end(work, row, sharing);
      reduce<kSecond>(sharing);
      if constexpr (Work::kFills)
        load_again<Work::kPhases - kSecond + 1>(
            [&](uint32_t base, Loads const(&loads)[kItems]) { store(base, count, loads); });
    }
  }
};

// ---- kernels -----------------------------------------------------------------------------------------------------

// Reduced axes are innermost. A group of up to 32 lanes of a warp shares a row.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_warp(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  uint32_t const lane = threadIdx.x & (shape.lanes - 1);
  uint32_t const row = blockIdx.x * (shape.threads / shape.lanes) + threadIdx.x / shape.lanes;
  bool const exists = row < shape.rows;
  RowThread<V, kItems, false, Work> thread{work, extents};
  thread.first = lane, thread.stride = shape.lanes, thread.last = shape.length - 1, thread.exists = exists;
  thread.place.start(exists ? row : 0, extents);
  thread.last = thread.place.last(thread.last, extents);
  WarpRows sharing{shape.lanes};
  thread.run(lane == 0, sharing);
}

// The same where the threads of a block share a row.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_block(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  __shared__ float shared[2][Work::kWidest][32];
  RowThread<V, kItems, false, Work> thread{work, extents};
  thread.first = threadIdx.x, thread.stride = shape.threads, thread.last = shape.length - 1, thread.exists = true;
  thread.place.start(blockIdx.x, extents);
  thread.last = thread.place.last(thread.last, extents);
  BlockRows<Work::kWidest> sharing{shared, shape.threads / 32, 0};
  thread.run(threadIdx.x == 0, sharing);
}

// The same where teams of blocks share rows. All blocks run at the same time.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_teams(Work const& work, Extents<Work::kRank> const& extents, RowTeams const& shape) {
  constexpr int kWidest = team_widest<Work>;
  char* const memory = dynamic_shared();
  auto* const totals = reinterpret_cast<float(*)[kWidest][32]>(memory);
  using Held = HeldSteps<V, Work>;
  Held const held{reinterpret_cast<typename Held::Piece*>(memory + totals_bytes(kWidest)), shape.held};
  int const team = int(blockIdx.x) / shape.parts, part = int(blockIdx.x) - team * shape.parts;
  TeamThread<V, kItems, Work> thread{work, extents, held};
  thread.begin = part * shape.chunk;
  thread.count = shape.length - thread.begin < shape.chunk ? shape.length - thread.begin : shape.chunk;
  thread.kept = shape.held < thread.count ? shape.held : thread.count;
  uint64_t* const slots = shape.slots + int64_t(team) * 2 * kWidest * shape.parts;
  TeamRows<kWidest> sharing{{totals, kTeamThreads / 32, 0}, slots, shape.parts, part, 0};
  thread.run(team, shape.teams, shape.rows, part == 0 && threadIdx.x == 0, sharing);
}

// The innermost axis is kept. Each thread works on V rows side by side, `lanes` threads lie side by side, and all
// threads with the same ones share the steps.
template <int V, int kItems, bool kAgain, class Work>
MUCC_DEVICE void rows_columns(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  constexpr int kWarps = (kAgain ? kThreadsAgain : Work::kThreads) / 32;
  constexpr int kWidest = kAgain ? team_widest<Work> : Work::kWidest;
  constexpr int kMostLanes = kAgain ? lanes_again(V) : 32;
  __shared__ float shared[2][kWidest][kWarps][kMostLanes * V];
  uint32_t const column = blockIdx.x * shape.lanes + (threadIdx.x & (shape.lanes - 1));
  bool const exists = column < shape.rows;
  RowThread<V, kItems, kAgain, Work> thread{work, extents};
  thread.first = threadIdx.x / shape.lanes, thread.stride = shape.threads / shape.lanes;
  thread.last = shape.length - 1, thread.exists = exists;
  thread.place.start(exists ? column : 0, extents);
  ColumnRows<V, kWidest, kWarps, kMostLanes> sharing{shared, shape.lanes, shape.threads / 32, 0};
  thread.run(int(threadIdx.x) < shape.lanes, sharing);
}

// The same where the threads of the blocks of a cluster share the steps, and each has its part in registers.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_cluster(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  using Shared = ClusterTotals<V, Work::kWidest>;
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared());
  uint32_t const own = blockIdx.x % kClusterBlocks, threads = kClusterThreads / kClusterLanes;
  uint32_t const column = blockIdx.x / kClusterBlocks * kClusterLanes + threadIdx.x % kClusterLanes;
  bool const exists = column < shape.rows;
  RowThread<V, kItems, false, Work> thread{work, extents};
  thread.first = own * threads + threadIdx.x / kClusterLanes, thread.stride = kClusterBlocks * threads;
  thread.last = shape.length - 1, thread.exists = exists;
  thread.place.start(exists ? column : 0, extents);
  ClusterRows<V, Work::kWidest> sharing{shared, {shared.warps, kClusterLanes, Shared::kWarps, 0}, 0};
  thread.run(own == 0 && threadIdx.x < kClusterLanes, sharing);
  sync_cluster();  // no block ends while others read its totals
}

// The first S of V lanes.
template <int S, int V>
MUCC_DEVICE Lanes<S> first_lanes(Lanes<V> const& x) {
  Lanes<S> result;
#pragma unroll
  for (int s = 0; s < S; ++s) result.of[s] = x.of[s];
  return result;
}

}  // namespace mucc
