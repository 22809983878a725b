// Lists of problems in one launch, each with a shape and with matrices of its own. They lie in the kernel's parameters:
// a tensor map for each matrix, made by the host as for a problem alone, so that nothing is prepared on the device and no
// tensor map changes.
//
// CUTLASS's cooperative kernel and collectives do the work. What they know as batches are the problems: classes derived
// from the collectives hand on the parameters of the problem that a tile belongs to, and a tile scheduler of our own
// walks through the tiles of one problem after the other.
#pragma once

#include <mucc/gemm.cuh>
#include <mucc/grouped.cuh>

namespace mucc::gemm {

inline constexpr int kMostListed = 32;  // problems in one launch: a lane of a warp looks after each

// How many of them have room: a kernel has 32764 bytes of parameters.
constexpr int most_listed(int bytes, int size) {
  return bytes / size < kMostListed ? bytes / size : kMostListed;
}
inline constexpr int kMainloopBytes = 18432, kEpilogueBytes = 11776;

// ---- tiles ----------------------------------------------------------------------------------------------------

struct ListTiles {};  // the tag by which kernels ask for the scheduler

// A problem as the scheduler sees it, in clusters of tiles.
struct Listed {
  uint32_t rows, columns;
  uint32_t upto;  // tiles of this problem and those before it
  int k_tiles;
};

template <class TileShape, class ClusterShape>
class ListScheduler : public ClusterWalk<ListScheduler<TileShape, ClusterShape>, cute::size<0>(ClusterShape{})> {
  using Base = ClusterWalk<ListScheduler, cute::size<0>(ClusterShape{})>;
  using Base::next_;

 public:
  static constexpr int kClusterM = cute::size<0>(ClusterShape{}), kClusterN = cute::size<1>(ClusterShape{});

  struct WorkTileInfo : Base::WorkTileInfo {
    int k_tiles = 0;
    CUTLASS_DEVICE static WorkTileInfo invalid_work_tile() { return {{-1, -1, -1, false}, 0}; }
  };
  using Arguments = typename Base::Arguments;
  struct Params : Base::Params {
    Listed of[kMostListed];
    int count;
    uint32_t band;  // clusters along M
  };

  // The host fills in the rest.
  template <class Shape, class Tile, class Cluster>
  static Params to_underlying_arguments(Shape const&, Tile, Cluster, cutlass::KernelHardwareInfo const&,
                                        Arguments const& a, void* = nullptr, uint32_t = 1, uint32_t = 1) {
    Params p{};
    p.band = band_of<kClusterM>(a.max_swizzle_size);
    return p;
  }
  static bool can_implement(Arguments const&) { return true; }

  // Adds a problem of (m, n, k).
  static void add(Params& p, int m, int n, int k) {
    auto tiles = [](int extent, int of) { return uint32_t((int64_t(extent) + of - 1) / of); };
    Listed& made = p.of[p.count];
    made.rows = tiles(m, cute::size<0>(TileShape{}) * kClusterM);
    made.columns = tiles(n, cute::size(cute::front(cute::get<1>(TileShape{}))) * kClusterN);
    made.k_tiles = int(tiles(k, cute::size<2>(TileShape{})));
    made.upto = made.rows * made.columns + (p.count > 0 ? p.of[p.count - 1].upto : 0);
    ++p.count;
  }
  // As many clusters as run at once, but no more than there are tiles.
  static dim3 grid(Params const& p, cutlass::KernelHardwareInfo const& hardware) {
    uint32_t const fit = uint32_t(hardware.max_active_clusters > 0 ? hardware.max_active_clusters
                                                                   : hardware.sm_count / (kClusterM * kClusterN));
    uint32_t const tiles = p.of[p.count - 1].upto;
    return dim3((tiles < fit ? tiles : fit) * kClusterM, kClusterN, 1);
  }

  CUTLASS_DEVICE explicit ListScheduler(Params const& p) : params_(p) {
    int const lane = cutlass::canonical_lane_idx();
    upto_ = p.of[lane < p.count ? lane : p.count - 1].upto;
  }

  // All threads of a warp call it together.
  CUTLASS_DEVICE WorkTileInfo get_current_work() {
    int const g = __popc(__ballot_sync(~0u, upto_ <= next_));  // the problem that holds the tile
    if (g >= params_.count) return WorkTileInfo::invalid_work_tile();
    Listed const& p = params_.of[g];
    auto const [row, column] = in_bands(next_ - (p.upto - p.rows * p.columns), p.rows, p.columns, params_.band);
    auto const at = cute::block_id_in_cluster();
    return {{int32_t(row * kClusterM + at.x), int32_t(column * kClusterN + at.y), g, true}, p.k_tiles};
  }

  template <class Shape, class Tile>
  CUTLASS_DEVICE static int get_work_k_tile_count(WorkTileInfo const& work, Shape const&, Tile const&) {
    return work.k_tiles;
  }

 private:
  Params const& params_;
  uint32_t upto_;         // of this lane's problem
};

// ---- operands -------------------------------------------------------------------------------------------------

template <class Base>
struct ListMainloop : Base {
  using Single = Base;
  static constexpr int kMost = most_listed(kMainloopBytes, sizeof(typename Base::Params));
  struct Params : Base::Params {
    typename Base::Params of[kMost];
  };

  // The shape is the largest extents of all problems; the host fills in the rest.
  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, typename Base::Arguments const& a, void* workspace) {
    return {Base::to_underlying_arguments(shape, a, workspace), {}};
  }
  CUTLASS_DEVICE static void prefetch_tma_descriptors(Params const& params) {
    Base::prefetch_tma_descriptors(params.of[0]);
  }

  template <class Inputs, class Coordinates, class KTiles, class... Rest>
  CUTLASS_DEVICE void load(Params const& params, typename Base::MainloopPipeline pipeline,
                           typename Base::PipelineState state, Inputs const& inputs, Coordinates const& at,
                           KTiles k_tiles, int count, Rest&&... rest) {
    auto const here = cute::make_coord(cute::get<0>(at), cute::get<1>(at), cute::get<2>(at), 0);
    Base::load(params.of[int(cute::get<3>(at))], pipeline, state, inputs, here, k_tiles, count,
               static_cast<Rest&&>(rest)...);
  }
};

// ---- results --------------------------------------------------------------------------------------------------

template <class Base>
class ListEpilogue : public Base {
 public:
  using Single = Base;
  struct One : Base::Params {
    int m, n;
  };
  static constexpr int kMost = most_listed(kEpilogueBytes, sizeof(One));
  struct Params : Base::Params {
    One of[kMost];
  };

  // The host fills in the rest.
  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, typename Base::Arguments const& a, void* workspace) {
    return {Base::to_underlying_arguments(shape, a, workspace), {}};
  }
  CUTLASS_DEVICE static void prefetch_tma_descriptors(Params const& params) {
    Base::prefetch_tma_descriptors(params.of[0]);
  }

  CUTLASS_DEVICE ListEpilogue(Params const& params, typename Base::TensorStorage& storage)
      : Base(params, storage), all_(params) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class Shape, class Tile,
            class Coordinates, class Accumulators, class Mma>
  CUTLASS_DEVICE typename Base::States store(LoadPipeline const& load, LoadState load_state,
                                             StorePipeline const& store, StoreState store_state, Shape const&,
                                             Tile const& tile, Coordinates const& at, Accumulators& accumulators,
                                             Mma const& mma, int thread, typename Base::TensorStorage& storage,
                                             int only = -1) {
    One const& own = all_.of[int(cute::get<3>(at))];
    auto const here = cute::make_coord(cute::get<0>(at), cute::get<1>(at), cute::get<2>(at), 0);
    return Base(own, storage)
        .store(load, load_state, store, store_state, cute::make_shape(own.m, own.n, 1, 1), tile, here, accumulators, mma,
               thread, storage, only);
  }

 private:
  Params const& all_;
};

}  // namespace mucc::gemm

namespace cutlass::gemm::kernel::detail {
template <class ArchTag, class TileShape, class ClusterShape, uint32_t kStages>
struct TileSchedulerSelector<mucc::gemm::ListTiles, ArchTag, TileShape, ClusterShape, kStages> {
  using Scheduler = mucc::gemm::ListScheduler<TileShape, ClusterShape>;
};
}  // namespace cutlass::gemm::kernel::detail
