// Products with two right operands, D = Body::apply(A B0ᵀ, A B1ᵀ, ...): their N is (N, 2), and so are the columns of
// tiles. A stage of B holds n rows of each right operand, and a thread the accumulators of the same element of both.
#pragma once

#include <cutlass/fast_math.h>
#include <mucc/ahead.cuh>
#include <mucc/epilogue.cuh>

namespace mucc::gemm {

// The epilogue of such a product. A tensor map has no negative strides: where the second right operand lies before the
// first one, the two are `reversed` in the tile.
template <class TileShape, int kWarpgroups, class D, class Stride, class Body, class... Load>
class PairEpilogue : public Epilogue<TileShape, kWarpgroups, D, Stride, Body, Load...> {
  using Base = Epilogue<TileShape, kWarpgroups, D, Stride, Body, Load...>;

 public:
  struct Arguments : Base::Arguments {
    bool reversed;
  };
  struct Params : Base::Params {
    bool reversed;
  };

  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& a, void* workspace) {
    return {Base::to_underlying_arguments(shape, a, workspace), a.reversed};
  }

  CUTLASS_DEVICE PairEpilogue(Params const& params, typename Base::TensorStorage& storage)
      : Base(params, storage), reversed_(params.reversed) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class Shape, class Tile,
            class Coordinates, class Accumulators, class Mma>
  CUTLASS_DEVICE typename Base::States store(LoadPipeline const& load, LoadState load_state,
                                             StorePipeline const& store, StoreState store_state, Shape const& shape,
                                             Tile const& tile, Coordinates const& at, Accumulators& accumulators,
                                             Mma const& mma, int thread, typename Base::TensorStorage& storage,
                                             int only = -1) {
    // Accumulators of the second half of the columns follow those of the first.
    if (reversed_) {
      static constexpr int kMmaN = cute::size<1>(typename Mma::AtomShape_MNK{});
      CUTLASS_PRAGMA_UNROLL
      for (int m = 0; m < Base::kBoxesM; ++m) {
        CUTLASS_PRAGMA_UNROLL
        for (int c = 0; c < Base::kTileN; c += 8) {
          CUTLASS_PRAGMA_UNROLL
          for (int i = 0; i < 4; ++i)
            cutlass::swap(accumulators.data()[fragment::index(m, c, Base::kBoxesM, kMmaN) + i],
                          accumulators.data()[fragment::index(m, Base::kTileN + c, Base::kBoxesM, kMmaN) + i]);
        }
      }
    }
    return Base::store(load, load_state, store, store_state, shape, tile, at, accumulators, mma, thread, storage, only);
  }

 private:
  bool reversed_;
};

}  // namespace mucc::gemm
