// The end of tiles whose positions are a box: results of sums in shared memory.
#pragma once

#include <mucc/conv.cuh>
#include <mucc/conv_moments.cuh>

namespace mucc::conv {

// The greatest power of two that is no greater.
MUCC_BOTH constexpr int power_within(int count) {
  int power = 1;
  while (power * 2 <= count) power *= 2;
  return power;
}

// Computes and stores the results of a tile `Of` of positions, or reduces its channels, or pools it, for one class along the
// first two axes. `At` says how positions lie in shared memory.
template <int V, class Of, class At, class Work, class Part>
MUCC_DEVICE void finish_patch(Work const& work, Problem<typename Work::Element> const& problem, Part const& at,
                              int const (&residue)[2], float* tile, Partly const& partly = {nullptr, true, true}) {
  using W = typename Work::Windows;
  static constexpr int kLast = At::kLast, kPlaces = Of::kM * kLast;
  static constexpr int kAlong = Of::kAlongChannels ? Of::kN : kPlaces, kLines = Of::kAlongChannels ? kPlaces : Of::kN;
  static constexpr int kSteps = kAlong / V;
  // So many threads have neighbouring steps of a line; each stays at its steps, and goes from line to line.
  static constexpr int kTogether = power_within(kSteps < Of::kThreads ? kSteps : Of::kThreads);
  int64_t to[3];
  auto find = [&](int place) {
    int const w = place % (Of::kW * kLast), h = place / (Of::kW * kLast) % Of::kH, d = place / (Of::kW * kLast) / Of::kH;
    to[0] = W::kTransposed ? int64_t(at.at[0] + d) * W::stride(0) + residue[0] : at.at[0] + d;
    to[1] = W::kTransposed ? int64_t(at.at[1] + h) * W::stride(1) + residue[1] : at.at[1] + h;
    to[2] = int64_t(at.at[2]) * kLast + w;
    return to[0] < problem.out[0] && to[1] < problem.out[1] && to[2] < problem.out[2];
  };
  if constexpr (Work::kReduces) {
    static_assert(!Of::kAlongChannels, "neighbours are positions");
    auto find_place = [&](int place, Position<Work::kRank, int64_t>& p) {
      bool const present = find(place);
      p = place_of<Work>(at.batch, 0, to);
      return present;
    };
    reduce_places<kPlaces, Of::kThreads>(work, problem.outputs, tile, At::kOutPitch, find_place);
  } else if constexpr (Work::Pool::kVolume > 1) {
    using Pool = typename Work::Pool;
    using Own = typename ClassWindow<W, Pool>::Part;
    static_assert(!Of::kAlongChannels, "neighbours are positions");
    static constexpr int kLine = Of::kW * kLast, kRow = kLine / Own::kW, kRows = Of::kH / Own::kH;
    auto first = [&](int window) {
      int const w = window % kRow * Own::kW, h = window / kRow % kRows * Own::kH, d = window / kRow / kRows * Own::kD;
      return (d * Of::kH + h) * kLine + w;
    };
    auto find_window = [&](int window, Position<Work::kRank, int64_t>& p) {
      bool present = find(first(window));
#pragma unroll
      for (int a = 0; a < 3; ++a) present = present && to[a] / Pool::size(a) < problem.out[a] / Pool::size(a);
      p = place_of<Work>(at.batch, at.group * problem.outputs + at.column, to);
      return present;
    };
    auto step = [](int t) { return (Own::at(0, t) * Of::kH + Own::at(1, t)) * kLine + Own::at(2, t); };
    pool_places<kPlaces, Of::kN, Of::kThreads>(work, problem.outputs - at.column, tile, At::kOutPitch, partly, find_window, first,
                                               step);
  } else {
    int64_t const left = problem.outputs - at.column, channel = at.group * problem.outputs + at.column;
    for (int step = int(threadIdx.x) % kTogether; step < kSteps; step += kTogether) {
      int const line = int(threadIdx.x) / kTogether;
      auto sums = [&](int i) { return tile + i * At::kOutPitch + step * V; };
      auto value = [&](int i) { return sums_at<V>(sums(i)); };
      if constexpr (Of::kAlongChannels) {
        if (step * V >= left) continue;
        if (find(kLines - 1)) {  // all positions are there if the last one is
          auto place = [&](int i) {
            find(i);
            return place_of<Work>(at.batch, channel + step * V, to);
          };
          store_lines<V, kLines, Of::kThreads / kTogether, Of::kAlongChannels>(work, line, kLines, place, value, sums);
          continue;
        }
        find(0);
        auto const same = work.template per_channel<V>(place_of<Work>(at.batch, channel + step * V, to));
#pragma unroll 1
        for (int i = line; i < kLines; i += Of::kThreads / kTogether) {
          if (!find(i)) continue;
          auto const p = place_of<Work>(at.batch, channel + step * V, to);
          write_kept<V>(work, p, work.template results<V>(p, same, value(i)), sums(i));
        }
      } else if (find(step * V)) {
        auto place = [&](int i) { return place_of<Work>(at.batch, channel + i, to); };
        store_lines<V, kLines, Of::kThreads / kTogether, Of::kAlongChannels>(work, line, left, place, value, sums);
      }
    }
  }
  if constexpr (Work::kMoments != Moments::kNone) {
    int64_t cell = 0, cells = 1;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      int64_t const outs = W::kTransposed ? (problem.out[a] + W::stride(a) - 1) / W::stride(a) : problem.out[a];
      int64_t const tiles = (outs + Of::tile(a) - 1) / Of::tile(a);
      cell = cell * tiles + at.at[a] / Of::tile(a), cells *= tiles;
    }
    if constexpr (W::kTransposed) {
#pragma unroll
      for (int a = 0; a < 2; ++a) cell = cell * W::stride(a) + residue[a], cells *= W::stride(a);
    }
    if (Work::kMoments == Moments::kAcross) cell += at.batch * cells, cells *= problem.batch;
    Cells const own{at.batch, at.group * problem.outputs + at.column, problem.outputs - at.column, cell, cells};
    __syncthreads();
    measure<Of, kPlaces, At::kOutPitch, Work>(problem, own, tile, [&](int place) { return find(place); },
                                              [] { __syncthreads(); });
  }
}

}  // namespace mucc::conv
