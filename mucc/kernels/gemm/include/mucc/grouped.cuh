// Grouped contractions: the rows of A and D lie in groups one after the other, and each group has its own B. The ends
// of the groups are known on the device only.
//
// CUTLASS's kernels and collectives do the work as for a batch of one group each. A and D are whole matrices, and the
// rows of a group begin anywhere in them: the mainloop moves the coordinates of A there, the epilogue stores no row of
// another group, and a tile scheduler of our own hands out tiles by reading the ends. So nothing is prepared before the
// launch, no tensor map changes, and no host waits.
#pragma once

#include <cutlass/arch/grid_dependency_control.h>
#include <mucc/gemm.cuh>

namespace mucc::gemm {

// Where the groups are. Ends that decrease or exceed the rows are bounded, so that no ends lead out of the matrices.
struct Groups {
  int32_t const* ends = nullptr;  // one past the last row of each
  int count = 0, rows = 0;

  static CUTLASS_DEVICE int between(int low, int x, int high) { return x < low ? low : x > high ? high : x; }
  CUTLASS_DEVICE int begin(int g) const { return g == 0 ? 0 : between(0, ends[g - 1], rows); }
  CUTLASS_DEVICE int end(int g) const { return between(begin(g), ends[g], rows); }
};

// ---- tiles ----------------------------------------------------------------------------------------------------

struct GroupedTiles {};  // the tag by which kernels ask for the scheduler

// How many clusters of tiles along M run at once, so that both operands are shared in L2.
template <int kClusterM>
uint32_t band_of(int swizzle) {
  constexpr int kBand = 8;
  return uint32_t(kBand * swizzle / kClusterM > 0 ? kBand * swizzle / kClusterM : 1);
}

// The row and the column of a tile, of those that lie in bands: down the rows of a band, then on to the next column.
struct Cell {
  uint32_t row, column;
};
CUTLASS_DEVICE Cell in_bands(uint32_t tile, uint32_t rows, uint32_t columns, uint32_t band) {
  uint32_t const full = band * columns, top = tile / full * band, rest = tile % full;
  uint32_t const height = rows - top < band ? rows - top : band;
  return {top + rest % height, rest / height};
}

// What schedulers share that go through all clusters of tiles in one order, in steps of what runs at once. `Self` says
// which tile is `next_`: WorkTileInfo get_current_work(), which all threads of a warp call together.
template <class Self, int kClusterM>
class ClusterWalk : public cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90 {
 public:
  CUTLASS_DEVICE ClusterWalk() : next_(blockIdx.x / kClusterM), step_(gridDim.x / kClusterM) {}

  template <class Cluster>
  CUTLASS_DEVICE auto initial_work_tile_info(Cluster) {
    return self().get_current_work();
  }
  CUTLASS_DEVICE void advance_to_next_work(uint32_t count = 1) { next_ += step_ * count; }
  template <class Work>
  CUTLASS_DEVICE bool is_last_tile(Work&, uint32_t count = 1) const {
    Self ahead = static_cast<Self const&>(*this);
    ahead.advance_to_next_work(count);
    return !ahead.get_current_work().is_valid();
  }
  template <class Work>
  CUTLASS_DEVICE auto fetch_next_work(Work) {
    advance_to_next_work();
    return cute::make_tuple(self().get_current_work(), true);
  }
  template <class Work, class Pipeline, class State>
  CUTLASS_DEVICE auto fetch_next_work(Work work, Pipeline&, State) {
    return fetch_next_work(work);
  }

 protected:
  uint32_t next_, step_;  // in clusters of tiles

 private:
  CUTLASS_DEVICE Self& self() { return static_cast<Self&>(*this); }
};

// Hands out the tiles of one group after the other, those that run at once in bands of kBand tiles along M, times the
// swizzle, so that both operands are shared in L2. A warp knows the tiles of 32 groups at a time.
template <class TileShape, class ClusterShape>
class GroupedScheduler
    : public ClusterWalk<GroupedScheduler<TileShape, ClusterShape>, cute::size<0>(ClusterShape{})> {
  using Base = ClusterWalk<GroupedScheduler, cute::size<0>(ClusterShape{})>;
  using Base::next_;
  static constexpr int kClusterM = cute::size<0>(ClusterShape{}), kClusterN = cute::size<1>(ClusterShape{});
  static constexpr int kRows = cute::size<0>(TileShape{}) * kClusterM;
  static constexpr int kColumns = cute::size<1>(TileShape{}) * kClusterN;

 public:
  using WorkTileInfo = typename Base::WorkTileInfo;
  struct Arguments : Base::Arguments {
    Groups groups;
  };
  struct Params : Base::Params {
    Groups groups;
    uint32_t columns;  // clusters along N
    uint32_t band;     // clusters along M
  };

  template <class Shape, class Tile, class Cluster>
  static Params to_underlying_arguments(Shape const& shape, Tile, Cluster, cutlass::KernelHardwareInfo const&,
                                        Arguments const& a, void* = nullptr, uint32_t = 1, uint32_t = 1) {
    Params p{};
    p.groups = a.groups;
    p.columns = uint32_t((int(cute::get<1>(shape)) + kColumns - 1) / kColumns);
    p.band = band_of<kClusterM>(a.max_swizzle_size);
    return p;
  }
  static bool can_implement(Arguments const&) { return true; }

  // As many clusters as run at once, but no more than there can be tiles.
  template <class Shape, class Tile, class Cluster>
  static dim3 get_grid_shape(Params const& p, Shape const&, Tile, Cluster, cutlass::KernelHardwareInfo const& hardware,
                             typename Base::Arguments const&, bool = true) {
    int64_t const fit = hardware.max_active_clusters > 0 ? hardware.max_active_clusters
                                                         : hardware.sm_count / (kClusterM * kClusterN);
    int64_t const filled = p.groups.rows < p.groups.count ? p.groups.rows : p.groups.count;
    int64_t const tiles = (p.groups.rows / kRows + filled) * p.columns;
    int64_t const clusters = tiles < 1 ? 1 : tiles < fit ? tiles : fit;
    return dim3(unsigned(clusters * kClusterM), unsigned(kClusterN), 1);
  }

  CUTLASS_DEVICE explicit GroupedScheduler(Params const& p) : params_(p) {
    cutlass::arch::wait_on_dependent_grids();  // which may write the ends
    look(0);
  }

  // All threads of a warp call it together.
  CUTLASS_DEVICE WorkTileInfo get_current_work() {
    while (next_ - before_ >= total_) {
      if (first_ + 32 >= params_.groups.count) return WorkTileInfo::invalid_work_tile();
      before_ += total_;
      look(first_ + 32);
    }
    uint32_t const within = next_ - before_;
    int const lane = __popc(__ballot_sync(~0u, upto_ <= within));  // of the group that holds the tile
    uint32_t const end = __shfl_sync(~0u, upto_, lane), rows = __shfl_sync(~0u, rows_, lane);
    uint32_t const tile = within - (end - rows * params_.columns);
    auto const [row, column] = in_bands(tile, rows, params_.columns, params_.band);
    auto const at = cute::block_id_in_cluster();
    return {int32_t(row * kClusterM + at.x), int32_t(column * kClusterN + at.y), int32_t(first_ + lane), true};
  }

 private:
  // Counts the tiles of 32 groups, one for each lane.
  CUTLASS_DEVICE void look(int first) {
    first_ = first;
    int const g = first + cutlass::canonical_lane_idx();
    rows_ = 0;
    if (g < params_.groups.count)
      rows_ = uint32_t((params_.groups.end(g) - params_.groups.begin(g) + kRows - 1) / kRows);
    upto_ = rows_ * params_.columns;
    CUTLASS_PRAGMA_UNROLL
    for (int lanes = 1; lanes < 32; lanes *= 2) {
      uint32_t const other = __shfl_up_sync(~0u, upto_, lanes);
      if (cutlass::canonical_lane_idx() >= lanes) upto_ += other;
    }
    total_ = __shfl_sync(~0u, upto_, 31);
  }

  Params const& params_;
  int first_ = 0;         // group of lane 0
  uint32_t before_ = 0;   // tiles of the groups before it
  uint32_t rows_ = 0;     // clusters along M of this lane's group
  uint32_t upto_ = 0;     // tiles up to the end of this lane's group
  uint32_t total_ = 0;    // tiles of the 32 groups
};

// ---- A --------------------------------------------------------------------------------------------------------

// A mainloop whose tiles of A begin where the group does.
template <class Base>
struct GroupedMainloop : Base {
  struct Arguments : Base::Arguments {
    Groups groups;
  };
  struct Params : Base::Params {
    Groups groups;
  };

  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& a, void* workspace) {
    return {Base::to_underlying_arguments(shape, a, workspace), a.groups};
  }

  template <class A, class B, class Coordinates, class KTiles, class... Rest>
  CUTLASS_DEVICE void load(Params const& params, typename Base::MainloopPipeline pipeline,
                           typename Base::PipelineState state, cute::tuple<A, B> const& inputs, Coordinates const& at,
                           KTiles k_tiles, int count, Rest&&... rest) {
    auto const& a = cute::get<0>(inputs);  // (rows of a tile, K of a tile, tiles along M, along K, groups)
    auto const begin = cute::make_coord(params.groups.begin(int(cute::get<3>(at))), 0, 0, 0, 0);
    auto const moved = cute::make_tensor(a.data() + a.layout()(begin), a.layout());
    Base::load(params, pipeline, state, cute::make_tuple(moved, cute::get<1>(inputs)), at, k_tiles, count,
               static_cast<Rest&&>(rest)...);
  }
};

// ---- D --------------------------------------------------------------------------------------------------------

// The rows of a group, for mucc/epilogue.cuh.
struct GroupRows {
  using Arguments = Groups;
  static constexpr bool kAll = false;
  int first, end;

  template <class Shape, class Coordinates>
  CUTLASS_DEVICE GroupRows(Arguments const& groups, Shape const&, Coordinates const& at, int tile) {
    int const g = int(cute::get<3>(at));
    first = groups.begin(g) + int(cute::get<0>(at)) * tile;
    end = groups.end(g);
  }
  // Whether so many rows from `row` on are all of the group and lie together.
  CUTLASS_DEVICE bool is_whole(int row, int count) const { return row + count <= end; }
  // Where a row is stored; negative for rows of other groups.
  CUTLASS_DEVICE int64_t of(Arguments const&, int row) const { return row < end ? row : -1; }
};

// Of those, the rows of an output that `to` names.
struct ScatteredRows : GroupRows {
  struct Arguments {
    Groups groups;
    int32_t const* to;
    int count;  // rows of the output
  };
  template <class Shape, class Coordinates>
  CUTLASS_DEVICE ScatteredRows(Arguments const& a, Shape const& shape, Coordinates const& at, int tile)
      : GroupRows(a.groups, shape, at, tile) {}
  CUTLASS_DEVICE bool is_whole(int, int) const { return false; }
  CUTLASS_DEVICE int64_t of(Arguments const& a, int row) const {
    if (row >= end) return -1;
    int const to = a.to[row];
    return 0 <= to && to < a.count ? to : -1;
  }
};

template <class TileShape, int kWarpgroups, class D, class Stride, class Body, class... Load>
using GroupedEpilogue = RowsEpilogue<GroupRows, TileShape, kWarpgroups, D, Stride, Body, Load...>;
template <class TileShape, int kWarpgroups, class D, class Stride, class Body, class... Load>
using ScatteredEpilogue = RowsEpilogue<ScatteredRows, TileShape, kWarpgroups, D, Stride, Body, Load...>;

}  // namespace mucc::gemm

namespace cutlass::gemm::kernel::detail {
template <class ArchTag, class TileShape, class ClusterShape, uint32_t kStages>
struct TileSchedulerSelector<mucc::gemm::GroupedTiles, ArchTag, TileShape, ClusterShape, kStages> {
  using Scheduler = mucc::gemm::GroupedScheduler<TileShape, ClusterShape>;
};
}  // namespace cutlass::gemm::kernel::detail
