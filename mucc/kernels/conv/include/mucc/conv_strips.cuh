// Convolution of channels that are groups of their own and adjacent in memory. A thread has kVector channels of kRows rows of
// kRun outputs each. It loads each line of x that they see once, straight from global memory, and adds it to the sums of all rows
// that see it. Weights of a block's channels are in shared memory, as f32.
#pragma once

#include <mucc/conv_place.cuh>

namespace mucc::conv {

// V neighbouring elements as words of memory.
template <class T, int V>
struct Words {
  static_assert(V * sizeof(T) % 4 == 0, "whole words");
  Pack<uint32_t, V * int(sizeof(T)) / 4> words;
};

// Loads them where `present`, else zeros, without a branch: so the loads of a line are under way at the same time.
template <class T, int V>
MUCC_DEVICE void load_if(Words<T, V>& to, bool present, T const* from) {
#if defined(__CUDA_ARCH__)
  uint32_t(&w)[V * sizeof(T) / 4] = to.words.of;
  if constexpr (V * sizeof(T) == 4) {
    asm("{ .reg .pred %%present; setp.ne.s32 %%present, %2, 0; mov.b32 %0, 0; @%%present ld.global.nc.b32 %0, [%1]; }"
        : "=r"(w[0])
        : "l"(from), "r"(int(present)));
  } else if constexpr (V * sizeof(T) == 8) {
    asm("{ .reg .pred %%present; setp.ne.s32 %%present, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0; "
        "@%%present ld.global.nc.v2.b32 {%0, %1}, [%2]; }"
        : "=r"(w[0]), "=r"(w[1])
        : "l"(from), "r"(int(present)));
  } else {
    static_assert(V * sizeof(T) == 16, "what one instruction loads");
    asm("{ .reg .pred %%present; setp.ne.s32 %%present, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; mov.b32 %3, 0; "
        "@%%present ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4]; }"
        : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
        : "l"(from), "r"(int(present)));
  }
#else
  to = present ? *reinterpret_cast<Words<T, V> const*>(from) : Words<T, V>{};
#endif
}

template <int V>
MUCC_DEVICE Lanes<V> numbers(Words<float, V> const& x) {
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = __uint_as_float(x.words.of[v]);
  return result;
}
template <int V>
MUCC_DEVICE Lanes<V> numbers(Words<bf16, V> const& x) {
  Lanes<V> result;
#pragma unroll
  for (int w = 0; w < V / 2; ++w) {
    result.of[2 * w] = __uint_as_float(x.words.of[w] << 16);
    result.of[2 * w + 1] = __uint_as_float(x.words.of[w] & 0xffff0000u);
  }
  return result;
}
template <int V>
MUCC_DEVICE Lanes<V> numbers(Words<f16, V> const& x) {
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = widen(f16{uint16_t(x.words.of[v / 2] >> 16 * (v % 2))});
  return result;
}

// What a thread sees of x: kLines lines of kLine positions each.
template <class W, class Of>
struct StripReach {
  static constexpr int kLine = (Of::kRun - 1) * W::stride(2) + (W::size(2) - 1) * W::dilation(2) + 1;
  static constexpr int kLines = (Of::kRows - 1) * W::stride(1) + (W::size(1) - 1) * W::dilation(1) + 1;

  // The row of the window by which output row `t` sees line `i`, -1 where it does not.
  MUCC_DEVICE static int row(int i, int t) {
    int const behind = i - t * W::stride(1), r = behind / W::dilation(1);
    return behind >= 0 && behind % W::dilation(1) == 0 && r < W::size(1) ? r : -1;
  }
  // Whether an output sees line `i`.
  MUCC_DEVICE static bool sees(int i) {
    bool found = false;
#pragma unroll
    for (int t = 0; t < Of::kRows; ++t) found = found || row(i, t) >= 0;
    return found;
  }
};

// The positions of lines of x that have elements: bit j is that of position j, where a line has no more than bits.
template <int kLine>
struct Columns {
  static constexpr bool kBits = kLine <= 32;
  int first, count;  // the index of position 0 among those that have elements, and their number
  uint32_t bits = 0;

  MUCC_DEVICE Columns(int first, int count) : first(first), count(count) {
    if constexpr (kBits) {
#pragma unroll
      for (int j = 0; j < kLine; ++j) bits |= uint32_t(unsigned(first + j) < unsigned(count)) << j;
    }
  }
  MUCC_DEVICE bool has(int j) const { return kBits ? bits >> j & 1 : unsigned(first + j) < unsigned(count); }
};

// Loads what a line of x has of the positions of a strip, zeros elsewhere.
template <class W, class Of, class T, int kLine>
MUCC_DEVICE void load_line(Words<T, Of::kVector> (&line)[kLine], bool present, T const* from, int64_t step,
                           Columns<kLine> const& columns) {
#pragma unroll
  for (int j = 0; j < kLine; ++j) load_if(line[j], present && columns.has(j), from + j * step);
}

// Copies weights of the channels of a block to shared memory.
template <class W, class Of, class T>
MUCC_DEVICE void copy_weights(Problem<T> const& problem, int channel, float* to) {
  bool const beside = problem.w_group == 1;  // neighbours in memory are channels, else taps
#pragma unroll 1
  for (int e = int(threadIdx.x); e < W::kTaps * Of::kChannels; e += Of::kThreads) {
    int const c = beside ? e % Of::kChannels : e / W::kTaps, tap = beside ? e / Of::kChannels : e % W::kTaps;
    int64_t const from = (channel + c) * problem.w_group + tap / W::size(2) * problem.w_at[1] + tap % W::size(2) * problem.w_at[2];
    to[tap * Of::kChannels + c] = channel + c < int(problem.groups) ? widen(problem.w[from]) : 0.0f;
  }
}

// Computes the results of a thread before the first is stored, so that what is the same in all of them is loaded once: the first
// `rows` rows of `columns` outputs. Others are computed where the last of these lie, and not stored. `place(t, u)` says where
// results lie. What has several results is computed row by row.
template <int kRows, int kRun, int V, class Work, class Place>
MUCC_DEVICE void store_strips(Work const& work, float const (&sums)[kRows][kRun][V], int rows, int columns, Place const& place) {
  using Results = typename Work::template Results<V>;
  static constexpr int kHeld = sizeof(Results) > V * sizeof(float) ? 1 : kRows;
#pragma unroll
  for (int first = 0; first < kRows; first += kHeld) {
    Results held[kHeld][kRun];
#pragma unroll
    for (int t = 0; t < kHeld; ++t)
#pragma unroll
      for (int u = 0; u < kRun; ++u) {
        Lanes<V> value;
#pragma unroll
        for (int v = 0; v < V; ++v) value.of[v] = sums[first + t][u][v];
        int const row = first + t < rows ? first + t : rows - 1, column = u < columns ? u : columns - 1;
        held[t][u] = work.template results<V>(place(row, column), value);
      }
#pragma unroll
    for (int t = 0; t < kHeld; ++t) {
      if (first + t >= rows) break;
#pragma unroll
      for (int u = 0; u < kRun; ++u)
        if (u < columns) work.template write<V>(place(first + t, u), held[t][u]);
    }
  }
}

// Computes kBeside strips of kChannels channels (`StripTile`), in dynamic shared memory of `StripShape::kShared` bytes.
template <class Work>
MUCC_DEVICE void strips(Work const& work, Problem<typename Work::Element> const& problem) {
  using T = typename Work::Element;
  using W = typename Work::Windows;
  using Of = typename Work::Strips;
  using Reach = StripReach<W, Of>;
  static constexpr int V = Of::kVector, kRows = Of::kRows, kRun = Of::kRun, kLine = Reach::kLine, kLines = Reach::kLines;
#if defined(__CUDACC__)
  extern __shared__ __align__(128) char memory[];
#else
  alignas(16) __shared__ char memory[StripShape<W, Of>::kShared];
#endif
  float* const weights = reinterpret_cast<float*>(memory);
  int const channels = int(problem.groups);
  unsigned const chunks = unsigned(channels + Of::kChannels - 1) / Of::kChannels, chunk = blockIdx.x % chunks;
  int const own = int(threadIdx.x) % Of::kLanes * V, channel = int(chunk) * Of::kChannels;
  unsigned index = blockIdx.x / chunks * Of::kBeside + threadIdx.x / Of::kLanes;
  unsigned const across = unsigned(problem.out[2] + kRun - 1) / kRun, down = unsigned(problem.out[1] + kRows - 1) / kRows;
  int const column = int(index % across) * kRun;
  index /= across;
  int const row = int(index % down) * kRows;
  int64_t const batch = index / down;
  bool const present = channel + own < channels && batch < problem.batch;

  int const first = row * W::stride(1) - W::pad(1) - int(problem.low[1]), left = column * W::stride(2) - W::pad(2);
  Columns<kLine> const columns(left - int(problem.low[2]), int(problem.count[2]));
  int64_t const step = Work::kStep ? Work::kStep : problem.x_at[2];
  T const* const x = problem.x + batch * problem.x_batch + channel + own + (first + problem.low[1]) * problem.x_at[1] + left * step;
  auto load = [&](Words<T, V>(&line)[kLine], int i) {
    bool const seen = present && Reach::sees(i) && unsigned(first + i) < unsigned(problem.count[1]);
    load_line<W, Of>(line, seen, x + i * problem.x_at[1], step, columns);
  };
  // Lines are loaded so many before the one that sums get.
  static constexpr bool kUnrolled = W::kTaps <= Of::kUnrolled;
  static constexpr int kAhead = kUnrolled ? 2 : 1;
  Words<T, V> lines[kAhead][kLine];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(lines[i], i);
  copy_weights<W, Of>(problem, channel, weights);
  __syncthreads();

  float sums[kRows][kRun][V] = {};
#pragma unroll(kUnrolled ? kLines : 1)
  for (int i = 0; i < kLines; ++i) {
    Lanes<V> values[kLine];
#pragma unroll
    for (int j = 0; j < kLine; ++j) values[j] = numbers(lines[i % kAhead][j]);
    if (i + kAhead < kLines) load(lines[i % kAhead], i + kAhead);
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      int const r = Reach::row(i, t);
      if (r < 0) continue;
      float const* const taps = weights + r * W::size(2) * Of::kChannels + own;
#pragma unroll
      for (int s = 0; s < W::size(2); ++s) {
        auto const by = *reinterpret_cast<Pack<float, V> const*>(taps + s * Of::kChannels);
#pragma unroll
        for (int u = 0; u < kRun; ++u)
#pragma unroll
          for (int v = 0; v < V; ++v) sums[t][u][v] += values[u * W::stride(2) + s * W::dilation(2)].of[v] * by.of[v];
      }
    }
  }
  if (!present) return;
  auto place = [&](int t, int u) {
    int64_t const to[3] = {0, int64_t(row) + t, int64_t(column) + u};
    return place_of<Work>(batch, channel + own, to);
  };
  store_strips<kRows, kRun, V>(work, sums, int(problem.out[1]) - row, int(problem.out[2]) - column, place);
}

}  // namespace mucc::conv
