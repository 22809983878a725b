// Pointwise kernels some of whose operands are contiguous along another axis than the last one: these go by tiles through
// shared memory, so that threads read them too in the order in which they lie.
//
// The compiler writes `Op`, views of tensors; `Tiles`, a tile for each such operand; and `Work` upon them, whose `fill` reads the
// tiles and whose `run<V>(place)` computes V neighbouring elements of the last axis.
#pragma once

#include <mucc/map.cuh>
#include <mucc/pack.cuh>

namespace mucc {

// A place of a space, and where it lies in the tiles.
template <int R, class Index, class T>
struct TilePlace : Position<R, Index> {
  T const* tiles;
  unsigned row, column;  // in the tiles
};

// A tile of an operand that is contiguous along the axis of the tile's rows.
template <class T, int kDown, int kAcross>
struct OperandTile : Tile<typename BitsOf<int(sizeof(T))>::Type, kDown, kAcross> {
  using Bits = typename BitsOf<int(sizeof(T))>::Type;
  using Base = Tile<Bits, kDown, kAcross>;

  // Fills the tile from a view of a space, from place `p` on; rows are places of axis `kTurned`.
  template <int kThreads, int kTurned, class View, class P>
  MUCC_DEVICE void read(View const& view, Extents<View::kRank> const& space, P const& p) {
    constexpr int kLast = View::kRank - 1;
    auto const* const lowest = reinterpret_cast<Bits const*>(view.data);
    int64_t last = 0;
#pragma unroll
    for (int a = 0; a <= kLast; ++a) last += (space.of[a] - 1) * view.stride[a];
    Base::template fill<kThreads>(lowest, lowest + last + 1, lowest + index_of(view, p), view.stride[kLast],
                                  space.of[kTurned] - int64_t(p.at[kTurned]), space.of[kLast] - int64_t(p.at[kLast]));
  }

  // V neighbouring elements of a row.
  template <int V, class P>
  MUCC_DEVICE Lanes<V> load(P const& p) const {
    constexpr unsigned kTogether = Base::kTogether;
    static_assert(V == 1 || V % kTogether == 0, "vectors are whole words");
    unsigned const first = p.column / kTogether, row = Base::place(int(p.row));
    Lanes<V> result;
#pragma unroll
    for (unsigned v = 0; v < V; ++v) {
      unsigned const within = V == 1 ? p.column % kTogether : v % kTogether;
      Bits const bits = Bits(Base::words[first + v / kTogether][row] >> 8 * int(sizeof(T)) * within);
      result.of[v] = widen(reinterpret_cast<T const&>(bits));
    }
    return result;
  }
};

// Runs over a space by tiles of its axis Work::kTurned, whose places are the rows, and its last axis, which counts vectors of V
// elements.
template <int V, class Work, class Index>
MUCC_DEVICE void map_tiles(Work const& work, Extents<Work::kRank> const& extents, Index tiles) {
  using Tiles = typename Work::Tiles;
  constexpr int kRank = Work::kRank, kLast = kRank - 1, kTurned = Work::kTurned, kDown = Work::kDown, kAcross = Work::kAcross;
  constexpr int kSteps = kAcross / V;
  static_assert(kAcross % V == 0, "rows of tiles are whole vectors");
  __shared__ Tiles memory;
  Extents<kRank> space = extents;
  space.of[kLast] *= V;
  Index const down = Index((space.of[kTurned] + kDown - 1) / kDown);
  Index const across = Index((space.of[kLast] + kAcross - 1) / kAcross);
  for (Index i = blockIdx.x; i < tiles; i += gridDim.x) {
    TilePlace<kRank, Index, Tiles> p;
    p.tiles = &memory;
    Index outer = i / across;
    p.at[kLast] = (i - outer * across) * kAcross;
    p.at[kTurned] = outer % down * kDown;
    outer /= down;
#pragma unroll
    for (int a = kLast - 1; a >= 0; --a) {
      if (a == kTurned) continue;
      Index const rest = outer / Index(space.of[a]);
      p.at[a] = outer - rest * Index(space.of[a]);
      outer = rest;
    }
    int64_t const rows = space.of[kTurned] - int64_t(p.at[kTurned]), columns = space.of[kLast] - int64_t(p.at[kLast]);
    work.fill(memory, space, p);
    __syncthreads();
    for (int k = int(threadIdx.x); k < kDown * kSteps; k += Work::kThreads) {
      auto q = p;
      q.row = unsigned(k) / kSteps, q.column = unsigned(k) % kSteps * V;
      if (q.row >= rows || q.column >= columns) continue;
      q.at[kTurned] += Index(q.row);
      q.at[kLast] += Index(q.column);
      work.template run<V>(q);
    }
    __syncthreads();
  }
}

}  // namespace mucc
