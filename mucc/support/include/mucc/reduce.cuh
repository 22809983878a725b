// Reduction kernels, with pointwise work before the reduction.
//
// The space has its kept axes first, then the reduced ones. `Op` is what the compiler writes: views of tensors,
// `values<V>(position)` which computes V neighbouring elements of each value to reduce, and `store`. Where one block
// per result would leave the GPU idle, several blocks share a result: it is filled with the identity first, and the
// blocks combine with atomics.
#pragma once

#include <mucc/map.cuh>

#include <utility>

namespace mucc {

// V neighbouring elements of each of K values.
template <int V, int K>
struct Values {
  Lanes<V> of[K];
};

// Several reductions over the same elements.
template <class... Kinds>
struct Reductions {
  static constexpr int kCount = sizeof...(Kinds);
  using Each = std::make_index_sequence<kCount>;

  static MUCC_DEVICE void start(float (&acc)[kCount]) { start(acc, Each{}); }
  static MUCC_DEVICE void combine(float (&acc)[kCount], float const (&other)[kCount]) { combine(acc, other, Each{}); }
  template <int V>
  static MUCC_DEVICE void add(float (&acc)[kCount], Values<V, kCount> const& values, int v) {
    add(acc, values, v, Each{});
  }

 private:
  template <std::size_t... k>
  static MUCC_DEVICE void start(float (&acc)[kCount], std::index_sequence<k...>) {
    ((acc[k] = Kinds::identity), ...);
  }
  template <std::size_t... k>
  static MUCC_DEVICE void combine(float (&acc)[kCount], float const (&other)[kCount], std::index_sequence<k...>) {
    ((acc[k] = Kinds::combine(acc[k], other[k])), ...);
  }
  template <int V, std::size_t... k>
  static MUCC_DEVICE void add(float (&acc)[kCount], Values<V, kCount> const& values, int v, std::index_sequence<k...>) {
    ((acc[k] = Kinds::combine(acc[k], Kinds::first(values.of[k].of[v]))), ...);
  }
};

inline constexpr int kReduceThreads = 256;
inline constexpr int kWarps = kReduceThreads / 32;

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
template <class Op, int V, int kThreads, class Index>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_rows(Op const op, Extents<Op::kRank> const extents, Index rows, Index length, Index chunk) {
  using Kinds = typename Op::Kinds;
  constexpr int kCount = Kinds::kCount;
  constexpr int kRows = kReduceThreads / kThreads;
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
template <class Op, int V, class Index>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_columns(Op const op, Extents<Op::kRank> const extents, Index columns, Index length, Index chunk) {
  using Kinds = typename Op::Kinds;
  constexpr int kCount = Kinds::kCount;
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

// How many blocks share a result: enough to keep the GPU busy, each with at least `least` steps to make.
inline int64_t shares(Call const& c, bool allowed, int64_t blocks, int64_t steps, int64_t least) {
  int64_t wanted = (4 * int64_t(c.sm_count) + blocks - 1) / blocks;
  return allowed ? std::max<int64_t>(1, std::min(wanted, steps / least)) : 1;
}

template <class Op, int V, class Index>
int start_reduce(Call const& c, char const* stage, Op op, Extents<Op::kRank> extents) {
  constexpr int kFast = Op::kRows ? Op::kRank - 1 : Op::kKept - 1;
  extents.of[kFast] /= V;
  int64_t results = 1, elements = 1;
  for (int a = 0; a < Op::kKept; ++a) results *= extents.of[a];
  for (int a = Op::kKept; a < Op::kRank; ++a) elements *= extents.of[a];
  void const* kernel;
  int64_t blocks, split;
  if constexpr (Op::kRows) {
    bool block = elements > kReduceThreads || results < 16 * int64_t(c.sm_count);
    kernel = block ? reinterpret_cast<void const*>(reduce_rows<Op, V, kReduceThreads, Index>)
                   : reinterpret_cast<void const*>(reduce_rows<Op, V, 32, Index>);
    blocks = block ? results : (results + kWarps - 1) / kWarps;
    split = shares(c, block && Op::kDense, blocks, elements, 4 * kReduceThreads);
  } else {
    kernel = reinterpret_cast<void const*>(reduce_columns<Op, V, Index>);
    blocks = (results + 31) / 32;
    split = shares(c, Op::kDense, blocks, elements, 8 * kWarps);
  }
  if (blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  Index chunk = Index((elements + split - 1) / split);
  split = (elements + int64_t(chunk) - 1) / int64_t(chunk);
  if (split > 1 && op.fill(c, Op::kRows ? results : results * V)) return 1;
  Index rows = Index(results), length = Index(elements);
  void* parameters[] = {&op, &extents, &rows, &length, &chunk};
  return check_cuda(cudaLaunchKernel(kernel, dim3(unsigned(blocks), unsigned(split)), kReduceThreads, parameters, 0,
                                     stream_of(c)),
                    stage);
}

template <class Op>
int launch_reduce(Call const& c, char const* stage, Op const& op, Extents<Op::kRank> const& extents) {
  constexpr int kFast = Op::kRows ? Op::kRank - 1 : Op::kKept - 1;
  bool vector = extents.of[kFast] % Op::kVector == 0 && op.fits(Op::kVector);
  bool small = extents.product() <= INT32_MAX;
  if (vector)
    return small ? start_reduce<Op, Op::kVector, uint32_t>(c, stage, op, extents)
                 : start_reduce<Op, Op::kVector, uint64_t>(c, stage, op, extents);
  return small ? start_reduce<Op, 1, uint32_t>(c, stage, op, extents)
               : start_reduce<Op, 1, uint64_t>(c, stage, op, extents);
}

}  // namespace mucc
