// Pointwise kernels that compute few planes, some of whose operands or results have the planes' elements side by side, pixel by
// pixel. A thread has V neighbouring pixels of all planes: it reads and writes those of such tensors whole, and has planes of them
// in registers.
//
// The compiler writes `Op` and `Work` as for mucc/map_tiles.cuh; `Tiles` has pixels in place of tiles. `fill<V>` reads those of
// operands, and `finish<V>` writes those of results.
#pragma once

#include <mucc/map.cuh>

namespace mucc {

// A place of a space, and the plane that it is in.
template <int R, class Index, class T>
struct PixelPlace : Position<R, Index> {
  T* tiles;
  unsigned row;
};

// The widest word of which so many bytes are made.
MUCC_DEVICE constexpr int widest_word(int bytes) { return bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 0; }

// Up to kMost neighbouring pixels of an operand, each of kPlanes elements.
template <class T, int kPlanes, int kMost>
struct OperandPixels {
  using Bits = typename BitsOf<int(sizeof(T))>::Type;
  static constexpr int kTogether = 4 / int(sizeof(T));

  uint32_t words[(kPlanes * kMost + kTogether - 1) / kTogether];

  template <int V, class View, class P>
  MUCC_DEVICE void read(View const& view, P const& p) {
    constexpr int kCount = kPlanes * V, kBytes = kCount * int(sizeof(T)), kUnit = widest_word(kBytes);
    auto const* const from = reinterpret_cast<Bits const*>(place(view, p));
    if constexpr (kUnit > 0) {
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

// Up to kMost neighbouring pixels of a result, each of kPlanes elements.
template <class T, int kPlanes, int kMost>
struct ResultPixels {
  using Bits = typename BitsOf<int(sizeof(T))>::Type;

  Bits of[kPlanes * kMost];

  // Keeps the elements of a plane.
  template <int V, class P>
  MUCC_DEVICE void keep(P const& p, Lanes<V> const& value) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      T element;
      narrow(value.of[v], element);
      of[v * kPlanes + int(p.row)] = reinterpret_cast<Bits const&>(element);
    }
  }

  template <int V, class View, class P>
  MUCC_DEVICE void write(View const& view, P const& p) const {
    constexpr int kCount = kPlanes * V, kBytes = kCount * int(sizeof(T)), kUnit = widest_word(kBytes), kTogether = 4 / int(sizeof(T));
    auto* const to = reinterpret_cast<Bits*>(place(view, p));
    if constexpr (kUnit > 0) {
      if (reinterpret_cast<uint64_t>(to) % kUnit == 0) {
#pragma unroll
        for (int i = 0; i < kBytes / kUnit; ++i) {
          Pack<uint32_t, kUnit / 4> some{};
#pragma unroll
          for (int e = 0; e < kUnit / int(sizeof(T)); ++e)
            some.of[e / kTogether] |= uint32_t(of[i * (kUnit / int(sizeof(T))) + e]) << 8 * int(sizeof(T)) * (e % kTogether);
          write_words(reinterpret_cast<Pack<uint32_t, kUnit / 4>*>(to) + i, some);
        }
        return;
      }
    }
#pragma unroll
    for (int e = 0; e < kCount; ++e) to[e] = of[e];
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
    PixelPlace<kRank, Index, Tiles> p;
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
    p.at[kTurned] = 0;
    work.template finish<V>(pixels, p);
  }
}

}  // namespace mucc
