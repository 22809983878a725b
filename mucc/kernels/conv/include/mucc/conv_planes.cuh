// Convolution as a product of matrices by Hopper's warpgroups, of a tensor whose channels are not its last axis.
//
// TMA brings the planes of 32 channels that a tile of outputs sees to shared memory, once for all taps, with zeros
// where x has no elements. Threads load the left factor from there, at the place of their position plus that of the tap, as
// the fragments of `wgmma`; the right factor is a tile of weights of one tap, as in conv_wgmma.cuh. So x is neither laid out
// anew in memory nor read once for each tap.
//
// Classes of outputs of a transposed convolution that differ along the last axis have sums at the same time, as in
// conv_patches.cuh; those along other axes are blocks of their own.
//
// Of `Work` it wants, besides what conv.cuh says, `Planes`, and `multiply`: a wgmma instruction whose left factor is in
// registers.
#pragma once

#include <mucc/conv_finish.cuh>
#include <mucc/warpgroup.cuh>

namespace mucc::conv {

// What the threads of a block add up at a step along K: the place of a tap in planes of x, and its indices in the window.
struct PlaneTap {
  int x, w;
};

// Stages, barriers and taps in shared memory, by address.
template <class Work>
struct PlaneMemory {
  using At = PlaneShape<typename Work::Windows, typename Work::Planes>;
  using Of = typename Work::Planes;
  uint32_t base;
  char* memory;  // at base

  MUCC_DEVICE PlaneMemory() {
    uint32_t const first = shared_address(dynamic_shared());
    base = (first + At::kAlignment - 1) / At::kAlignment * At::kAlignment;
    memory = dynamic_shared() + (base - first);
  }
  MUCC_DEVICE uint32_t w(int s) const { return base + s * At::kW; }
  MUCC_DEVICE uint32_t x(int s) const { return base + Of::kStagesW * At::kW + s * At::kX; }
  MUCC_DEVICE float const* planes(int s) const {
    return reinterpret_cast<float const*>(memory + Of::kStagesW * At::kW + s * At::kX);
  }
  MUCC_DEVICE float* tile() const { return reinterpret_cast<float*>(memory); }
  MUCC_DEVICE uint32_t w_full(int s) const { return base + At::kTiles + 8 * s; }
  MUCC_DEVICE uint32_t w_empty(int s) const { return w_full(Of::kStagesW + s); }
  MUCC_DEVICE uint32_t x_full(int s) const { return w_full(2 * Of::kStagesW + s); }
  MUCC_DEVICE uint32_t x_empty(int s) const { return w_full(2 * Of::kStagesW + Of::kStagesX + s); }
  MUCC_DEVICE PlaneTap* taps() const { return reinterpret_cast<PlaneTap*>(memory + At::kTiles + At::kBarriers); }
};

// The tile of a block: the first position of its outputs within their class, its columns, and the class along the first axes.
struct PlanePart {
  int64_t batch, group, column;
  int at[3], residue[2];
};

template <class Work>
MUCC_DEVICE PlanePart plane_part(Problem<typename Work::Element> const& problem) {
  using W = typename Work::Windows;
  using Of = typename Work::Planes;
  unsigned index = blockIdx.x;
  auto next = [&](int64_t count) {
    unsigned const whole = index / unsigned(count), rest = index - whole * unsigned(count);
    index = whole;
    return rest;
  };
  PlanePart part;
  part.column = int64_t(next(problem.column_tiles)) * Of::kN;
#pragma unroll
  for (int a = 1; a >= 0; --a) part.residue[a] = W::kTransposed ? int(next(W::stride(a))) : 0;
#pragma unroll
  for (int a = 2; a >= 0; --a) {
    int64_t const outs = W::kTransposed ? (problem.out[a] + W::stride(a) - 1) / W::stride(a) : problem.out[a];
    part.at[a] = int(next((outs + Of::tile(a) - 1) / Of::tile(a))) * Of::tile(a);
  }
  part.batch = next(problem.batch);
  part.group = index;
  return part;
}

// The axes of the classes of a block; the last one is that of its `r`-th class.
template <class Work>
MUCC_DEVICE void plane_axes(PlanePart const& at, int r, Axis (&axes)[3]) {
  using W = typename Work::Windows;
  axes[0] = axis<W>(0, at.residue[0], 0);
  axes[1] = axis<W>(1, at.residue[1], 0);
  axes[2] = axis<W>(2, r, 0);
}

// The taps of each class of a block along the last axis.
template <class Work>
struct PlaneCounts {
  using At = PlaneShape<typename Work::Windows, typename Work::Planes>;
  int of[At::kLast];
  int total = 0;
};

// Fills in the taps of all classes of a block, one class behind the other.
template <class Work>
MUCC_DEVICE PlaneCounts<Work> find_plane_taps(PlanePart const& at, PlaneTap* to) {
  using At = PlaneShape<typename Work::Windows, typename Work::Planes>;
  PlaneCounts<Work> counts;
#pragma unroll
  for (int r = 0; r < At::kLast; ++r) {
    Axis axes[3];
    plane_axes<Work>(at, r, axes);
    int const count = axes[0].taps * axes[1].taps * axes[2].taps;
    for (int k = int(threadIdx.x); k < count; k += Work::Planes::kThreads) {
      PlaneTap tap{0, 0};
      int rest = k;
#pragma unroll
      for (int a = 2; a >= 0; --a) {
        int const i = rest % axes[a].taps;
        rest /= axes[a].taps;
        tap.x += (axes[a].first_in + i * axes[a].in_move - At::lowest(a)) * At::pitch(a);
        tap.w |= (axes[a].first_tap + i * axes[a].tap_step) << (2 - a) * kTapBits;
      }
      to[counts.total + k] = tap;
    }
    counts.of[r] = count;
    counts.total += count;
  }
  return counts;
}

// Has TMA fill stages of x and of weights in the order in which they are multiplied, as one thread that multiplies,
// too: what is read in a step is filled again in the next one.
template <class Work>
struct PlaneFeed {
  using W = typename Work::Windows;
  using Of = typename Work::Planes;
  using At = PlaneShape<W, Of>;
  static constexpr int kAxes = Work::kRank - 2, kChunks = (Work::kChannels + kPlanes - 1) / kPlanes;
  Problem<typename Work::Element> const& problem;
  PlaneMaps const& maps;
  PlanePart const& at;
  PlaneMemory<Work> const& to;
  int taps, tap = 0, chunk = 0, x_chunk = 0;  // `chunk` and `tap` are of the weights to come
  bool begun = false, planes_read = false;
  Ring<Of::kStagesX> x_ring;
  Ring<Of::kStagesW> w_ring;

  MUCC_DEVICE void copy_x() {
    int const s = x_ring.place, channel = int(at.group) * Work::kChannels + x_chunk * kPlanes, batch = int(at.batch);
    int first[3];
#pragma unroll
    for (int a = 0; a < 3; ++a) first[a] = at.at[a] * At::step(a) + At::lowest(a) - int(problem.low[a]);
    arrive_and_expect(to.x_full(s), At::kPlanesBytes);
    if constexpr (kAxes == 1) {
      copy_tile<3>(to.x(s), maps.x, to.x_full(s), first[2], channel, {batch, 0, 0});
    } else if constexpr (kAxes == 2) {
      copy_tile<4>(to.x(s), maps.x, to.x_full(s), first[2], first[1], {channel, batch, 0});
    } else {
      copy_tile<5>(to.x(s), maps.x, to.x_full(s), first[2], first[1], {first[0], channel, batch});
    }
    ++x_chunk;
    x_ring.advance();
  }
  MUCC_DEVICE void copy_w() {
    int const s = w_ring.place, packed = to.taps()[tap].w;
    int const channel = (W::kTransposed ? int(at.group) * Work::kChannels : 0) + chunk * kPlanes;
    int const column = (W::kTransposed ? 0 : int(at.group) * int(problem.outputs)) + int(at.column);
    int weight[3] = {};
#pragma unroll
    for (int i = 0; i < kAxes; ++i) weight[i] = packed >> i * kTapBits & (1 << kTapBits) - 1;
    arrive_and_expect(to.w_full(s), At::kW);
    copy_tile<Work::kRank>(to.w(s), maps.w, to.w_full(s), channel, column, weight);
    if (++tap == taps) tap = 0, ++chunk;
    w_ring.advance();
  }
  // Fills all stages of x, and those of weights.
  MUCC_DEVICE void begin_x() {
    for (int s = 0; s < Of::kStagesX && s < kChunks; ++s) copy_x();
  }
  MUCC_DEVICE void begin_w() {
    for (int s = 0; s < Of::kStagesW && chunk < kChunks; ++s) copy_w();
  }
  // Fills what was read at the last step.
  MUCC_DEVICE void go_on() {
    if (planes_read && x_chunk < kChunks) {
      await(to.x_empty(x_ring.place), x_ring.parity ^ 1);
      copy_x();
    }
    if (begun && chunk < kChunks) {
      await(to.w_empty(w_ring.place), w_ring.parity ^ 1);
      copy_w();
    }
    planes_read = false;
    begun = true;
  }
};

template <class Work>
struct PlaneSums {
  using W = typename Work::Windows;
  using Of = typename Work::Planes;
  using At = PlaneShape<W, Of>;
  float of[At::kLast][Of::kBlocks][Of::kN / 2];

  MUCC_DEVICE static int lane() { return int(threadIdx.x) % 32; }
  // The row of the thread in block m of its warpgroup; it has the one 8 rows below, too.
  MUCC_DEVICE static int row(int m) {
    int const warp = int(threadIdx.x) / 32;
    return (warp / 4 * Of::kBlocks + m) * 64 + warp % 4 * 16 + lane() / 4;
  }
  MUCC_DEVICE void clear() {
#pragma unroll
    for (int r = 0; r < At::kLast; ++r)
#pragma unroll
      for (int m = 0; m < Of::kBlocks; ++m)
#pragma unroll
        for (int i = 0; i < Of::kN / 2; ++i) of[r][m][i] = 0.0f;
  }
  MUCC_DEVICE void hold_all() {
#pragma unroll
    for (int r = 0; r < At::kLast; ++r)
#pragma unroll
      for (int m = 0; m < Of::kBlocks; ++m) hold(of[r][m]);
  }

  // Where a thread reads the first element of its rows.
  MUCC_DEVICE static void find(int (&base)[Of::kBlocks][2]) {
#pragma unroll
    for (int m = 0; m < Of::kBlocks; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        int const at = row(m) + i * 8, w = at % Of::kW, h = at / Of::kW % Of::kH, d = at / Of::kW / Of::kH;
        base[m][i] = d * At::step(0) * At::pitch(0) + h * At::step(1) * At::pitch(1) + w * At::step(2) +
                     lane() % 4 * At::kPitch;
      }
  }

  // Loads the left factor of a step: kSteps times eight channels.
  template <int kSteps>
  MUCC_DEVICE static void load(uint32_t (&x)[Of::kBlocks][kSteps][4], float const* planes,
                               int const (&base)[Of::kBlocks][2]) {
#pragma unroll
    for (int m = 0; m < Of::kBlocks; ++m)
#pragma unroll
      for (int i = 0; i < kSteps; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          x[m][i][j] = __float_as_uint(planes[base[m][j % 2] + (i * 8 + j / 2 * 4) * At::kPitch]);
  }
  // Begins to multiply the weights of a stage.
  template <int kSteps>
  MUCC_DEVICE static void multiply(float (&sums)[Of::kBlocks][Of::kN / 2], uint32_t const (&x)[Of::kBlocks][kSteps][4],
                                   Ring<Of::kStagesW> const& ring, PlaneMemory<Work> const& from) {
    await(from.w_full(ring.place), ring.parity);
    uint64_t const w = described(from.w(ring.place), 16);
    begin_products();
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
#pragma unroll
      for (int m = 0; m < Of::kBlocks; ++m) Work::multiply(sums[m], x[m][i], w + i * 32 / 16, 1);
    end_products();
  }
  MUCC_DEVICE static void release(Ring<Of::kStagesW>& ring, PlaneMemory<Work> const& from) {
    wait_products<0>();
    if (lane() == 0) arrive(from.w_empty(ring.place));
    ring.advance();
  }

  // Adds the products of kSteps times eight channels, of `count` taps. The left factor of the next tap is loaded while those of
  // one are multiplied.
  template <int kSteps>
  MUCC_DEVICE void add(float (&sums)[Of::kBlocks][Of::kN / 2], float const* planes, int const (&base)[Of::kBlocks][2],
                       PlaneTap const* taps, int count, Ring<Of::kStagesW>& ring, PlaneMemory<Work> const& from,
                       PlaneFeed<Work>& feed) {
    uint32_t x[2][Of::kBlocks][kSteps][4];
    auto go_on = [&] {
      if (threadIdx.x == 0) feed.go_on();
      __syncwarp();
    };
    if (count == 0) return;
    load<kSteps>(x[0], planes + taps[0].x, base);
    for (int t = 0; t < count; t += 2) {
      multiply<kSteps>(sums, x[0], ring, from);
      if (t + 1 < count) load<kSteps>(x[1], planes + taps[t + 1].x, base);
      go_on();
      release(ring, from);
      if (t + 1 < count) {
        multiply<kSteps>(sums, x[1], ring, from);
        if (t + 2 < count) load<kSteps>(x[0], planes + taps[t + 2].x, base);
        go_on();
        release(ring, from);
      }
    }
  }

  // Adds the products of a stage of x.
  template <int kSteps>
  MUCC_DEVICE void add_planes(PlaneCounts<Work> const& counts, int const (&base)[Of::kBlocks][2], Ring<Of::kStagesX>& x_ring,
                              Ring<Of::kStagesW>& w_ring, PlaneMemory<Work> const& from, PlaneFeed<Work>& feed) {
    int const s = x_ring.place;
    await(from.x_full(s), x_ring.parity);
    PlaneTap const* taps = from.taps();
#pragma unroll
    for (int r = 0; r < At::kLast; ++r) {
      add<kSteps>(of[r], from.planes(s), base, taps, counts.of[r], w_ring, from, feed);
      taps += counts.of[r];
    }
    if (lane() == 0) arrive(from.x_empty(s));
    feed.planes_read = true;
    x_ring.advance();
  }

  // Writes the sums to the tile in shared memory, channels or positions next to each other.
  MUCC_DEVICE void spread(float* to) const {
#pragma unroll
    for (int r = 0; r < At::kLast; ++r)
#pragma unroll
      for (int m = 0; m < Of::kBlocks; ++m)
#pragma unroll
        for (int i = 0; i < Of::kN / 2; i += 2) {
          int const place = (row(m) + i / 2 % 2 * 8) * At::kLast + r, c = i / 4 * 8 + lane() % 4 * 2;
          float const one = of[r][m][i], two = of[r][m][i + 1];
          if constexpr (Of::kAlongChannels) {
            *reinterpret_cast<Pack<float, 2>*>(to + place * At::kOutPitch + c) = {one, two};
          } else {
            to[c * At::kOutPitch + place] = one;
            to[(c + 1) * At::kOutPitch + place] = two;
          }
        }
  }
};

template <int V, class Work>
MUCC_DEVICE void planes(Work const& work, Problem<typename Work::Element> const& problem, PlaneMaps const& maps) {
  using W = typename Work::Windows;
  using Of = typename Work::Planes;
  using At = PlaneShape<W, Of>;
  static constexpr int kWarps = Of::kThreads / 32;
  static constexpr int kTail = (Work::kChannels % kPlanes + 7) / 8;  // steps of the last planes
  static_assert(Work::kChannels > 0, "channels of a group that are compiled in");
  PlaneMemory<Work> const memory;
  PlanePart const at = plane_part<Work>(problem);
  if (threadIdx.x == 0) {
    for (int s = 0; s < Of::kStagesW; ++s) {
      start_barrier(memory.w_full(s), 1);
      start_barrier(memory.w_empty(s), kWarps);
    }
    for (int s = 0; s < Of::kStagesX; ++s) {
      start_barrier(memory.x_full(s), 1);
      start_barrier(memory.x_empty(s), kWarps);
    }
    publish_barriers();
  }
  PlaneCounts<Work> const counts = find_plane_taps<Work>(at, memory.taps());
  PlaneFeed<Work> feed{problem, maps, at, memory, counts.total};
  if (threadIdx.x == 0 && counts.total > 0) {
    prefetch(maps.w);
    feed.begin_x();
  }
  __syncthreads();
  if (threadIdx.x == 0 && counts.total > 0) feed.begin_w();
  __syncwarp();
  PlaneSums<Work> sums;
  sums.clear();
  sums.hold_all();
  int base[Of::kBlocks][2];
  sums.find(base);
  Ring<Of::kStagesX> x_ring;
  Ring<Of::kStagesW> w_ring;
  if (counts.total > 0) {
    for (int i = 0; i < Work::kChannels / kPlanes; ++i)
      sums.template add_planes<kPlanes / 8>(counts, base, x_ring, w_ring, memory, feed);
    if constexpr (kTail > 0) sums.template add_planes<kTail>(counts, base, x_ring, w_ring, memory, feed);
  }
  sums.hold_all();
  sync_groups(1);  // all products have read their stages
  sums.spread(memory.tile());
  sync_groups(1);
  finish_patch<V, Of, At>(work, problem, at, at.residue, memory.tile());
}

}  // namespace mucc::conv
