// Normalize kernels: reductions over the same axes, one after the other, with pointwise work before, between and behind
// them, in one pass over memory.
//
// The space has its kept axes first, then the reduced ones; a row is the elements of one place in the kept axes. The
// compiler writes `Op`, views of tensors, and `Work` upon it. Reductions that need no result of each other are one
// phase. `begin` loads what is the same for a row, `load` what several phases need of V neighbouring elements,
// `values(Phase<k>, ...)` computes what phase k reduces and `end` takes its results; `results` computes what is stored
// of the space's shape and `store` writes it; `finish` writes results of the rows' shape. The order in which elements
// are combined follows from the shape alone, so that results do not change from run to run.
#pragma once

#include <mucc/row_teams.cuh>
#include <mucc/row_thread.cuh>

namespace mucc {

// ---- kernels -----------------------------------------------------------------------------------------------------

// Reduced axes are innermost. A group of up to 32 lanes of a warp shares a row.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_warp(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  constexpr int64_t kKnown = known_steps<Work>(V);
  constexpr int kLanes = kKnown ? warp_lanes(kKnown, kItems) : 0;
  constexpr bool kWhole = kKnown && kLanes * kItems == kKnown;
  int const lanes = kLanes ? kLanes : shape.lanes;
  uint32_t const lane = threadIdx.x & (lanes - 1);
  uint32_t const row = blockIdx.x * (shape.threads / lanes) + threadIdx.x / lanes;
  bool const exists = kLanes == 32 || row < shape.rows;
  if (kLanes == 32 && row >= shape.rows) return;
  RowThread<V, kItems, false, Work, kWhole> thread{work, extents};
  thread.first = lane, thread.stride = lanes, thread.exists = exists;
  thread.place.start(exists ? row : 0, extents);
  thread.last = thread.place.last(kKnown ? uint32_t(kKnown) - 1 : shape.length - 1, extents);
  WarpRows sharing{lanes};
  thread.run(lane == 0, sharing);
}

// The same where the threads of a block share a row.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_block(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  constexpr int64_t kKnown = known_steps<Work>(V);
  constexpr int kThreads = kKnown ? int(block_threads(kKnown, kItems)) : 0;
  constexpr bool kWhole = kKnown && int64_t(kThreads) * kItems == kKnown;
  __shared__ float shared[2][Work::kWidest][32];
  int const threads = kThreads ? kThreads : shape.threads;
  RowThread<V, kItems, false, Work, kWhole> thread{work, extents};
  thread.first = threadIdx.x, thread.stride = threads, thread.exists = true;
  thread.place.start(blockIdx.x, extents);
  thread.last = thread.place.last(kKnown ? uint32_t(kKnown) - 1 : shape.length - 1, extents);
  BlockRows<Work::kWidest, kThreads / 32> sharing{shared, threads / 32, 0};
  thread.run(threadIdx.x == 0, sharing);
}

// The same where teams of blocks share rows. All blocks run at the same time.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_teams(Work const& work, Extents<Work::kRank> const& extents, RowTeams const& shape) {
  constexpr int kWidest = team_widest<Work>;
  char* const memory = dynamic_shared();
  auto* const totals = reinterpret_cast<float(*)[kWidest][32]>(memory);
  using Held = HeldSteps<V, Work>;
  Held const held{reinterpret_cast<typename Held::Piece*>(memory + totals_bytes(kWidest)), shape.held};
  int const team = int(blockIdx.x) / shape.parts, part = int(blockIdx.x) - team * shape.parts;
  TeamThread<V, kItems, Work> thread{work, extents, held};
  thread.begin = part * shape.chunk;
  thread.count = shape.length - thread.begin < shape.chunk ? shape.length - thread.begin : shape.chunk;
  thread.kept = shape.held < thread.count ? shape.held : thread.count;
  uint64_t* const slots = shape.slots + int64_t(team) * 2 * kWidest * shape.parts;
  TeamRows<kWidest> sharing{{totals, kTeamThreads / 32, 0}, slots, shape.parts, part, 0};
  thread.run(team, shape.teams, shape.rows, part == 0 && threadIdx.x == 0, sharing);
}

// The innermost axis is kept. Each thread works on V rows side by side, `lanes` threads lie side by side, and all
// threads with the same ones share the steps.
template <int V, int kItems, bool kAgain, class Work>
MUCC_DEVICE void rows_columns(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  constexpr int kWarps = (kAgain ? kThreadsAgain : Work::kThreads) / 32;
  constexpr int kWidest = kAgain ? team_widest<Work> : Work::kWidest;
  constexpr int kMostLanes = kAgain ? lanes_again(V) : 32;
  __shared__ float shared[2][kWidest][kWarps][kMostLanes * V];
  uint32_t const column = blockIdx.x * shape.lanes + (threadIdx.x & (shape.lanes - 1));
  bool const exists = column < shape.rows;
  RowThread<V, kItems, kAgain, Work> thread{work, extents};
  thread.first = threadIdx.x / shape.lanes, thread.stride = shape.threads / shape.lanes;
  thread.last = shape.length - 1, thread.exists = exists;
  thread.place.start(exists ? column : 0, extents);
  ColumnRows<V, kWidest, kWarps, kMostLanes> sharing{shared, shape.lanes, shape.threads / 32, 0};
  thread.run(int(threadIdx.x) < shape.lanes, sharing);
}

// The same where the threads of the blocks of a cluster share the steps, and each has its part in registers.
template <int V, int kItems, class Work>
MUCC_DEVICE void rows_cluster(Work const& work, Extents<Work::kRank> const& extents, RowShape const& shape) {
  using Shared = ClusterTotals<V, Work::kWidest>;
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared());
  uint32_t const own = blockIdx.x % kClusterBlocks, threads = kClusterThreads / kClusterLanes;
  uint32_t const column = blockIdx.x / kClusterBlocks * kClusterLanes + threadIdx.x % kClusterLanes;
  bool const exists = column < shape.rows;
  RowThread<V, kItems, false, Work> thread{work, extents};
  thread.first = own * threads + threadIdx.x / kClusterLanes, thread.stride = kClusterBlocks * threads;
  thread.last = shape.length - 1, thread.exists = exists;
  thread.place.start(exists ? column : 0, extents);
  ClusterRows<V, Work::kWidest> sharing{shared, {shared.warps, kClusterLanes, Shared::kWarps, 0}, 0};
  thread.run(own == 0 && threadIdx.x < kClusterLanes, sharing);
  sync_cluster();  // no block ends while others read its totals
}

// The first S of V lanes.
template <int S, int V>
MUCC_DEVICE Lanes<S> first_lanes(Lanes<V> const& x) {
  Lanes<S> result;
#pragma unroll
  for (int s = 0; s < S; ++s) result.of[s] = x.of[s];
  return result;
}

}  // namespace mucc
