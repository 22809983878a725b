// Matrices that an epilogue reads, fetched into L2 while the mainloop loads operands: threads that come to read them after
// the last product would otherwise wait for memory.
#pragma once

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>

namespace mucc::gemm {

// A matrix of (m, n) elements of `size` bytes, neighbours in a row or in a column; the rest in bytes.
struct Fetched {
  void const* data;
  int64_t line, batch;  // from one row (column) to the next, and to the next batch
  int size;
  bool columns;
  int m, n;
};

// A mainloop whose loading warp does so, for the tile that it begins to load.
template <class TileShape, int kCount, class Base>
struct Ahead : Base {
  struct Arguments : Base::Arguments {
    Fetched ahead[kCount];
  };
  struct Params : Base::Params {
    Fetched ahead[kCount];
  };

  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& a, void* workspace) {
    Params params{Base::to_underlying_arguments(shape, a, workspace), {}};
    for (int i = 0; i < kCount; ++i) params.ahead[i] = a.ahead[i];
    return params;
  }

  template <class Inputs, class Coordinates, class KTiles, class... Rest>
  CUTLASS_DEVICE void load(Params const& params, typename Base::MainloopPipeline pipeline,
                           typename Base::PipelineState state, Inputs const& inputs, Coordinates const& at,
                           KTiles k_tiles, int count, Rest&&... rest) {
    static constexpr int kM = cute::size<0>(TileShape{}), kN = cute::front(cute::get<1>(TileShape{}));
    CUTLASS_PRAGMA_UNROLL
    for (Fetched const& matrix : params.ahead)
      fetch<kM, kN>(matrix, int(cute::get<0>(at)) * kM, int(cute::front(cute::get<1>(at))) * kN, int(cute::get<3>(at)));
    Base::load(params, pipeline, state, inputs, at, k_tiles, count, static_cast<Rest&&>(rest)...);
  }

 private:
  // A tile of a matrix; all threads of a warp call it together. Lines are whole multiples of 16 bytes.
  template <int kM, int kN>
  CUTLASS_DEVICE static void fetch(Fetched const& a, int m, int n, int l) {
    int const line = a.columns ? n : m, lines = cute::min(a.columns ? kN : kM, (a.columns ? a.n : a.m) - line);
    int const first = a.columns ? m : n, along = cute::min(a.columns ? kM : kN, (a.columns ? a.m : a.n) - first);
    if (along <= 0) return;
    auto const* const from = static_cast<char const*>(a.data) + l * a.batch + line * a.line + first * a.size;
    for (int i = cutlass::canonical_lane_idx(); i < lines; i += 32)
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from + i * a.line), "r"(along * a.size) : "memory");
  }
};

}  // namespace mucc::gemm
