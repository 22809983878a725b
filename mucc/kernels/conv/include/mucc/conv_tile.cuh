// A tile of a convolution as a product: how warps and shared memory divide it, the output positions of its rows, and the
// walk along K, over the taps of a window and the channels of x.
#pragma once

#include <mucc/conv_place.cuh>

namespace mucc::conv {

// Position of a row of a tile in the result, counted within its class of outputs; `batch` is -1 past the last one.
struct Row {
  int batch, at[3];
};

// What the first tap of a row reads: its place in x, and its indices along the axes of x, small past the last row.
struct Line {
  int64_t offset;
  int in[3];
};

template <class T>
struct Piece {
  static constexpr int kCount = 16 / sizeof(T);
  Pack<T, kCount> of;
};

template <class Work>
struct Tile : Work::Shape {
  using T = typename Work::Element;
  using Format = typename Work::Format;
  using Of = typename Work::Shape;
  static constexpr int kPieces = Of::kPieces, kPiece = Piece<T>::kCount, kK = kPieces * kPiece;
  static constexpr int kWarps = Of::kThreads / 32, kWarpsN = Of::kN >= 64 && kWarps > 1 ? 2 : 1;
  static constexpr int kWarpsM = kWarps / kWarpsN;
  static constexpr int kWarpM = Of::kM / kWarpsM, kWarpN = Of::kN / kWarpsN;
  static constexpr int kBlocksM = kWarpM / 16, kBlocksN = kWarpN / 8;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "whole matrices");
  static_assert((sizeof(Row) + sizeof(Line)) * Of::kM <= Of::kRows, "as much as the shape counts");

  // Where a piece of a row of a stage lies: rows that would meet in the banks exchange their pieces.
  MUCC_DEVICE static int place(int row, int piece) { return (row * kPieces + (piece ^ (row % kPieces))) * 16; }
};

// The outputs of a class along each axis, and the extent of K.
template <class Work>
struct Walk {
  using W = typename Work::Windows;
  Axis axes[3];
  int channels, depth;

  MUCC_DEVICE int taps(int a) const { return W::kTransposed ? axes[a].taps : W::size(a); }
  MUCC_DEVICE int count() const { return Work::kChannels ? Work::kChannels : channels; }
};

// A place along K that moves on.
template <class Work>
struct Cursor {
  using W = typename Work::Windows;
  static constexpr bool kDivides = !W::kTransposed && Work::kChannels > 0;  // by numbers that are compiled in
  Walk<Work> const& walk;
  int tap[3], channel, left;  // `left` elements of K from here on

  MUCC_DEVICE Cursor(Walk<Work> const& walk, int k) : walk(walk), left(walk.depth - k) {
    if (walk.depth == 0) return;
    int const count = walk.count(), taps = walk.taps(0) * walk.taps(1) * walk.taps(2);
    int const linear = Work::kChannelsInner ? k / count : k % taps;
    channel = Work::kChannelsInner ? k % count : k / taps;
    decode(linear);
  }

  MUCC_DEVICE void decode(int linear) {
    int const last = walk.taps(2), middle = walk.taps(1);
    tap[2] = linear % last;
    tap[1] = linear / last % middle;
    tap[0] = linear / last / middle;
  }
  // Moves to the next tap; whether that is the first one again.
  MUCC_DEVICE bool next_tap() {
    if (++tap[2] < walk.taps(2)) return false;
    tap[2] = 0;
    if (++tap[1] < walk.taps(1)) return false;
    tap[1] = 0;
    if (++tap[0] < walk.taps(0) || Work::kChannelsInner) return false;
    tap[0] = 0;
    return true;
  }
  // Moves on by kBy elements; whether to other taps.
  template <int kBy>
  MUCC_DEVICE bool advance() {
    left -= kBy;
    if constexpr (Work::kChannelsInner) {
      channel += kBy;
      bool moved = false;
      while (channel >= walk.count() && left > 0) {
        channel -= walk.count();
        next_tap();
        moved = true;
      }
      return moved;
    } else {
      static constexpr int kTaps = W::kTaps;
      if constexpr (kBy % kTaps == 1 || kTaps == 1) {
        channel += kBy / kTaps;
        if (kTaps > 1 && next_tap()) ++channel;
      } else {
        int linear = (tap[0] * W::size(1) + tap[1]) * W::size(2) + tap[2] + kBy % kTaps;
        channel += kBy / kTaps;
        if (linear >= kTaps) linear -= kTaps, ++channel;
        decode(linear);
      }
      return true;
    }
  }

  template <class T>
  MUCC_DEVICE int64_t x_offset(Problem<T> const& problem) const {
    int64_t offset = 0;
#pragma unroll
    for (int a = 0; a < 3; ++a) offset += tap[a] * walk.axes[a].in_move * problem.x_at[a];
    return offset;
  }
  template <class T>
  MUCC_DEVICE int64_t w_offset(Problem<T> const& problem) const {
    int64_t offset = 0;
#pragma unroll
    for (int a = 0; a < 3; ++a)
      offset += (walk.axes[a].first_tap + tap[a] * walk.axes[a].tap_step) * problem.w_at[a];
    return offset;
  }
  // Whether x has the element that the tap reads from indices `in` of the first one.
  template <class T>
  MUCC_DEVICE bool present(Problem<T> const& problem, int const (&in)[3]) const {
    bool inside = true;
#pragma unroll
    for (int a = 0; a < 3; ++a) {
      int const index = in[a] + tap[a] * walk.axes[a].in_move - int(problem.low[a]);
      inside = inside && unsigned(index) < unsigned(problem.count[a]);
    }
    return inside;
  }
};

// The pieces of kLines rows that a thread has: always the same piece of some rows.
template <class Work, int kLines>
struct Share {
  static constexpr int kPieces = Work::Shape::kPieces, kStep = Work::Shape::kThreads / kPieces;
  static constexpr int kCount = kLines / kStep;
  static_assert(kLines % kStep == 0, "equal shares");
  MUCC_DEVICE static int row(int i) { return int(threadIdx.x) / kPieces + i * kStep; }
  MUCC_DEVICE static int piece() { return int(threadIdx.x) % kPieces; }
};



// Which tile a block computes.
struct Part {
  int64_t row, column, group;
  int residue[3];
};

template <class Work, class Shape = typename Work::Shape>
MUCC_DEVICE Part part(Problem<typename Work::Element> const& problem, unsigned index) {
  using W = typename Work::Windows;
  auto next = [&](int64_t count) {
    unsigned const whole = index / unsigned(count), rest = index - whole * unsigned(count);
    index = whole;
    return int64_t(rest);
  };
  Part part;
  part.column = next(problem.column_tiles) * Shape::kN;
  // Classes lie between each other in memory: L2 puts together what blocks of the same time store.
  int rest = int(next(W::kClasses));
  part.row = next(problem.row_tiles) * Shape::kM;
  part.group = index;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    int const count = W::kTransposed ? W::stride(a) : 1;
    part.residue[a] = rest % count;
    rest /= count;
  }
  return part;
}

// The position of a row of a class of outputs.
template <class Work>
MUCC_DEVICE Row row_at(Problem<typename Work::Element> const& problem, Axis const (&axes)[3], int64_t index) {
  Row row;
  int64_t batch = 0;
  if constexpr (Work::kMoments == Moments::kEach) {
    batch = index / problem.batch_rows;
    index -= batch * problem.batch_rows;
  }
  if constexpr (Work::Pool::kVolume > 1) {  // positions of a window follow each other
    using Pool = typename Work::Pool;
    int const t = int(index % Pool::kVolume);
    index /= Pool::kVolume;
#pragma unroll
    for (int a = 2; a >= 0; --a) {
      int64_t const windows = problem.out[a] / Pool::size(a);
      row.at[a] = int(index % windows) * Pool::size(a) + Pool::at(a, t);
      index /= windows;
    }
    row.batch = index < problem.batch ? int(index) : -1;
    return row;
  }
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    int64_t const rest = index >> 31 ? index / axes[a].outs : unsigned(index) / unsigned(axes[a].outs);
    row.at[a] = int(index - rest * axes[a].outs);
    index = rest;
  }
  if constexpr (Work::kMoments == Moments::kEach) index = index > 0 ? problem.batch : batch;
  row.batch = index < problem.batch ? int(index) : -1;
  return row;
}

// What the first tap of a row reads.
template <class Work>
MUCC_DEVICE Line line_at(Problem<typename Work::Element> const& problem, Axis const (&axes)[3], Row const& row,
                         int64_t group) {
  Line line;
  line.offset = row.batch * problem.x_batch + group * problem.channels * problem.x_channel;
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    int const in = row.at[a] * axes[a].in_step + axes[a].first_in;
    line.offset += in * problem.x_at[a];
    line.in[a] = row.batch < 0 ? -(1 << 30) : in;
  }
  return line;
}

// Whether a class of outputs is empty: of a transposed convolution with few outputs.
MUCC_DEVICE bool is_empty(Axis const (&axes)[3]) { return axes[0].outs == 0 || axes[1].outs == 0 || axes[2].outs == 0; }

// The position of an output in the space of the results.
template <class Work>
MUCC_DEVICE Position<Work::kRank, int64_t> position(Axis const (&axes)[3], Row const& row, int64_t output) {
  int64_t at[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) at[a] = axes[a].first_out + int64_t(row.at[a]) * axes[a].out_step;
  return place_of<Work>(row.batch, output, at);
}

}  // namespace mucc::conv
