// Convolution with few channels in a group, such as one: each thread sums up a run of outputs along the second spatial
// axis, which share most of what they read of x. Neighbouring threads have neighbouring outputs in memory.
//
// The compiler writes `Op`, views of tensors with the constants of the convolution, and `Work` upon it:
// `store<V>(position, convolved)` computes and stores V neighbouring elements of the results.
#pragma once

#include <mucc/conv_strips.cuh>

namespace mucc::conv {

// V elements of a tensor, `step` apart. With kUnit they are adjacent, and whole vectors of memory.
template <int V, bool kUnit, class T>
MUCC_DEVICE Lanes<V> lanes(T const* at, int64_t step) {
  Lanes<V> result;
  if constexpr (kUnit && V > 1) {
    auto const pack = *reinterpret_cast<Pack<T, V> const*>(at);
#pragma unroll
    for (int v = 0; v < V; ++v) result.of[v] = widen(pack.of[v]);
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) result.of[v] = widen(at[v * step]);
  }
  return result;
}

// The same, or zeros where there is nothing to load.
template <int V, bool kUnit, class T>
MUCC_DEVICE Lanes<V> lanes_if(bool present, T const* at, int64_t step) {
  Pack<T, V> pack{};
  if (present) {
    if constexpr (kUnit && V > 1) {
      pack = *reinterpret_cast<Pack<T, V> const*>(at);
    } else {
#pragma unroll
      for (int v = 0; v < V; ++v) pack.of[v] = at[v * step];
    }
  }
  Lanes<V> result;
#pragma unroll
  for (int v = 0; v < V; ++v) result.of[v] = widen(pack.of[v]);
  return result;
}

template <int V>
MUCC_DEVICE void add_products(Lanes<V>& sums, Lanes<V> const& x, Lanes<V> const& w) {
#pragma unroll
  for (int v = 0; v < V; ++v) sums.of[v] += x.of[v] * w.of[v];
}

// Takes the remainder by an extent off an index.
MUCC_DEVICE int64_t take(int64_t& index, int64_t extent) {
  int64_t const whole = index >> 31 == 0 && extent >> 31 == 0 ? int64_t(unsigned(index) / unsigned(extent)) : index / extent;
  int64_t const rest = index - whole * extent;
  index = whole;
  return rest;
}

// The first output of a thread, and what it reads: x and weights of the first channel of its group.
template <class Work>
struct Start {
  using T = typename Work::Element;
  int64_t batch, output;
  int at[3];
  T const* x;
  T const* w;

  MUCC_DEVICE Start(Problem<T> const& problem, int64_t index, int v) {
    int64_t const outputs = problem.groups * problem.outputs;
    if (Work::kAlongChannels) output = take(index, outputs / v) * v;
    at[2] = int(take(index, problem.out[2]));
    at[1] = int(take(index, (problem.out[1] + Work::kRun - 1) / Work::kRun)) * Work::kRun;
    at[0] = int(take(index, problem.out[0]));
    if (!Work::kAlongChannels) output = take(index, outputs);
    batch = index;
    int64_t rest = output;
    int64_t const within = Work::kOutputs == 1 ? 0 : take(rest, problem.outputs);
    int64_t const group = rest;
    x = problem.x + batch * problem.x_batch + group * problem.channels * problem.x_channel;
    w = problem.w + group * problem.w_group + within * problem.w_output;
  }

  MUCC_DEVICE Position<Work::kRank, int64_t> position(int step) const {
    int64_t const place[3] = {at[0], at[1] + step, at[2]};
    return place_of<Work>(batch, output, place);
  }
};

// Whether an index along axis `a` of x has an element.
template <class T>
MUCC_DEVICE bool has(Problem<T> const& problem, int a, int index) {
  return unsigned(index - int(problem.low[a])) < unsigned(problem.count[a]);
}

// The rows of x that a run of outputs spans; of a single output, those alone that its window sees.
template <class Work>
struct RowsOfRun {
  using W = typename Work::Windows;
  static constexpr int kApart = Work::kRun == 1 ? W::dilation(1) : 1;
  static constexpr int kCount =
      Work::kRun == 1 ? W::size(1) : (Work::kRun - 1) * W::stride(1) + (W::size(1) - 1) * W::dilation(1) + 1;

  // Whether an output of the run sees its `i`-th row by a tap of the window.
  MUCC_BOTH static constexpr bool sees(int run, int tap, int i) {
    return run * W::stride(1) + tap * W::dilation(1) == i * kApart;
  }

  // Whether one of the outputs reads the `i`-th row.
  MUCC_BOTH static constexpr bool reads(int i) {
    for (int run = 0; run < Work::kRun; ++run)
      for (int tap = 0; tap < W::size(1); ++tap)
        if (sees(run, tap, i)) return true;
    return false;
  }
};

template <int V, class Work>
MUCC_DEVICE void convolve(Problem<typename Work::Element> const& problem, Start<Work> const& start,
                          Lanes<V> (&sums)[Work::kRun]) {
  using T = typename Work::Element;
  using W = typename Work::Windows;
  static constexpr bool kWhole = Work::kAlongChannels;
  using Rows = RowsOfRun<Work>;
  static constexpr int kUnrolled = W::size(2) <= 8 ? W::size(2) : 1;
  int const first = start.at[1] * W::stride(1) - W::pad(1);
  // What vectors span along channels, each of which is a group.
  int64_t const x_step = problem.x_channel, w_step = problem.w_group;
  for (int64_t c = 0; c < (Work::kChannels ? Work::kChannels : problem.channels); ++c) {
    for (int plane = 0; plane < W::size(0); ++plane) {
      int const in_plane = start.at[0] * W::stride(0) - W::pad(0) + plane * W::dilation(0);
      if (!has(problem, 0, in_plane)) continue;
      T const* const x = start.x + c * problem.x_channel + in_plane * problem.x_at[0];
      T const* const w = start.w + c * problem.w_channel + plane * problem.w_at[0];
#pragma unroll(kUnrolled)
      for (int s = 0; s < W::size(2); ++s) {
        int const column = start.at[2] * W::stride(2) - W::pad(2) + s * W::dilation(2);
        bool const inside = has(problem, 2, column);
        Lanes<V> weights[W::size(1)];
#pragma unroll
        for (int r = 0; r < W::size(1); ++r)
          weights[r] = lanes<V, kWhole>(w + r * problem.w_at[1] + s * problem.w_at[2], w_step);
        // All loads of a column before what is computed with them: branches would make each wait for the one before.
        T const* const in_column = x + column * problem.x_at[2];
        Lanes<V> values[Rows::kCount];
#pragma unroll
        for (int i = 0; i < Rows::kCount; ++i) {
          if (!Rows::reads(i)) continue;
          int const row = first + i * Rows::kApart;
          values[i] = lanes_if<V, kWhole>(inside && has(problem, 1, row), in_column + row * problem.x_at[1], x_step);
        }
#pragma unroll
        for (int i = 0; i < Rows::kCount; ++i) {
#pragma unroll
          for (int run = 0; run < Work::kRun; ++run)
#pragma unroll
            for (int r = 0; r < W::size(1); ++r)
              if (Rows::sees(run, r, i)) add_products(sums[run], values[i], weights[r]);
        }
      }
    }
  }
}

// The same of a transposed convolution, for one output.
template <int V, class Work>
MUCC_DEVICE void gather(Problem<typename Work::Element> const& problem, Start<Work> const& start, Lanes<V>& sum) {
  using T = typename Work::Element;
  using W = typename Work::Windows;
  static constexpr bool kWhole = Work::kAlongChannels;
  Axis axes[3];
  int in[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) {
    axes[a] = axis<W>(a, start.at[a] % W::stride(a), problem.out[a]);
    in[a] = start.at[a] / W::stride(a) + axes[a].first_in;
  }
  for (int64_t c = 0; c < (Work::kChannels ? Work::kChannels : problem.channels); ++c)
    for (int i = 0; i < axes[0].taps; ++i)
      for (int j = 0; j < axes[1].taps; ++j)
        for (int k = 0; k < axes[2].taps; ++k) {
          int const tap[3] = {i, j, k};
          T const* x = start.x + c * problem.x_channel;
          T const* w = start.w + c * problem.w_channel;
          bool inside = true;
#pragma unroll
          for (int a = 0; a < 3; ++a) {
            int const index = in[a] + tap[a] * axes[a].in_move;
            inside = inside && has(problem, a, index);
            x += index * problem.x_at[a];
            w += (axes[a].first_tap + tap[a] * axes[a].tap_step) * problem.w_at[a];
          }
          if (inside)
            add_products(sum, lanes<V, kWhole>(x, problem.x_channel), lanes<V, kWhole>(w, problem.w_group));
        }
}

static constexpr int kWide = 4;  // outputs of each row that a thread of `lines` has

// How a line of x that kWide outputs see is read: `kShift` elements before it, so that vectors of kWide begin at multiples.
template <class W>
struct LineShape {
  static constexpr int kShift = (kWide - W::pad(2) % kWide) % kWide;
  static constexpr int kReach = (kWide - 1) * W::stride(2) + (W::size(2) - 1) * W::dilation(2) + 1;
  static constexpr int kVectors = (kShift + kReach + kWide - 1) / kWide;
};

// The same as `direct` for x whose last axis is adjacent in memory, and read by vectors; a thread has kWide columns of each row.
template <int V, class Work>
MUCC_DEVICE void lines(Work const& work, Problem<typename Work::Element> const& problem) {
  using T = typename Work::Element;
  using W = typename Work::Windows;
  using Of = LineShape<W>;
  int64_t index = int64_t(blockIdx.x) * Work::kThreads + threadIdx.x;
  if (index >= problem.row_tiles) return;
  int const column = int(take(index, (problem.out[2] + kWide - 1) / kWide)) * kWide;
  int const row = int(take(index, (problem.out[1] + Work::kLineRun - 1) / Work::kLineRun)) * Work::kLineRun;
  int const plane = int(take(index, problem.out[0]));
  int64_t const output = take(index, problem.groups * problem.outputs), batch = index;
  int64_t group = output;
  int64_t const within = Work::kOutputs == 1 ? 0 : take(group, problem.outputs);
  T const* const x_group = problem.x + batch * problem.x_batch + group * problem.channels * problem.x_channel;
  T const* const w_group = problem.w + group * problem.w_group + within * problem.w_output;
  float sums[Work::kLineRun][kWide] = {};
  int const first_row = row * W::stride(1) - W::pad(1), first_column = column * W::stride(2) - W::pad(2) - Of::kShift;
  static constexpr int kRows = (Work::kLineRun - 1) * W::stride(1) + (W::size(1) - 1) * W::dilation(1) + 1;
  for (int64_t c = 0; c < (Work::kChannels ? Work::kChannels : problem.channels); ++c) {
    for (int p = 0; p < W::size(0); ++p) {
      int const in_plane = plane * W::stride(0) - W::pad(0) + p * W::dilation(0);
      if (!has(problem, 0, in_plane)) continue;
      T const* const x = x_group + c * problem.x_channel + in_plane * problem.x_at[0];
      T const* const w = w_group + c * problem.w_channel + p * problem.w_at[0];
      float weights[W::size(1)][W::size(2)];
#pragma unroll
      for (int r = 0; r < W::size(1); ++r)
#pragma unroll
        for (int s = 0; s < W::size(2); ++s) weights[r][s] = widen(w[r * problem.w_at[1] + s * problem.w_at[2]]);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float line[Of::kVectors * kWide];
        bool const inside = has(problem, 1, first_row + i);
        T const* const from = x + (first_row + i) * problem.x_at[1] + first_column;
#pragma unroll
        for (int v = 0; v < Of::kVectors; ++v) {
          auto const some = lanes_if<kWide, true>(inside && has(problem, 2, first_column + v * kWide), from + v * kWide, 1);
#pragma unroll
          for (int u = 0; u < kWide; ++u) line[v * kWide + u] = some.of[u];
        }
#pragma unroll
        for (int run = 0; run < Work::kLineRun; ++run)
#pragma unroll
          for (int r = 0; r < W::size(1); ++r) {
            if (run * W::stride(1) + r * W::dilation(1) != i) continue;
#pragma unroll
            for (int s = 0; s < W::size(2); ++s)
#pragma unroll
              for (int u = 0; u < kWide; ++u)
                sums[run][u] += line[Of::kShift + u * W::stride(2) + s * W::dilation(2)] * weights[r][s];
          }
      }
    }
  }
#pragma unroll
  for (int run = 0; run < Work::kLineRun; ++run) {
    if (row + run >= problem.out[1]) break;
#pragma unroll
    for (int u = 0; u < kWide; u += V) {
      if (column + u >= problem.out[2]) break;
      Lanes<V> value;
#pragma unroll
      for (int v = 0; v < V; ++v) value.of[v] = sums[run][u + v];
      int64_t const to[3] = {plane, row + run, column + u};
      work.store(place_of<Work>(batch, output, to), value);
    }
  }
}

template <int V, class Work>
MUCC_DEVICE void direct(Work const& work, Problem<typename Work::Element> const& problem) {
  int64_t const index = int64_t(blockIdx.x) * Work::kThreads + threadIdx.x;
  if (index >= problem.row_tiles) return;
  Start<Work> const start(problem, index, V);
  Lanes<V> sums[Work::kRun];
#pragma unroll
  for (int run = 0; run < Work::kRun; ++run) sums[run] = Lanes<V>(0.0f);
  if constexpr (Work::Windows::kTransposed) {
    gather(problem, start, sums[0]);
  } else {
    convolve(problem, start, sums);
  }
#pragma unroll
  for (int run = 0; run < Work::kRun; ++run)
    if (start.at[1] + run < problem.out[1]) work.store(start.position(run), sums[run]);
}

}  // namespace mucc::conv
