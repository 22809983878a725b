// Pointwise kernels that compute few planes, some of whose operands have the planes' elements side by side, pixel by pixel. A
// thread has V neighbouring pixels of all planes: it reads those of such operands whole, and takes planes from registers.
//
// The compiler writes `Op` and `Work` as for mucc/map_tiles.cuh; `Tiles` has pixels in place of tiles, and `fill<V>` reads them.
#pragma once

#include <mucc/map_tiles.cuh>

namespace mucc {

// Up to kMost neighbouring pixels of an operand, each of kPlanes elements.
template <class T, int kPlanes, int kMost>
struct OperandPixels {
  using Bits = typename BitsOf<int(sizeof(T))>::Type;
  static constexpr int kTogether = 4 / int(sizeof(T));

  uint32_t words[(kPlanes * kMost + kTogether - 1) / kTogether];

  template <int V, class View, class P>
  MUCC_DEVICE void read(View const& view, P const& p) {
    constexpr int kCount = kPlanes * V, kBytes = kCount * int(sizeof(T)), kUnit = kBytes % 16 == 0 ? 16 : kBytes % 8 == 0 ? 8 : 4;
    auto const* const from = reinterpret_cast<Bits const*>(place(view, p));
    if constexpr (kBytes % kUnit == 0) {
      if (reinterpret_cast<uint64_t>(from) % kUnit == 0) {
#pragma unroll
        for (int i = 0; i < kBytes / kUnit; ++i) {
          auto const some = reinterpret_cast<Pack<uint32_t, kUnit / 4> const*>(from)[i];
#pragma unroll
          for (int w = 0; w < kUnit / 4; ++w) words[i * (kUnit / 4) + w] = some.of[w];
        }
        return;
      }
    }
#pragma unroll
    for (int w = 0; w < (kCount + kTogether - 1) / kTogether; ++w) {
      words[w] = 0;
#pragma unroll
      for (int e = 0; e < kTogether; ++e)
        if (w * kTogether + e < kCount) words[w] |= uint32_t(from[w * kTogether + e]) << 8 * int(sizeof(T)) * e;
    }
  }

  // The elements of a plane.
  template <int V, class P>
  MUCC_DEVICE Lanes<V> load(P const& p) const {
    Lanes<V> result;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      int const e = v * kPlanes + int(p.row);
      Bits const bits = Bits(words[e / kTogether] >> 8 * int(sizeof(T)) * (e % kTogether));
      result.of[v] = widen(reinterpret_cast<T const&>(bits));
    }
    return result;
  }
};

// Runs over a space without its axis Work::kTurned, that of Work::kPlanes planes; the last axis counts vectors of V elements.
template <int V, class Work, class Index>
MUCC_DEVICE void map_planes(Work const& work, Extents<Work::kRank> const& extents, Index total) {
  using Tiles = typename Work::Tiles;
  constexpr int kRank = Work::kRank, kLast = kRank - 1, kTurned = Work::kTurned;
  constexpr Index kKnown = Index(known_product<Work>(kTurned + 1, kRank) / V);
  Index const step = Index(gridDim.x) * Work::kThreads;
  Index inner = 1;
#pragma unroll
  for (int a = kTurned + 1; a < kRank; ++a) inner *= Index(extents.of[a]);
  if (kKnown) inner = kKnown;
  for (Index i = Index(blockIdx.x) * Work::kThreads + threadIdx.x; i < total; i += step) {
    TilePlace<kRank, Index, Tiles> p;
    Index const outer = i / inner;
    split_known<Work, kLast, V, 0, kTurned>(p, outer, extents.of);
    split_known<Work, kLast, V, kTurned + 1, kRank>(p, i - outer * inner, extents.of);
    p.at[kLast] *= V;
    p.at[kTurned] = 0;
    Tiles pixels;
    work.template fill<V>(pixels, p);
    p.tiles = &pixels;
#pragma unroll
    for (int plane = 0; plane < Work::kPlanes; ++plane) {
      p.row = unsigned(plane);
      p.at[kTurned] = Index(plane);
      work.template run<V>(p);
    }
  }
}

}  // namespace mucc
