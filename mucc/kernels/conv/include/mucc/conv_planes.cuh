// Convolution as a product of matrices by Hopper's warpgroups, of a tensor whose channels are not its last axis.
//
// The copy engine brings the planes of 32 channels that a tile of outputs sees to shared memory, once for all taps, with zeros
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

// Stages and barriers in shared memory, by address.
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

// Copies planes of x and tiles of weights, as one thread, in the order in which they are multiplied.
template <class Work>
MUCC_DEVICE void copy_planes(Problem<typename Work::Element> const& problem, PlaneMaps const& maps, PlanePart const& at,
                             PlaneMemory<Work> const& to) {
  using W = typename Work::Windows;
  using Of = typename Work::Planes;
  using At = PlaneShape<W, Of>;
  static constexpr int kAxes = Work::kRank - 2;
  prefetch(maps.x);
  prefetch(maps.w);
  static constexpr int kChannels = Work::kChannels;
  int const x_channel = int(at.group) * kChannels, w_channel = W::kTransposed ? x_channel : 0;
  int const column = (W::kTransposed ? 0 : int(at.group) * int(problem.outputs)) + int(at.column);
  int first[3];
#pragma unroll
  for (int a = 0; a < 3; ++a) first[a] = at.at[a] * At::step(a) + At::lowest(a) - int(problem.low[a]);
  Ring<Of::kStagesX> x_ring;
  Ring<Of::kStagesW> w_ring;
  for (int channel = 0; channel < kChannels; channel += kPlanes, x_ring.advance()) {
    int const s = x_ring.place;
    await(to.x_empty(s), x_ring.parity ^ 1);
    arrive_and_expect(to.x_full(s), At::kPlanesBytes);
    int const plane = x_channel + channel, batch = int(at.batch);
    if constexpr (kAxes == 1) {
      copy_tile<3>(to.x(s), maps.x, to.x_full(s), first[2], plane, {batch, 0, 0});
    } else if constexpr (kAxes == 2) {
      copy_tile<4>(to.x(s), maps.x, to.x_full(s), first[2], first[1], {plane, batch, 0});
    } else {
      copy_tile<5>(to.x(s), maps.x, to.x_full(s), first[2], first[1], {first[0], plane, batch});
    }
#pragma unroll
    for (int r = 0; r < At::kLast; ++r) {
      Axis axes[3];
      plane_axes<Work>(at, r, axes);
      int tap[3];
      for (tap[0] = 0; tap[0] < axes[0].taps; ++tap[0])
        for (tap[1] = 0; tap[1] < axes[1].taps; ++tap[1])
          for (tap[2] = 0; tap[2] < axes[2].taps; ++tap[2], w_ring.advance()) {
            int weight[3] = {};
#pragma unroll
            for (int i = 0; i < kAxes; ++i) {
              Axis const& axis = axes[2 - i];
              weight[i] = axis.first_tap + tap[2 - i] * axis.tap_step;
            }
            int const place = w_ring.place;
            await(to.w_empty(place), w_ring.parity ^ 1);
            arrive_and_expect(to.w_full(place), At::kW);
            copy_tile<Work::kRank>(to.w(place), maps.w, to.w_full(place), w_channel + channel, column, weight);
          }
    }
  }
}

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

  // Adds the products of kSteps times eight channels, of all taps of a class.
  template <int kSteps>
  MUCC_DEVICE void add(float (&sums)[Of::kBlocks][Of::kN / 2], float const* planes, int const (&base)[Of::kBlocks][2],
                       Axis const (&axes)[3], Ring<Of::kStagesW>& ring, PlaneMemory<Work> const& from) {
    int tap[3];
    for (tap[0] = 0; tap[0] < axes[0].taps; ++tap[0])
      for (tap[1] = 0; tap[1] < axes[1].taps; ++tap[1])
        for (tap[2] = 0; tap[2] < axes[2].taps; ++tap[2]) {
          int offset = 0;
#pragma unroll
          for (int a = 0; a < 3; ++a)
            offset += (axes[a].first_in + tap[a] * axes[a].in_move - At::lowest(a)) * At::pitch(a);
          uint32_t x[Of::kBlocks][kSteps][4];
#pragma unroll
          for (int m = 0; m < Of::kBlocks; ++m)
#pragma unroll
            for (int i = 0; i < kSteps; ++i)
#pragma unroll
              for (int j = 0; j < 4; ++j)
                x[m][i][j] = __float_as_uint(planes[base[m][j % 2] + offset + (i * 8 + j / 2 * 4) * At::kPitch]);
          int const s = ring.place;
          await(from.w_full(s), ring.parity);
          uint64_t const w = described(from.w(s), 16);
          begin_products();
#pragma unroll
          for (int i = 0; i < kSteps; ++i)
#pragma unroll
            for (int m = 0; m < Of::kBlocks; ++m) Work::multiply(sums[m], x[m][i], w + i * 32 / 16, 1);
          end_products();
          wait_products<0>();
          if (lane() == 0) arrive(from.w_empty(s));
          ring.advance();
        }
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
  __syncthreads();
  if (threadIdx.x >= Of::kThreads) {
    if (threadIdx.x == Of::kThreads) copy_planes<Work>(problem, maps, at, memory);
    __syncwarp();
    return;
  }
  PlaneSums<Work> sums;
  sums.clear();
  sums.hold_all();
  int base[Of::kBlocks][2];
  sums.find(base);
  Ring<Of::kStagesX> x_ring;
  Ring<Of::kStagesW> w_ring;
  auto add = [&](auto steps) {
    int const s = x_ring.place;
    await(memory.x_full(s), x_ring.parity);
#pragma unroll
    for (int r = 0; r < At::kLast; ++r) {
      Axis axes[3];
      plane_axes<Work>(at, r, axes);
      sums.template add<decltype(steps)::kCount>(sums.of[r], memory.planes(s), base, axes, w_ring, memory);
    }
    if (sums.lane() == 0) arrive(memory.x_empty(s));
    x_ring.advance();
  };
  for (int i = 0; i < Work::kChannels / kPlanes; ++i) add(PlaneSteps<kPlanes / 8>{});
  if constexpr (kTail > 0) add(PlaneSteps<kTail>{});
  sums.hold_all();
  sync_groups(1);  // all products have read their stages
  sums.spread(memory.tile());
  sync_groups(1);
  finish_patch<V, Of, At>(work, problem, at, at.residue, memory.tile());
}

}  // namespace mucc::conv
