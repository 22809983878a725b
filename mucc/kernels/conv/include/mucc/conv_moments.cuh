// Moments of the results of a tile, for each of its channels: their mean, the sum of squared distances from it, and how many
// they are. Each tile has a cell of memory for them, so that sums have a fixed order, and no cell needs to be cleared before.
#pragma once

#include <mucc/conv_place.cuh>

namespace mucc::conv {

// Where a tile stores moments: its element of the batch, the first of its `columns` channels, and its cell among the `count` that
// the tiles of a channel have, in one element of the batch or in all of them.
struct Cells {
  int64_t batch, channel, columns, cell, count;
};

struct MomentsOf {
  float mean, squares, count;
};

// The moments of two parts together.
MUCC_DEVICE MomentsOf together(MomentsOf const& a, MomentsOf const& b) {
  float const count = a.count + b.count, far = b.mean - a.mean;
  if (b.count == 0.0f) return a;
  if (a.count == 0.0f) return b;
  float const share = b.count / count;
  return {a.mean + far * share, a.squares + b.squares + far * far * a.count * share, count};
}

// Stores the moments of a channel of a tile. A call may have fewer tiles than cells: the tiles clear the further cells in turns.
template <class Work>
MUCC_DEVICE void store_moments(Problem<typename Work::Element> const& problem, Cells const& own, int64_t column,
                               MomentsOf const& found) {
  static constexpr bool kEach = Work::kMoments == Moments::kEach;
  int64_t const channels = problem.outputs * problem.groups, part = channels * problem.cells * (kEach ? problem.batch : 1);
  int64_t const row = (kEach ? own.batch * channels : 0) + own.channel + column;
  float* to = problem.moments + row * problem.cells;
  for (int64_t at = own.cell; at < problem.cells; at += own.count) {
    MomentsOf const value = at == own.cell ? found : MomentsOf{0.0f, 0.0f, 0.0f};
    to[at] = value.mean;
    to[part + at] = value.squares;
    to[2 * part + at] = value.count;
  }
}

// Finds and stores the moments of the channels of a tile of kPlaces positions, whose results lie in shared memory, kPitch apart
// from channel to channel, or from position to position. `present(place)` says whether there is such a position: there are all
// if the last one is. `sync` is a barrier of these threads.
template <class Of, int kPlaces, int kPitch, class Work, class Present, class Sync>
MUCC_DEVICE void measure(Problem<typename Work::Element> const& problem, Cells const& own, float* tile, Present const& present,
                         Sync const& sync) {
  int const thread = int(threadIdx.x);
  bool const is_whole = present(kPlaces - 1);
  if constexpr (Of::kAlongChannels) {
    static constexpr int kParts = Of::kThreads / Of::kN > 1 ? Of::kThreads / Of::kN : 1;
    static_assert(Of::kN <= Of::kThreads && kPlaces / kParts >= 2, "a thread for each channel");
    int const column = thread % Of::kN, part = thread / Of::kN;
    MomentsOf found{0.0f, 0.0f, 0.0f};
    if (part < kParts) {
      float sum = 0.0f;
      int count = 0;
      for (int place = part; place < kPlaces; place += kParts)
        if (is_whole || present(place)) sum += tile[place * kPitch + column], ++count;
      found.count = float(count);
      found.mean = count > 0 ? sum / found.count : 0.0f;
      for (int place = part; place < kPlaces; place += kParts) {
        float const far = tile[place * kPitch + column] - found.mean;
        if (is_whole || present(place)) found.squares += far * far;
      }
    }
    sync();
    if (kParts > 1 && part > 0 && part < kParts) {
      float* const to = tile + ((part - 1) * Of::kN + column) * 3;
      to[0] = found.mean, to[1] = found.squares, to[2] = found.count;
    }
    if (kParts > 1) sync();
    if (part > 0 || column >= own.columns) return;
    for (int other = 1; other < kParts; ++other) {
      float const* const from = tile + ((other - 1) * Of::kN + column) * 3;
      found = together(found, {from[0], from[1], from[2]});
    }
    store_moments<Work>(problem, own, column, found);
  } else {
    // Eight lanes have the positions of a channel, 16 bytes each of every 128.
    static constexpr int kLanes = 8, kWidth = 4, kSteps = kPlaces / (kLanes * kWidth), kBits = 32 / kWidth;
    static_assert(kPlaces % (kLanes * kWidth) == 0 && Of::kThreads % kLanes == 0 && Of::kN % 4 == 0, "whole warps");
    static constexpr int kWords = (kSteps + kBits - 1) / kBits;
    int const lane = thread % kLanes;
    uint32_t has[kWords];
    int own_count = 0;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      has[word] = ~0u;
      if (!is_whole) {
        has[word] = 0;
        for (int bit = 0; bit < 32; ++bit) {
          int const step = word * kBits + bit / kWidth;
          if (step < kSteps && present((step * kLanes + lane) * kWidth + bit % kWidth)) has[word] |= 1u << bit, ++own_count;
        }
      }
    }
    auto all = [](float x) {
#pragma unroll
      for (int bits = 1; bits < kLanes; bits *= 2) x += __shfl_xor_sync(~0u, x, bits);
      return x;
    };
    float const count = is_whole ? float(kPlaces) : all(float(own_count));
    bool const begins = is_whole || present(0);
    for (int line = thread / kLanes; line < Of::kN; line += Of::kThreads / kLanes) {
      float const* const from = tile + line * kPitch + lane * kWidth;
      // Distances are from one of the elements: its square is no more than `count` times the mean square from the mean.
      float const shift = begins ? tile[line * kPitch] : 0.0f;
      float sum = 0.0f, squares = 0.0f;
      auto add_up = [&](bool all_there) {
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          auto const some = *reinterpret_cast<Pack<float, kWidth> const*>(from + step * kLanes * kWidth);
#pragma unroll
          for (int i = 0; i < kWidth; ++i)
            if (all_there || has[step / kBits] >> (step % kBits * kWidth + i) & 1) {
              float const far = some.of[i] - shift;
              sum += far;
              squares += far * far;
            }
        }
      };
      if (is_whole) {
        add_up(true);
      } else {
        add_up(false);
      }
      sum = all(sum), squares = all(squares);
      if (lane != 0 || line >= own.columns) continue;
      float const mean = count > 0.0f ? sum / count : 0.0f;
      float const around = squares - sum * mean;  // NaN stays
      store_moments<Work>(problem, own, line, {count > 0.0f ? mean + shift : 0.0f, around < 0.0f ? 0.0f : around, count});
    }
  }
}

}  // namespace mucc::conv
