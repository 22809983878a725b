// Sums of tensor cores drop low bits: what they add to a large sum is cut off, always towards zero, so that the error
// grows with K. Here a mainloop adds up a part of K at a time, and f32 additions, which round to nearest, do the rest.
#pragma once

#include <mucc/gemm.cuh>

namespace mucc::gemm {

// A mainloop of CUTLASS that takes its sums out of the tensor cores after every kDepth elements along K.
template <class Base, int kDepth = 128>
struct Promoted : Base {
  using typename Base::MainloopPipeline;
  using typename Base::Params;
  using typename Base::PipelineState;
  using typename Base::TensorStorage;
  static constexpr int kTileK = cute::size<2>(typename Base::TileShape{});
  static constexpr int kTiles = kTileK < kDepth ? kDepth / kTileK : 1;

  template <class Accumulators>
  CUTLASS_DEVICE void mma(MainloopPipeline pipeline, PipelineState state, Accumulators& sums, int count, int thread,
                          TensorStorage& tensors, Params const& params) {
    cute::clear(sums);
    CUTLASS_PRAGMA_NO_UNROLL
    while (count > 0) {
      int const tiles = count < kTiles ? count : kTiles;
      auto part = cute::make_fragment_like(sums);
      Base::mma(pipeline, state, part, tiles, thread, tensors, params);
      Base::mma_tail(pipeline, state, tiles);
      cute::warpgroup_fence_operand(part);
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < cute::size(sums); ++i) sums(i) += part(i);
      state.advance(tiles);
      count -= tiles;
    }
  }

  // All stages are released already.
  CUTLASS_DEVICE void mma_tail(MainloopPipeline, PipelineState, int) {}
};

}  // namespace mucc::gemm
