// Convolutions by windows as large as x, which gradients of weights are: products whose K are the positions of the window.
//
// Rows are places of the result and elements of the batch, columns are channels of the result. K is the channels of x times the
// taps of its window; the taps are the positions of the convolution whose gradient this is. `wgmma` takes both factors with rows
// and columns innermost, so x and weights are read without a copy if batch and outputs are innermost in memory. A step has 64
// positions of K. Each 64 rows of a tile have one place of the result. One thread has TMA fill the steps by positions
// (im2col), which puts zeros where x has no elements, and beyond the last position. The blocks of a cluster have shares of K.
//
// Tiles of 64 rows have two warpgroups that multiply every other step each.
#pragma once

#include <mucc/conv_wgmma.cuh>

namespace mucc::conv {

// 64 rows of a tile: elements of the batch from `first` on at one place of the result; not `present` beyond the last place.
struct Chunk {
  int first;  // element of the batch
  int at[3];
  bool present;
};

template <class Work>
MUCC_DEVICE Chunk chunk_at(Problem<typename Work::Element> const& problem, int64_t row) {
  unsigned const each = unsigned((problem.batch + 63) / 64);
  unsigned const index = unsigned(row / 64);
  unsigned place = index / each;
  Chunk chunk;
  chunk.first = int(index - place * each) * 64;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    unsigned const rest = place / unsigned(problem.out[a]);
    chunk.at[a] = int(place - rest * unsigned(problem.out[a]));
    place = rest;
  }
  chunk.present = place == 0;
  return chunk;
}

// Has TMA load the steps of a tile; called by one thread.
template <class Work>
MUCC_DEVICE void copy_position_steps(Problem<typename Work::Element> const& problem, PositionMaps const& maps, Part const& at,
                                     Span const& span, Steps<Work> const& to) {
  using W = typename Work::Windows;
  using Of = typename Work::Wide;
  static constexpr int kAxes = Work::kRank - 2, kChunks = Of::kM / 64, kChunk = 64 * kMappedRow;
  prefetch(maps.x);
  prefetch(maps.w);
  Chunk chunks[kChunks];
  int bytes = Of::kN * kMappedRow;
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    chunks[i] = chunk_at<Work>(problem, at.row + i * 64);
    if (chunks[i].present) bytes += kChunk;
  }
  Ring<Of::kStages> ring;
  for (int step = span.first; step < span.last; ++step) {
    unsigned rest = unsigned(step) * 64;
    int x_first[3] = {}, w_first[3] = {};
#pragma unroll
    for (int a = 2; a >= 0; --a) {
      int const tap = int(rest % unsigned(W::size(a)));
      rest /= unsigned(W::size(a));
      if (a < 3 - kAxes) continue;
      x_first[2 - a] = tap * W::dilation(a) - W::pad(a) - int(problem.low[a]);
      w_first[2 - a] = tap;
    }
    int const s = ring.place;
    await(to.empty(s), ring.parity ^ 1);
    arrive_and_expect(to.full(s), bytes);
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      if (!chunks[i].present) continue;
      uint16_t moved[3] = {};
#pragma unroll
      for (int a = 3 - kAxes; a < 3; ++a) moved[2 - a] = uint16_t(chunks[i].at[a] * W::stride(a));
      copy_positions<kAxes>(to.x(s) + i * kChunk, maps.x, to.full(s), chunks[i].first, x_first, int(rest), moved);
    }
    uint16_t const still[3] = {};
#pragma unroll
    for (int i = 0; i < Of::kN / 64; ++i)
      copy_positions<kAxes>(to.w(s) + i * kChunk, maps.w, to.full(s), int(at.column) + i * 64, w_first, int(rest), still);
    ring.advance();
  }
}

// Multiplies the steps of a tile by one warpgroup: all of them, or with kSplits every other one.
template <class Work>
MUCC_DEVICE void multiply_position_steps(int steps, Steps<Work> const& from,
                                         float (&sums)[Work::Wide::kBlocks][Work::Wide::kN / 2]) {
  using Of = typename Work::Wide;
  static constexpr int kChunk = 64 * kMappedRow, kEach = Of::kSplits ? 2 : 1;
  int const group = int(threadIdx.x) / 128, lane = int(threadIdx.x) % 32;
  clear(sums);
  auto release = [&](int s) {
    if (lane == 0) arrive(from.empty(s));
  };
  Ring<Of::kStages> ring;
  if (Of::kSplits && group == 1) ring.advance();
  int before = -1;
#pragma unroll
  for (int m = 0; m < Of::kBlocks; ++m) hold(sums[m]);
  for (int step = Of::kSplits ? group : 0; step < steps; step += kEach) {
    int const s = ring.place;
    await(from.full(s), ring.parity);
    int const first = Of::kSplits ? 0 : group * Of::kBlocks;
    uint64_t const x = described(from.x(s) + first * kChunk, kChunk), w = described(from.w(s), kChunk);
    begin_products();
#pragma unroll
    for (int i = 0; i < 4; ++i)  // 16 positions each
#pragma unroll
      for (int m = 0; m < Of::kBlocks; ++m)
        Work::multiply(sums[m], x + (m * kChunk + i * 16 * kMappedRow) / 16, w + i * 16 * kMappedRow / 16, 1);
    end_products();
    wait_products<1>();
    if (before >= 0) release(before);
    before = s;
    ring.advance();
    if (Of::kSplits) ring.advance();
  }
  wait_products<0>();
#pragma unroll
  for (int m = 0; m < Of::kBlocks; ++m) hold(sums[m]);
}

// Adds the sums of the second warpgroup to those of the first one, which lie in shared memory.
template <class Of>
MUCC_DEVICE void add_spread(float const (&sums)[Of::kBlocks][Of::kN / 2], float* to) {
  int const warp = int(threadIdx.x) / 32 % 4, lane = int(threadIdx.x) % 32, first = warp * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < Of::kN / 2; ++i) {
    int const r = first + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2 + i % 2;
    to[Of::kAlongChannels ? r * Of::kPitch + c : c * Of::kPitch + r] += sums[0][i];
  }
}

template <int V, class Work>
MUCC_DEVICE void positions(Work const& work, Problem<typename Work::Element> const& problem, PositionMaps const& maps) {
  using Of = typename Work::Wide;
  using W = typename Work::Windows;
  static_assert(!W::kTransposed && !Work::kReduces && Work::Pool::kVolume == 1 && Work::kMoments == Moments::kNone);
  static_assert(V == 1 || Of::kAlongChannels, "neighbours are channels of the result");
  Steps<Work> const memory;
  int const own = Of::kShares > 1 ? int(blockIdx.x % Of::kShares) : 0;
  Part const at = part<Work, Of>(problem, blockIdx.x / Of::kShares);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Of::kStages; ++s) {
      start_barrier(memory.full(s), 1);
      start_barrier(memory.empty(s), Of::kSplits ? 4 : Of::kThreads / 32);
    }
    publish_barriers();
  }
  __syncthreads();
  int const steps = int((problem.channels * W::kTaps + 63) / 64);
  Span const span{int(int64_t(steps) * own / Of::kShares), int(int64_t(steps) * (own + 1) / Of::kShares)};
  if (threadIdx.x >= Of::kThreads) {
    if (threadIdx.x == Of::kThreads) copy_position_steps<Work>(problem, maps, at, span, memory);
    __syncwarp();
    if constexpr (Of::kShares > 1) {
      sync_cluster();
      sync_cluster();
    }
    return;
  }
  for (int i = int(threadIdx.x); i < Of::kM; i += Of::kThreads) {
    Chunk const chunk = chunk_at<Work>(problem, at.row + i);
    int const element = chunk.first + i % 64;
    memory.rows()[i] = {chunk.present && element < problem.batch ? element : -1, {chunk.at[0], chunk.at[1], chunk.at[2]}};
  }
  Axis axes[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) axes[a] = axis<W>(a, 0, problem.out[a]);
  float sums[Of::kBlocks][Of::kN / 2];
  multiply_position_steps<Work>(span.last - span.first, memory, sums);
  sync_groups(1);  // all products have read their steps
  if constexpr (Of::kSplits) {
    if (threadIdx.x < 128) spread<Of, typename Work::Format>(sums, memory.tile());
    sync_groups(1);
    if (threadIdx.x >= 128) add_spread<Of>(sums, memory.tile());
  } else {
    spread<Of, typename Work::Format>(sums, memory.tile());
  }
  if constexpr (Of::kShares > 1) {
    sync_cluster();
    finish<V, Of>(work, problem, axes, at, memory.rows(), SharedSums<Of::kShares>{memory.base, own}, [] { sync_groups(1); });
    sync_cluster();  // no block ends while others read its sums
  } else {
    sync_groups(1);
    finish<V, Of>(work, problem, axes, at, memory.rows(), WholeSums{memory.tile()}, [] { sync_groups(1); });
  }
}

}  // namespace mucc::conv
