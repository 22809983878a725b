// Long rows of a known length that all multiprocessors hold together: in registers, and what is left in shared memory. What
// all rows have in common, such as weights of a norm, stays in shared memory from the first row to the last one instead.
#pragma once

#include <mucc/rows.cuh>

namespace mucc {

// V neighbouring elements of each of the tensors that all rows have in common, as they lie in memory: step `step` of `count`.
template <int V, class T>
MUCC_DEVICE Pack<T, V>* common_place(char* memory, uint32_t before, uint32_t count, uint32_t step) {
  return reinterpret_cast<Pack<T, V>*>(memory + before * V * count) + step;
}

// Copies what a view has at `p` to shared memory, and reads it there.
template <int V, class View, class P>
MUCC_DEVICE void keep_common(View const& view, P const& p, char* memory, uint32_t before, uint32_t count, uint32_t step) {
  using T = typename View::Element;
  *common_place<V, T>(memory, before, count, step) = *reinterpret_cast<Pack<T, V> const*>(place(view, p));
}
template <int V, class View>
MUCC_DEVICE Lanes<V> load_common(View const&, char* memory, uint32_t before, uint32_t count, uint32_t step) {
  using T = typename View::Element;
  return load_pack<V>(common_place<V, T>(memory, before, count, step)->of);
}

// The first kOwn * kThreads steps of a block, in registers: kOwn in each thread. Shared memory has what all rows have in
// common of the first `in_common` of these. While a row is reduced and its blocks wait for each other, L2 fetches the next one.
template <int V, int kItems, int kOwn, class Work>
struct OwnSteps {
  using Loads = typename Work::template Loads<V>;
  static_assert(kOwn % kItems == 0, "whole rounds");
  static constexpr int kThreads = kResidentThreads;
  static constexpr bool kHasAll = Work::kCommon > 0;  // shared memory has no room for further steps then

  Loads kept[kOwn];
  uint32_t begin, count, in_common;
  char* common;

  MUCC_DEVICE void take(uint32_t& first, uint32_t& all, char* memory, RowTeams const& shape) {
    begin = first, count = all < kOwn * kThreads ? all : kOwn * kThreads;
    first += count, all -= count;
    in_common = shape.common, common = memory;
  }
  MUCC_DEVICE static uint32_t step_of(int i) { return threadIdx.x + i * kThreads; }
  // Whether there is such a step. Its place is at a constant distance from that of the first one, which takes no register.
  MUCC_DEVICE bool exists(int i) const { return step_of(i) < count; }
  template <class Thread, class Place>
  MUCC_DEVICE void go(Thread const& thread, Place& place, int i) const {
    place.move(begin + step_of(i), thread.extents);
  }
  template <class Thread, class Place>
  MUCC_DEVICE void load(Thread const& thread, Place& place, int i) {
    if (!exists(i)) return;
    go(thread, place, i);
    thread.work.template load<V>(place.p, kept[i]);
  }

  // Before the first row: what all rows have in common.
  template <class Thread, class Place>
  MUCC_DEVICE void keep(Thread const& thread, Place& place) const {
#pragma unroll 1
    for (int i = 0; step_of(i) < in_common; ++i) {
      go(thread, place, i);
      thread.work.template keep<V>(place.p, common, in_common, step_of(i));
    }
  }

  template <class Thread, class Place, class Row>
  MUCC_DEVICE void add_first(Thread& thread, Place& place, Row const& row) const {
    using First = decltype(thread.first);
#pragma unroll
    for (int base = 0; base < kOwn; base += kItems) {
      RowValues<V, First::Kinds::kCount> values[kItems];
      InsideOf<V, Work> inside[kItems];
#pragma unroll
      for (int i = 0; i < kItems; ++i) {
        inside[i] = {exists(base + i)};
        if (!exists(base + i)) continue;
        go(thread, place, base + i);
        values[i] = thread.work.template values<V>(Phase<0>{}, place.p, row, kept[base + i]);
      }
      thread.first.add(values, inside);
    }
  }

  template <int k, class Thread, class Totals>
  MUCC_DEVICE void add(Thread& thread, Totals& acc) const {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if (!exists(i)) continue;
      go(thread, thread.place, i);
      auto const values = thread.work.template values<V>(Phase<k>{}, thread.place.p, thread.row, kept[i]);
#pragma unroll
      for (int v = 0; v < V; ++v) KindsOf<Work, k>::add(acc[v], values, v);
    }
  }

  // Has L2 fetch these steps of row `next`, if it is one of `rows` and this one does not need that room, and what else is
  // stored with this row. One thread of a warp does it for all.
  template <class Thread, class Place>
  MUCC_DEVICE void fetch(Thread const& thread, Place place, uint32_t next, uint32_t rows) const {
    if (threadIdx.x % 32 || thread.count > thread.kept) return;
    Place ahead = place;
    if (next < rows) ahead.start(next, thread.extents);
#pragma unroll 1
    for (int i = 0; i < kOwn && exists(i); ++i) {
      uint32_t const steps = count - step_of(i) < 32 ? count - step_of(i) : 32;
      go(thread, place, i), go(thread, ahead, i);
      thread.work.template fetch<V>(place.p, ahead.p, steps, step_of(i) < in_common, next < rows);
    }
  }

  template <class Thread>
  MUCC_DEVICE auto results(Thread const& thread, int i) const {
    if constexpr (Work::kCommon) {
      typename Work::template Common<V> of;
      if (step_of(i) < in_common)
        thread.work.template load_common<V>(of, common, in_common, step_of(i));
      else
        thread.work.template load_common<V>(thread.place.p, of);
      return thread.work.template results<V>(thread.place.p, thread.row, kept[i], of);
    } else {
      return thread.work.template results<V>(thread.place.p, thread.row, kept[i]);
    }
  }

  // Stores results of these steps if there is a row, and loads those of the next one to the same places.
  template <class Thread, class Place>
  MUCC_DEVICE void store(Thread& thread, Place& next, bool has_row, bool has_next) {
#pragma unroll
    for (int base = 0; base < kOwn; base += kItems) {
      if (has_row) {
        typename Work::template Results<V> all[kItems];
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          if (!exists(base + i)) continue;
          go(thread, thread.place, base + i);
          all[i] = results(thread, base + i);
        }
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
          go(thread, thread.place, base + i);
          thread.work.template store<true>(thread.place.p, all[i], exists(base + i));
        }
      }
      if (has_next) {
#pragma unroll
        for (int i = 0; i < kItems; ++i) load(thread, next, base + i);
      }
    }
    if constexpr (Work::kCommon > 0)
      if (!has_row) keep(thread, next);
  }
};

// The same as teams of blocks, one block to a multiprocessor.
template <int V, int kItems, int kOwn, class Work>
MUCC_DEVICE void rows_resident(Work const& work, Extents<Work::kRank> const& extents, RowTeams const& shape) {
  rows_teams<V, kItems, Work, OwnSteps<V, kItems, kOwn, Work>>(work, extents, shape);
}

}  // namespace mucc
