// Pointwise kernels.
//
// `Op` is what the compiler writes: views of tensors, and `run<V>(position)` which computes V neighbouring elements.
#pragma once

#include <mucc/launch.h>
#include <mucc/view.cuh>

#include <algorithm>

namespace mucc {

template <int R>
struct Extents {
  int64_t of[R];
  int64_t product() const {
    int64_t result = 1;
    for (int64_t e : of) result *= e;
    return result;
  }
};

inline constexpr int kMapThreads = 256;

// `extents` has its last axis counted in vectors of V elements.
template <class Op, int V, class Index>
__global__ void __launch_bounds__(kMapThreads) map_kernel(Op const op, Extents<Op::kRank> const extents, Index total) {
  Index const step = Index(gridDim.x) * kMapThreads;
  for (Index i = Index(blockIdx.x) * kMapThreads + threadIdx.x; i < total; i += step) {
    Position<Op::kRank, Index> p;
    p.template split<0, Op::kRank>(i, extents.of);
    p.at[Op::kRank - 1] *= V;
    op.template run<V>(p);
  }
}

template <class Op, int V, class Index>
int start_map(Call const& c, char const* stage, Op op, Extents<Op::kRank> extents) {
  extents.of[Op::kRank - 1] /= V;
  Index total = Index(extents.product());
  int64_t blocks = (int64_t(total) + kMapThreads - 1) / kMapThreads;
  void* parameters[] = {&op, &extents, &total};
  auto* kernel = reinterpret_cast<void const*>(map_kernel<Op, V, Index>);
  return check_cuda(cudaLaunchKernel(kernel, dim3(unsigned(std::min<int64_t>(blocks, INT32_MAX))), kMapThreads,
                                     parameters, 0, stream_of(c)),
                    stage);
}

template <class Op>
int launch_map(Call const& c, char const* stage, Op const& op, Extents<Op::kRank> const& extents) {
  bool vector = extents.of[Op::kRank - 1] % Op::kVector == 0 && op.fits(Op::kVector);
  bool small = extents.product() <= INT32_MAX;
  if (vector)
    return small ? start_map<Op, Op::kVector, uint32_t>(c, stage, op, extents)
                 : start_map<Op, Op::kVector, uint64_t>(c, stage, op, extents);
  return small ? start_map<Op, 1, uint32_t>(c, stage, op, extents) : start_map<Op, 1, uint64_t>(c, stage, op, extents);
}

}  // namespace mucc
