// Pointwise kernels on the device.
//
// The compiler writes `Op`, views of tensors, and `Work` upon it, whose `run<V>(position)` computes V neighbouring elements.
#pragma once

#include <mucc/map.h>
#include <mucc/view.cuh>

namespace mucc {

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
