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
  auto finish_one = [&](Row const& row, int line, int first, int64_t output) {
    auto const p = position<Work>(axes, row, at.group * problem.outputs + output);
    write_kept<V>(work, p, work.template results<V>(p, sums_of(line, first)), place_of_sums(line, first));
  };
  if constexpr (Of::kAlongChannels) {
    // A thread stays at its channels where rows are whole numbers of threads' steps, and all positions are there.
    static constexpr bool kEven = kSteps <= Of::kThreads && Of::kThreads % kSteps == 0;
    if (kEven && kShares == 1 && rows[kLines - 1].batch >= 0) {
      int const first = int(threadIdx.x) % kSteps * V;
      if (at.column + first >= problem.outputs) return;
      int64_t const channel = at.group * problem.outputs + at.column + first;
      auto place = [&](int i) { return position<Work>(axes, rows[i], channel); };
      auto value = [&](int i) { return sums_of(i, first); };
      auto from = [&](int i) { return place_of_sums(i, first); };
      store_lines<V, kLines, kEven ? Of::kThreads / kSteps : 1>(work, int(threadIdx.x) / kSteps, kLines, place, value, from);
      return;
    }
    for (int i = int(threadIdx.x) + sums.share() * Of::kThreads; i < kSteps * kLines; i += Of::kThreads * kShares) {
      int const line = i / kSteps, first = i % kSteps * V;
      Row const row = rows[line];
      if (row.batch >= 0 && at.column + first < problem.outputs) finish_one(row, line, first, at.column + first);
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
      store_lines<V, kLines, kStep>(work, line, left, place, value, from);
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
