// Pointwise kernels on the device.
//
// The compiler writes `Op`, views of tensors, and `Work` upon it, whose `run<V>(position)` computes V neighbouring elements.
#pragma once

#include <mucc/view.cuh>

namespace mucc {

// Whether a launch may take the kernel of vectors of `v` elements, with indices of 64 bits where `wide`.
template <class Op>
MUCC_BOTH constexpr bool may_map(int v, bool wide) {
  int64_t const elements = known_product<Op>(0, Op::kRank);
  return (wide ? may_be_wide(elements) : may_be_narrow(elements)) && Op::kKnown[Op::kRank - 1] % v == 0;
}

// Runs over a space whose last axis counts vectors of V elements.
template <int V, class Work, class Index>
MUCC_DEVICE void map(Work const& work, Extents<Work::kRank> const& extents, Index total) {
  Index const step = Index(gridDim.x) * Work::kThreads;
  for (Index i = Index(blockIdx.x) * Work::kThreads + threadIdx.x; i < total; i += step) {
    Position<Work::kRank, Index> p;
    split_known<Work, Work::kRank - 1, V, 0, Work::kRank>(p, i, extents.of);
    p.at[Work::kRank - 1] *= V;
    work.template run<V>(p);
  }
}

}  // namespace mucc
