// What one thread does of a row that warps, blocks or clusters share: loads, phase after phase, and stores.
#pragma once

#include <mucc/row_seconds.cuh>

namespace mucc {

// The blocks that have L2 fetch what all rows have in common.
constexpr uint32_t kFetchers = 16;

// What one thread does of a row: steps `first`, `first + stride` and so on, kItems of them at a time. Unless they are
// loaded again in each phase, in turn from the first one and from the last one, these are all there are. Behind the end of the row the last step is loaded and computed
// with instead, to no effect: without branches all loads are in flight at once, and what two phases compute is computed
// once. `kWhole` says that no step is behind the end.
template <int V, int kItems, bool kAgain, class Work, bool kWhole = false>
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

  // A step of the thread, or the last one instead of those behind the end.
  MUCC_DEVICE uint32_t step_in(uint32_t base, int i) const {
    uint32_t const step = base + first + i * stride;
    return kWhole || step < last ? step : last;
  }

  MUCC_DEVICE void load(Loads (&to)[kItems], uint32_t base) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      place.move(step_in(base, i), extents);
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
        if (!kWhole && step > last) break;
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
      place.move(step_in(base, i), extents);
      each(loads[i], place.inside(step, exists && (kWhole || step <= last), extents));
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

}  // namespace mucc
