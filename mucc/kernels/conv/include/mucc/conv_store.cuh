// The end of a tile whose rows are any positions: results of its sums, their reductions, pools and moments.
#pragma once

#include <mucc/conv_moments.cuh>
#include <mucc/conv_tile.cuh>

namespace mucc::conv {

// Sums of a tile in shared memory.
struct WholeSums {
  static constexpr int kShares = 1;
  float* tile;
  MUCC_DEVICE int share() const { return 0; }
  template <int kCount>
  MUCC_DEVICE Pack<float, kCount> read(int at) const {
    return *reinterpret_cast<Pack<float, kCount> const*>(tile + at);
  }
};

// Whether all positions of a tile are there. Those that are not are the last ones of the tile, or, where an element of the batch is
// padded to 64 rows, of any 64.
template <int kRows>
MUCC_DEVICE bool are_there(Row const* rows) {
  bool all = true;
#pragma unroll
  for (int i = (kRows - 1) % 64; i < kRows; i += 64) all = all && rows[i].batch >= 0;
  return all;
}

// Computes and stores the results of a tile, V neighbours at a time; where several blocks have parts of the sums each of them
// stores an equal share.
template <int V, class Of, class Work, class Sums>
MUCC_DEVICE void store_tile(Work const& work, Problem<typename Work::Element> const& problem, Axis const (&axes)[3],
                        Part const& at, Row const* rows, Sums const& sums) {
  static constexpr int kShares = Sums::kShares;
  static constexpr int kAlong = Of::kAlongChannels ? Of::kN : Of::kM, kLines = Of::kAlongChannels ? Of::kM : Of::kN;
  static constexpr int kSteps = kAlong / V;
  auto sums_of = [&](int line, int first) {
    Lanes<V> value;
#pragma unroll
    for (int v = 0; v < V; v += V < 4 ? V : 4) {
      auto const some = sums.template read<V < 4 ? V : 4>(line * Of::kPitch + first + v);
#pragma unroll
      for (int u = 0; u < (V < 4 ? V : 4); ++u) value.of[v + u] = some.of[u];
    }
    return value;
  };
  auto place_of_sums = [&](int line, int first) -> float* {
    if constexpr (kShares == 1) return sums.tile + line * Of::kPitch + first;
    return nullptr;
  };
  if constexpr (Of::kAlongChannels) {
    // A thread stays at its channels, and goes from row to row. Threads that are no whole row of steps have nothing to do.
    static constexpr int kTogether = kSteps < Of::kThreads ? kSteps : Of::kThreads, kRows = Of::kThreads / kTogether;
    int const line = int(threadIdx.x) / kTogether + sums.share() * kRows;
    if (int(threadIdx.x) >= kRows * kTogether) return;
    for (int first = int(threadIdx.x) % kTogether * V; first < kAlong; first += kTogether * V) {
      if (at.column + first >= problem.outputs) return;
      int64_t const channel = at.group * problem.outputs + at.column + first;
      auto place = [&](int i) { return position<Work>(axes, rows[i], channel); };
      auto value = [&](int i) { return sums_of(i, first); };
      auto from = [&](int i) { return place_of_sums(i, first); };
      if (are_there<kLines>(rows)) {
        store_lines<V, kLines, kRows * kShares, true>(work, line, kLines, place, value, from);
        continue;
      }
      auto const same = work.template per_channel<V>(place(0));
#pragma unroll 1
      for (int i = line; i < kLines; i += kRows * kShares)
        if (rows[i].batch >= 0) write_kept<V>(work, place(i), work.template results<V>(place(i), same, value(i)), from(i));
    }
  } else {
    // A thread stays at its positions, whose places are found once, and goes from channel to channel.
    static constexpr int kTogether = kSteps < Of::kThreads ? kSteps : Of::kThreads, kStep = Of::kThreads / kTogether * kShares;
    static_assert(kSteps % kTogether == 0 && Of::kThreads % kTogether == 0, "equal shares");
    int64_t const left = problem.outputs - at.column, channel = at.group * problem.outputs + at.column;
    for (int step = int(threadIdx.x) % kTogether; step < kSteps; step += kTogether) {
      Row const row = rows[step * V];
      if (row.batch < 0) continue;
      int const line = int(threadIdx.x) / kTogether + sums.share() * (Of::kThreads / kTogether);
      auto place = [&](int i) { return position<Work>(axes, row, channel + i); };
      auto value = [&](int i) { return sums_of(i, step * V); };
      auto from = [&](int i) { return place_of_sums(i, step * V); };
      store_lines<V, kLines, kStep, false>(work, line, left, place, value, from);
    }
  }
}

// Returns where a tile stores moments.
template <class Of, class Work>
MUCC_DEVICE Cells cells_at(Problem<typename Work::Element> const& problem, Part const& at) {
  using W = typename Work::Windows;
  int64_t const tile = at.row / Of::kM, tiles = problem.row_tiles / problem.batch;
  int64_t const first = at.group * problem.outputs + at.column, columns = problem.outputs - at.column;
  int index = 0;
#pragma unroll
  for (int a = 0; a < 3; ++a) index = index * (W::kTransposed ? W::stride(a) : 1) + at.residue[a];
  if (Work::kMoments == Moments::kEach)
    return {tile / tiles, first, columns, tile % tiles * W::kClasses + index, tiles * W::kClasses};
  return {0, first, columns, tile * W::kClasses + index, problem.row_tiles * W::kClasses};
}

// Stores the moments of a tile without positions.
template <class Of, class Work>
MUCC_DEVICE void measure_nothing(Problem<typename Work::Element> const& problem, Part const& at) {
  if constexpr (Work::kMoments != Moments::kNone) {
    Cells const own = cells_at<Of, Work>(problem, at);
    for (int column = int(threadIdx.x); column < Of::kN && column < own.columns; column += Of::kThreads)
      store_moments<Work>(problem, own, column, {0.0f, 0.0f, 0.0f});
  }
}

// Computes and stores the results of a tile, or reduces the channels of its positions. `sync` is a barrier of the threads that
// do so.
template <int V, class Of, class Work, class Sums, class Sync>
MUCC_DEVICE void finish(Work const& work, Problem<typename Work::Element> const& problem, Axis const (&axes)[3],
                        Part const& at, Row const* rows, Sums const& sums, Sync const& sync) {
  if constexpr (Work::kReduces) {
    static_assert(!Of::kAlongChannels && Sums::kShares == 1, "a block has all sums, and neighbours are positions");
    auto find = [&](int place, Position<Work::kRank, int64_t>& p) {
      Row const row = rows[place];
      p = position<Work>(axes, row, 0);
      return row.batch >= 0;
    };
    reduce_places<Of::kM, Of::kThreads>(work, problem.outputs, sums.tile, Of::kPitch, find);
  } else if constexpr (Work::Pool::kVolume > 1) {
    using Pool = typename Work::Pool;
    static_assert(!Of::kAlongChannels && Sums::kShares == 1, "a block has all sums, and neighbours are positions");
    auto first = [](int window) { return window * Pool::kVolume; };
    auto find = [&](int window, Position<Work::kRank, int64_t>& p) {
      Row const row = rows[first(window)];
      p = position<Work>(axes, row, at.group * problem.outputs + at.column);
      return row.batch >= 0;
    };
    Partly const all{nullptr, true, true};
    pool_places<Of::kM, Of::kN, Of::kThreads>(work, problem.outputs - at.column, sums.tile, Of::kPitch, all, find, first,
                                              [](int t) { return t; });
  } else {
    store_tile<V, Of>(work, problem, axes, at, rows, sums);
  }
  if constexpr (Work::kMoments != Moments::kNone) {
    static_assert(Sums::kShares == 1, "a block has all sums");
    Cells const own = cells_at<Of, Work>(problem, at);
    sync();
    measure<Of, Of::kM, Of::kPitch, Work>(problem, own, sums.tile, [&](int place) { return rows[place].batch >= 0; }, sync);
  }
}

}  // namespace mucc::conv
