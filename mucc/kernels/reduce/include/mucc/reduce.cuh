// Reduction kernels, with pointwise work before the reduction.
//
// The space has its kept axes first, then the reduced ones. The compiler writes `Op`, views of tensors, and `Work` upon it:
// `values<V>(position)` which computes V neighbouring elements of each value to reduce, and `store`. Where one block
// per result would leave the GPU idle, several blocks share a result: it is filled with the identity first, and the
// blocks combine with atomics.
#pragma once

#include <mucc/view.cuh>

namespace mucc {

// V neighbouring elements of each of K values.
template <int V, int K>
struct Values {
  Lanes<V> of[K];
};

// Several reductions over the same elements. The counters in the folds are constants once the loops are unrolled.
template <class... Kinds>
struct Reductions {
  static constexpr int kCount = sizeof...(Kinds);

  static MUCC_DEVICE void start(float (&acc)[kCount]) {
    int k = 0;
    ((acc[k] = Kinds::identity, ++k), ...);
  }
  static MUCC_DEVICE void combine(float (&acc)[kCount], float const (&other)[kCount]) {
    int k = 0;
    ((acc[k] = Kinds::combine(acc[k], other[k]), ++k), ...);
  }
  template <int V>
  static MUCC_DEVICE void add(float (&acc)[kCount], Values<V, kCount> const& values, int v) {
    int k = 0;
    ((acc[k] = Kinds::combine(acc[k], Kinds::first(values.of[k].of[v])), ++k), ...);
  }
};

// Combines over the lanes of a warp; lane 0 has the result.
template <class Kinds>
MUCC_DEVICE void combine_warp(float (&acc)[Kinds::kCount]) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    float other[Kinds::kCount];
#pragma unroll
    for (int k = 0; k < Kinds::kCount; ++k) other[k] = __shfl_down_sync(~0u, acc[k], lanes);
    Kinds::combine(acc, other);
  }
}

// The innermost axis is reduced. kThreads threads (a warp or the block) walk along one result's elements.
template <int V, int kThreads, class Op, class Index>
MUCC_DEVICE void reduce_rows(Op const& op, Extents<Op::kRank> const& extents, Index rows, Index length, Index chunk) {
  using Kinds = typename Op::Kinds;
  constexpr int kCount = Kinds::kCount;
  constexpr int kRows = Op::kThreads / kThreads;
  constexpr int kWarps = Op::kThreads / 32;
  Index const lane = threadIdx.x % kThreads;
  Index const row = Index(blockIdx.x) * kRows + threadIdx.x / kThreads;
  if (row >= rows) return;  // a whole warp, or, where threads meet at a barrier, the whole block
  Position<Op::kRank, Index> p;
  p.template split<0, Op::kKept>(row, extents.of);
  Index const begin = Index(blockIdx.y) * chunk;
  Index const end = length - begin < chunk ? length : begin + chunk;
  float acc[kCount];
  Kinds::start(acc);
#pragma unroll 4
  for (Index i = begin + lane; i < end; i += kThreads) {
    p.template split<Op::kKept, Op::kRank>(i, extents.of);
    p.at[Op::kRank - 1] *= V;
    auto const values = op.template values<V>(p);
#pragma unroll
    for (int v = 0; v < V; ++v) Kinds::add(acc, values, v);
  }
  combine_warp<Kinds>(acc);
  if constexpr (kThreads > 32) {
    __shared__ float partial[kWarps][kCount];
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) partial[threadIdx.x / 32][k] = acc[k];
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    Kinds::start(acc);
    if (threadIdx.x < kWarps) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) acc[k] = partial[threadIdx.x][k];
    }
    combine_warp<Kinds>(acc);
  }
  if (lane == 0) op.store(p, acc, gridDim.y > 1);
}

// The innermost axis is kept. A warp reads 32 vectors side by side, the block's warps take rows in turn.
template <int V, class Op, class Index>
MUCC_DEVICE void reduce_columns(Op const& op, Extents<Op::kRank> const& extents, Index columns, Index length,
                                Index chunk) {
  using Kinds = typename Op::Kinds;
  constexpr int kCount = Kinds::kCount;
  constexpr int kWarps = Op::kThreads / 32;
  __shared__ float partial[kWarps][V][kCount][32];
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Index const column = Index(blockIdx.x) * 32 + lane;
  Position<Op::kRank, Index> p;
  float acc[V][kCount];
#pragma unroll
  for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
  if (column < columns) {
    p.template split<0, Op::kKept>(column, extents.of);
    p.at[Op::kKept - 1] *= V;
    Index const begin = Index(blockIdx.y) * chunk;
    Index const end = length - begin < chunk ? length : begin + chunk;
#pragma unroll 4
    for (Index i = begin + warp; i < end; i += kWarps) {
      p.template split<Op::kKept, Op::kRank>(i, extents.of);
      auto const values = op.template values<V>(p);
#pragma unroll
      for (int v = 0; v < V; ++v) Kinds::add(acc[v], values, v);
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) partial[warp][v][k][lane] = acc[v][k];
  }
  __syncthreads();
  if (warp != 0 || column >= columns) return;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    for (int w = 1; w < kWarps; ++w) {
      float other[kCount];
#pragma unroll
      for (int k = 0; k < kCount; ++k) other[k] = partial[w][v][k][lane];
      Kinds::combine(acc[v], other);
    }
    op.store(p, acc[v], gridDim.y > 1);
    ++p.at[Op::kKept - 1];
  }
}

}  // namespace mucc
