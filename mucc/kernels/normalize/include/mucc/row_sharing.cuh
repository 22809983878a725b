// Who shares a row: lanes of a warp, threads of a block, threads beside each other, blocks of a cluster.
//
// `combine<Kinds>(totals)` leaves in each thread the totals of all threads that share its row.
#pragma once

#include <mucc/cluster.cuh>
#include <mucc/row_phases.cuh>
#include <mucc/shared.cuh>

namespace mucc {

struct WarpRows {
  int lanes;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    combine_lanes<Kinds>(acc, 1, lanes);
  }
};

// `kWarps` is the number of warps, or 0 where the launch decides.
template <int kWidest, int kWarps = 0>
struct BlockRows {
  static constexpr int kGroup = kWarps ? warp_lanes(kWarps, 1) : 32;  // lanes that hold the totals of all warps
  float (*shared)[kWidest][32];
  int warps, turn;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    int const lane = threadIdx.x % 32;
    auto& totals = shared[turn++ % 2];
    combine_lanes<Kinds>(acc, 1, 32);
    if (lane == 0) {
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) totals[k][threadIdx.x / 32] = acc[0][k];
    }
    __syncthreads();
    int const warp = lane % kGroup;
    Kinds::start(acc[0]);
    if (kWarps == kGroup || warp < warps) {
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k) acc[0][k] = totals[k][warp];
    }
    combine_lanes<Kinds>(acc, 1, kGroup);
  }
};

template <int V, int kWidest, int kWarps, int kMostLanes>
struct ColumnRows {
  float (*shared)[kWidest][kWarps][kMostLanes * V];
  int lanes, warps, turn;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    int const lane = threadIdx.x & (lanes - 1);
    auto& totals = shared[turn++ % 2];
    combine_lanes<Kinds, V>(acc, lanes, 32);
    if (int(threadIdx.x % 32) < lanes) {
#pragma unroll
      for (int v = 0; v < V; ++v)
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) totals[k][threadIdx.x / 32][lane * V + v] = acc[v][k];
    }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
    for (int w = 0; w < warps; ++w) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        typename Kinds::Totals other;
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) other[k] = totals[k][w][lane * V + v];
        Kinds::combine(acc[v], other);
      }
    }
  }
};

// The blocks of a cluster share rows that lie side by side. Totals have two buffers: once all blocks have met again, each has
// read those of the exchange before, whose buffer the next exchange takes.
template <int V, int kWidest>
struct ClusterRows {
  using Shared = ClusterTotals<V, kWidest>;
  static constexpr int kPiece = V < 4 ? V : 4;
  Shared& shared;
  ColumnRows<V, kWidest, Shared::kWarps, kClusterLanes> block;
  int turn;

  template <class Kinds>
  MUCC_DEVICE void combine(typename Kinds::Totals* acc) {
    block.template combine<Kinds>(acc);
    auto& own = shared.own[turn++ % 2];
    if (threadIdx.x < kClusterLanes) {
#pragma unroll
      for (int v = 0; v < V; ++v)
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) own[k][threadIdx.x * V + v] = acc[v][k];
    }
    sync_cluster();
    auto& totals = shared.warps[block.turn++ % 2];
    if (threadIdx.x < kClusterLanes * kClusterBlocks) {
      int const first = int(threadIdx.x) % kClusterLanes * V, other = int(threadIdx.x) / kClusterLanes;
#pragma unroll
      for (int k = 0; k < Kinds::kCount; ++k)
#pragma unroll
        for (int v = 0; v < V; v += kPiece) {
          float part[kPiece];
          load_shared_of(part, shared_of(shared_address(&own[k][first + v]), other));
#pragma unroll
          for (int i = 0; i < kPiece; ++i) totals[k][other][first + v + i] = part[i];
        }
    }
    __syncthreads();
    int const first = int(threadIdx.x) % kClusterLanes * V;
#pragma unroll
    for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
#pragma unroll 1
    for (int other = 0; other < kClusterBlocks; ++other) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        typename Kinds::Totals part;
#pragma unroll
        for (int k = 0; k < Kinds::kCount; ++k) part[k] = totals[k][other][first + v];
        Kinds::combine(acc[v], part);
      }
    }
  }
};

}  // namespace mucc
