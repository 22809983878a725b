// Where the outputs of a convolution lie in the space of its results.
#pragma once

#include <mucc/conv.h>
#include <mucc/view.cuh>

namespace mucc::conv {

// The position of an output: channels are axis Work::kChannelAxis of the space, the spatial axes keep their order.
template <class Work>
MUCC_DEVICE Position<Work::kRank, int64_t> place_of(int64_t batch, int64_t output, int64_t const (&at)[3]) {
  static constexpr int kFirst = Work::kChannelAxis == 1 ? 2 : 1;
  Position<Work::kRank, int64_t> p;
  p.at[0] = batch;
  p.at[Work::kChannelAxis] = output;
#pragma unroll
  for (int a = 0; a < Work::kRank - 2; ++a) p.at[kFirst + a] = at[a + 5 - Work::kRank];
  return p;
}

// Writes V neighbours whose moments are found over their sums in shared memory.
template <int V>
MUCC_DEVICE void keep(float* to, Lanes<V> const& value) {
  static constexpr int kLane = V < 4 ? V : 4;
#pragma unroll
  for (int v = 0; v < V; v += kLane) {
    Pack<float, kLane> some;
#pragma unroll
    for (int u = 0; u < kLane; ++u) some.of[u] = value.of[v + u];
    *reinterpret_cast<Pack<float, kLane>*>(to + v) = some;
  }
}

// Stores results of V neighbours; where moments are found, writes what they are of over the sums at `sums`.
template <int V, class Work>
MUCC_DEVICE void write_kept(Work const& work, Position<Work::kRank, int64_t> const& p,
                            typename Work::template Results<V> const& results, float* sums) {
  if constexpr (Work::kMoments != Moments::kNone) keep<V>(sums, results.measured);
  work.template write<V>(p, results);
}

// Computes and stores results of every kStep-th of kLines lines, from `line` on, of which there are `count`. Those of several
// lines are computed before they are stored, so that what they load is under way at the same time: a load is not moved before a
// store that might write what it reads. With `kSameChannels` all lines have the same channels, whose values are computed
// once. `place(line)`, `value<V>(line)` and `sums(line)` are where results lie, their sums, and where these are.
template <int V, int kLines, int kStep, bool kSameChannels, class Work, class Place, class Value, class Sums>
MUCC_DEVICE void store_lines(Work const& work, int line, int64_t count, Place const& place, Value const& value,
                             Sums const& sums) {
  static constexpr int kCount = kLines / kStep, kHeld = kCount % 4 == 0 ? 4 : kCount % 2 == 0 ? 2 : 1;
  if (line >= kLines || line >= count) return;
  typename Work::template PerChannel<V> same;
  if constexpr (kSameChannels) same = work.template per_channel<V>(place(line));
  auto results = [&](int i) {
    auto const p = place(i);
    if constexpr (kSameChannels) return work.template results<V>(p, same, value(i));
    else return work.template results<V>(p, value(i));
  };
  if (kLines % kStep == 0 && count >= kLines) {
#pragma unroll 1
    for (int i = 0; i < kCount; i += kHeld) {
      typename Work::template Results<V> held[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k) held[k] = results(line + k * kStep);
#pragma unroll
      for (int k = 0; k < kHeld; ++k)
        write_kept<V>(work, place(line + k * kStep), held[k], sums(line + k * kStep));
      line += kHeld * kStep;
    }
  } else {
#pragma unroll 1
    for (; line < kLines && line < count; line += kStep) write_kept<V>(work, place(line), results(line), sums(line));
  }
}

// `V` sums that are neighbours in shared memory.
template <int V>
MUCC_DEVICE Lanes<V> sums_at(float const* from) {
  static constexpr int kLane = V < 4 ? V : 4;
  Lanes<V> value;
#pragma unroll
  for (int v = 0; v < V; v += kLane) {
    auto const some = *reinterpret_cast<Pack<float, kLane> const*>(from + v);
#pragma unroll
    for (int u = 0; u < kLane; ++u) value.of[v + u] = some.of[u];
  }
  return value;
}

// What a block knows of windows of which it has computed some classes of outputs only: `so_far` has their pooled values.
struct Partly {
  float* so_far;
  bool is_first, is_last;
};

// Pools the windows of a tile, of `kPlaces` positions by `kColumns` channels, whose sums of a channel are neighbours in shared
// memory, and computes their results. `find(window, p)` says whether there is such a window, and where its first position is in
// the first channel; `first(window)` is the place of its first sum, and `step(t)` how much further the t-th one is.
template <int kPlaces, int kColumns, int kThreads, class Work, class Find, class First, class Step>
MUCC_DEVICE void pool_places(Work const& work, int64_t outputs, float const* sums, int pitch, Partly const& partly,
                             Find const& find, First const& first, Step const& step) {
  using Pool = typename Work::Pool;
  using Class = ClassWindow<typename Work::Windows, Pool>;
  using Own = typename Class::Part;
  using Kind = typename Work::PoolKind;
  static constexpr int kWindows = kPlaces / Own::kVolume, kTogether = kWindows < kThreads ? kWindows : kThreads;
  static_assert(kPlaces % Own::kVolume == 0 && kWindows % kTogether == 0 && kThreads % kTogether == 0, "whole windows");
  for (int window = int(threadIdx.x) % kTogether; window < kWindows; window += kTogether) {
    Position<Work::kRank, int64_t> p;
    if (!find(window, p)) continue;
    float const* const from = sums + first(window);
    int64_t const channel = p.at[1];
    for (int line = int(threadIdx.x) / kTogether; line < kColumns && line < outputs; line += kThreads / kTogether) {
      float held[Own::kVolume];
#pragma unroll
      for (int t = 0; t < Own::kVolume; t += Own::kW) {
        auto const row = *reinterpret_cast<Pack<float, Own::kW> const*>(from + line * pitch + step(t));
#pragma unroll
        for (int w = 0; w < Own::kW; ++w) held[t + w] = row.of[w];
      }
      p.at[1] = channel + line;
      float* const so_far = partly.so_far + line * kWindows + window;
      float pooled = Class::kClasses > 1 && !partly.is_first ? *so_far : Kind::identity;
#pragma unroll
      for (int t = 0; t < Own::kVolume; ++t) {
        auto q = p;
#pragma unroll
        for (int a = 0; a < Work::kRank - 2; ++a) {
          int const axis = a + 5 - Work::kRank;
          q.at[a + 2] += Own::at(axis, t) * Class::step(axis);
        }
        pooled = Kind::combine(pooled, work.before(q, held[t]));
      }
      if (Class::kClasses > 1 && !partly.is_last) {
        *so_far = pooled;
        continue;
      }
      auto to = p;
#pragma unroll
      for (int a = 0; a < Work::kRank - 2; ++a) to.at[a + 2] /= Pool::size(a + 5 - Work::kRank);
      work.after(to, pooled);
    }
  }
}

// The lanes of a warp that reduce the channels of a position together: every kSize-th channel each, from `own` on. Neighbouring
// lanes have neighbouring positions.
template <int kSize_>
struct Team {
  static constexpr int kSize = kSize_, kPlaces = 32 / kSize;  // positions of a warp
  int own = int(threadIdx.x) % 32 / kPlaces;
  template <class Kind>
  MUCC_DEVICE float combine(float x) const {
#pragma unroll
    for (int lanes = kPlaces; lanes < 32; lanes *= 2) x = Kind::combine(x, __shfl_xor_sync(~0u, x, lanes));
    return x;
  }
};

// The sums of the channels of a position, `pitch` apart in shared memory.
struct ChannelSums {
  float const* first;
  int pitch;
  MUCC_DEVICE float operator[](int channel) const { return first[channel * pitch]; }
};

// Computes all results of `kPlaces` positions, whose sums of a channel are neighbours in shared memory. `find(place, p)` says
// whether there is such a position, and where.
template <int kPlaces, int kThreads, class Work, class Find>
MUCC_DEVICE void reduce_places(Work const& work, int64_t outputs, float const* sums, int pitch, Find const& find) {
  static constexpr int kShare = kThreads / kPlaces, kSize = kShare >= 4 ? 4 : kShare >= 2 ? 2 : 1;
  using Lanes = Team<kSize>;
  static_assert(kPlaces % Lanes::kPlaces == 0, "whole warps");
  Lanes const team;
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  for (int place = warp * Lanes::kPlaces + lane % Lanes::kPlaces; place / Lanes::kPlaces * Lanes::kPlaces < kPlaces;
       place += kThreads / 32 * Lanes::kPlaces) {
    Position<Work::kRank, int64_t> p;
    bool const present = find(place, p);
    work.reduce(p, present ? int(outputs) : 0, ChannelSums{sums + place, pitch}, team);
  }
}

}  // namespace mucc::conv
