// Convolution of channels that are groups of their own, of 16 bits and adjacent in memory. A block copies the window of x that its
// outputs see to shared memory, 16 bytes at a time. A thread has two channels of some rows of a strip of outputs: it reads a line
// of x once for all taps of a row of the window.
#pragma once

#include <mucc/conv_copy.cuh>
#include <mucc/conv_place.cuh>

namespace mucc::conv {

// Computes and stores results of a row of a strip: all kRun of them before the first is stored.
template <int kRun, class Work, class Place, class Value>
MUCC_DEVICE void store_strip(Work const& work, int count, Place const& place, Value const& value) {
  if (count >= kRun) {
    typename Work::template Results<2> held[kRun];
#pragma unroll
    for (int u = 0; u < kRun; ++u) held[u] = work.template results<2>(place(u), value(u));
#pragma unroll
    for (int u = 0; u < kRun; ++u) work.template write<2>(place(u), held[u]);
  } else {
#pragma unroll
    for (int u = 0; u < kRun; ++u)
      if (u < count) work.store(place(u), value(u));
  }
}

// Computes kChannels channels of a tile of positions (`StripTile`), in dynamic shared memory of `StripShape::kShared` bytes.
template <class Work>
MUCC_DEVICE void strips(Work const& work, Problem<typename Work::Element> const& problem) {
  using T = typename Work::Element;
  using W = typename Work::Windows;
  using Of = typename Work::Strips;
  using At = StripShape<W, Of>;
  static constexpr int kRows = Of::kRows, kRun = Of::kRun, kLine = (kRun - 1) * W::stride(2) + (W::size(2) - 1) * W::dilation(2) + 1;
  static_assert(sizeof(T) == 2 && At::kPosition == Of::kChannels * 2, "a position is whole pieces");
#if defined(__CUDACC__)
  extern __shared__ __align__(128) char memory[];
#else
  alignas(16) __shared__ char memory[At::kShared];
#endif
  float* const weights = reinterpret_cast<float*>(memory + At::kX);
  unsigned index = blockIdx.x;
  auto next = [&](int64_t count) {
    unsigned const whole = index / unsigned(count), rest = index - whole * unsigned(count);
    index = whole;
    return int(rest);
  };
  int const channels = int(problem.groups), channel = next((channels + Of::kChannels - 1) / Of::kChannels) * Of::kChannels;
  int at[3] = {0, 0, 0}, first[3];
#pragma unroll
  for (int a = 2; a >= 1; --a) {
    at[a] = next((problem.out[a] + Of::tile(a) - 1) / Of::tile(a)) * Of::tile(a);
    first[a] = at[a] * W::stride(a) - W::pad(a);
  }
  int64_t const batch = index;
  T const* const x = problem.x + batch * problem.x_batch + channel;
  for (int e = int(threadIdx.x); e < At::extent(1) * At::extent(2) * At::kPieces; e += Of::kThreads) {
    int const piece = e % At::kPieces, place = e / At::kPieces;
    int const h = first[1] + place / At::extent(2), w = first[2] + place % At::extent(2);
    bool const present = unsigned(h - int(problem.low[1])) < unsigned(problem.count[1]) &&
                         unsigned(w - int(problem.low[2])) < unsigned(problem.count[2]) && channel + piece * 8 < channels;
    copy_piece(memory + e * 16, present ? x + h * problem.x_at[1] + w * problem.x_at[2] + piece * 8 : problem.x, present);
  }
  commit();
  bool const beside = problem.w_group == 1;  // neighbours in memory are channels, else taps
  for (int e = int(threadIdx.x); e < W::kTaps * Of::kChannels; e += Of::kThreads) {
    int const c = beside ? e % Of::kChannels : e / W::kTaps, tap = beside ? e / Of::kChannels : e % W::kTaps;
    int64_t const from = (channel + c) * problem.w_group + tap / W::size(2) * problem.w_at[1] + tap % W::size(2) * problem.w_at[2];
    weights[tap * At::kWeightPitch + c] = channel + c < channels ? widen(problem.w[from]) : 0.0f;
  }
  wait<0>();
  __syncthreads();
  int const lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, own = lane % 16 * 2;
  int const row = warp / Of::kWarpsW * kRows, column = (warp % Of::kWarpsW * Of::kStrips + lane / 16) * kRun;
  float sums[kRows][kRun][2] = {};
  static constexpr int kUnrolled = W::size(1) * W::size(2) <= 9 ? W::size(1) : 1;
#pragma unroll(kUnrolled)
  for (int r = 0; r < W::size(1); ++r) {
    Pack<float, 2> by[W::size(2)];
#pragma unroll
    for (int s = 0; s < W::size(2); ++s)
      by[s] = *reinterpret_cast<Pack<float, 2> const*>(weights + (r * W::size(2) + s) * At::kWeightPitch + own);
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      int const line = (row + t) * W::stride(1) + r * W::dilation(1);
      char const* const from = memory + (line * At::extent(2) + column * W::stride(2)) * At::kPosition + own * 2;
      float values[kLine][2];
#pragma unroll
      for (int i = 0; i < kLine; ++i) {
        auto const some = *reinterpret_cast<Pack<T, 2> const*>(from + i * At::kPosition);
        values[i][0] = widen(some.of[0]), values[i][1] = widen(some.of[1]);
      }
#pragma unroll
      for (int s = 0; s < W::size(2); ++s)
#pragma unroll
        for (int u = 0; u < kRun; ++u)
#pragma unroll
          for (int c = 0; c < 2; ++c) sums[t][u][c] += values[u * W::stride(2) + s * W::dilation(2)][c] * by[s].of[c];
    }
  }
  if (channel + own >= channels) return;
#pragma unroll
  for (int t = 0; t < kRows; ++t) {
    if (at[1] + row + t >= problem.out[1]) break;
    auto place = [&](int u) {
      int64_t const to[3] = {0, at[1] + row + t, at[2] + column + u};
      return place_of<Work>(batch, channel + own, to);
    };
    auto value = [&](int u) {
      Lanes<2> found;
      found.of[0] = sums[t][u][0], found.of[1] = sums[t][u][1];
      return found;
    };
    store_strip<kRun>(work, int(problem.out[2]) - at[2] - column, place, value);
  }
}

}  // namespace mucc::conv
