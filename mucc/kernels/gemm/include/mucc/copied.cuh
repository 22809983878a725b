// Contractions whose A is copied by threads, with cp.async, in the place of TMA: rows picked by number, or rows that are
// no multiples of 16 bytes. B comes by TMA.
//
// CUTLASS's kernels have a fourth loading warp for mainloops that ask for one (scales of 8-bit floats do). That warp,
// and the one that starts TMA's copies, write A to where TMA would have, and each of their lanes arrives at the barrier
// of a stage once its copies are done. cp.async writes as threads do, but wgmma reads as TMA does: those who have waited
// for a stage fence between both.
#pragma once

#include <mucc/grouped.cuh>

namespace mucc::gemm {

// CUTLASS's policy of a mainloop, with the loads of a warp.
template <class Base>
struct WithCopies : Base {};

}  // namespace mucc::gemm

namespace cutlass::gemm::kernel::detail {
template <class Base>
struct HasAuxiliaryLoad<mucc::gemm::WithCopies<Base>> : cute::true_type {};
}  // namespace cutlass::gemm::kernel::detail

namespace mucc::gemm {

// Rows of A by number. Without numbers they lie one after the other.
struct Picked {
  int32_t const* rows = nullptr;
  int count = 0;  // rows that there are to pick from
};

// A copy of the first `wanted` of kBytes bytes to shared memory, and zeros for the others: what lies behind the end of a
// row may be NaN, and NaN times the zeros of B is NaN.
template <int kBytes>
CUTLASS_DEVICE void copy_or_clear(uint32_t to, uint64_t from, int wanted) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(wanted)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(wanted)
                 : "memory");
}

// `kBytes` are copied at a time; rows of A begin at multiples of that and end anywhere. `kGrouped` says that rows of A lie in
// groups, as in GroupedMainloop.
template <int kBytes, bool kGrouped, class Base>
struct CopiedMainloop : Base {
  using typename Base::ElementA;
  using typename Base::ElementB;
  using typename Base::GmemTiledCopyB;
  using typename Base::MainloopPipeline;
  using typename Base::PipelineState;
  using typename Base::SmemLayoutA;
  using typename Base::SmemLayoutB;
  using typename Base::TensorStorage;
  using typename Base::TiledMma;
  using typename Base::TileShape;
  using ClusterShape = typename Base::DispatchPolicy::ClusterShape;
  using DispatchPolicy = WithCopies<typename Base::DispatchPolicy>;
  static constexpr int NumProducerThreadEvents = 1 + 2 * cutlass::NumThreadsPerWarp;  // one for TMA, and the lanes

  static constexpr int kM = cute::size<0>(TileShape{}), kK = cute::size<2>(TileShape{});
  static constexpr int kSize = int(sizeof(ElementA)), kSpan = 128;  // bytes of an element, and that are swizzled
  static constexpr int kStageBytes = kM * kK * kSize, kSpans = kK * kSize / kSpan;
  static constexpr int kLanes = kSpan / kBytes;    // lanes that copy a span of a row
  static constexpr int kRows = 32 / kLanes;        // rows that a warp copies at a time
  static constexpr int kPhases = 8 / kRows;        // after so many copies the swizzle repeats
  static constexpr int kBatch = 8;                 // copies whose rows are looked up together
  static_assert(cute::is_same_v<typename Base::SmemLayoutAtomA, cute::GMMA::Layout_K_SW128_Atom<ElementA>>);
  static constexpr int kOwn = kM / 2;              // rows of a tile that one warp copies
  static constexpr bool kAll = kOwn / kRows <= 16;  // whether a lane knows where all rows lie that it copies
  static constexpr int kKnown = kAll ? kOwn / kRows : kOwn / 32;
  static_assert(kOwn % 32 == 0 && kK * kSize % kSpan == 0);

  struct Arguments : Base::Arguments {
    Groups groups;
    Picked picked;
  };
  struct Params {
    typename Base::Params::TMA_B tma_load_b;
    uint32_t tma_transaction_bytes;
    uint32_t pitch;  // from one row of A to the next, in copies
    char const* a;
    int64_t batch;  // bytes from one batch of A to the next
    int m, k_bytes;
    Groups groups;
    Picked picked;
  };

  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& args, void*) {
    using namespace cute;
    auto const b = make_tensor(reinterpret_cast<typename Base::InternalElementB const*>(args.ptr_B),
                               make_layout(make_shape(get<1>(shape), get<2>(shape), get<3>(shape)), args.dB));
    return {make_tma_copy_B_sm90(GmemTiledCopyB{}, b, SmemLayoutB{}(_, _, Int<0>{}), TileShape{}, ClusterShape{}),
            Base::TmaTransactionBytesNK,
            uint32_t(int64_t(get<0>(args.dA)) * kSize / kBytes),
            reinterpret_cast<char const*>(args.ptr_A),
            int64_t(get<2>(args.dA)) * kSize,
            int(get<0>(shape)),
            int(depth_of(shape)),
            args.groups,
            args.picked};
  }
  // Bytes of a row of A that are copied.
  template <class Shape>
  static int64_t depth_of(Shape const& shape) {
    return int64_t(cute::get<2>(shape)) * kSize;
  }
  // Whether rows of A lie where their copies can be counted, and suit them.
  template <class Shape>
  static bool reaches(Shape const& shape, Arguments const& args) {
    int64_t const pitch = int64_t(cute::get<0>(args.dA)) * kSize, depth = depth_of(shape);
    int64_t const rows = args.picked.rows ? args.picked.count : int64_t(cute::get<0>(shape));
    return pitch % kBytes == 0 && depth <= INT32_MAX - kSpan && pitch / kBytes * rows <= INT32_MAX;
  }
  template <class Shape>
  static bool can_implement(Shape const& shape, Arguments const&) {
    return cutlass::detail::check_alignment<16 / int(sizeof(ElementB))>(
        cute::make_shape(cute::get<1>(shape), cute::get<2>(shape), cute::get<3>(shape)), typename Base::StrideB{});
  }

  CUTLASS_DEVICE static void prefetch_tma_descriptors(Params const& params) {
    cute::prefetch_tma_descriptor(params.tma_load_b.get_tma_descriptor());
  }

  // Of A the kernels want to know only how many tiles there are.
  template <class Shape>
  CUTLASS_DEVICE auto load_init(Shape const& shape, Params const& params) const {
    using namespace cute;
    auto const [M, N, K, L] = shape;
    auto const every = make_coord(_, _, _);
    return make_tuple(
        local_tile(make_identity_tensor(make_shape(M, K, L)), TileShape{}, every, cute::Step<_1, Underscore, _1>{}),
        local_tile(params.tma_load_b.get_tma_tensor(make_shape(N, K, L)), TileShape{}, every,
                   cute::Step<Underscore, _1, _1>{}));
  }

  // B and the first half of A's rows, by the warp that has TMA copy; the other half, by a warp for that.
  template <class Inputs, class Coordinates, class KTiles>
  CUTLASS_DEVICE void load(Params const& params, MainloopPipeline pipeline, PipelineState state, Inputs const& inputs,
                           Coordinates const& at, KTiles k_tiles, int count, int lane, uint32_t rank,
                           TensorStorage& shared) {
    using namespace cute;
    constexpr int kAlongM = size<0>(ClusterShape{});
    auto const copier = params.tma_load_b.get_slice(rank % kAlongM);
    auto const from = copier.partition_S(get<1>(inputs)(_, _, get<1>(at), _, get<3>(at)));
    auto const to = copier.partition_D(make_tensor(make_smem_ptr(shared.smem_B.data()), SmemLayoutB{}));
    uint16_t mask = 0;
    if constexpr (is_same_v<GmemTiledCopyB, SM90_TMA_LOAD_MULTICAST>) {
      auto const blocks = cute::Layout<ClusterShape>{};
      for (int m = 0; m < kAlongM; ++m) mask |= uint16_t(1) << blocks(m, int(rank) / kAlongM, Int<0>{});
    }
    load_rows<0>(params, pipeline, state, at, k_tiles, count, lane, shared, [&](PipelineState s, int k_tile) {
      if (elect_one_sync())
        copy(params.tma_load_b.with(*pipeline.producer_get_barrier(s), mask), from(_, _, _, k_tile),
             to(_, _, _, s.index()));
    });
  }
  template <class Inputs, class Coordinates, class KTiles>
  CUTLASS_DEVICE void load_auxiliary(Params const& params, MainloopPipeline pipeline, PipelineState state,
                                     Inputs const&, Coordinates const& at, KTiles k_tiles, int count, int lane,
                                     uint32_t, TensorStorage& shared) {
    cutlass::arch::wait_on_dependent_grids();
    load_rows<kOwn>(params, pipeline, state, at, k_tiles, count, lane, shared, [](PipelineState, int) {});
  }

  template <class Sums>
  CUTLASS_DEVICE void mma(MainloopPipeline pipeline, PipelineState state, Sums& sums, int count, int thread,
                          TensorStorage& shared, Params const&) {
    using namespace cute;
    TiledMma multiply;
    auto const group = multiply.get_slice(__shfl_sync(~0u, thread / cutlass::NumThreadsPerWarpGroup, 0) *
                                          cutlass::NumThreadsPerWarpGroup);
    auto const left = group.make_fragment_A(
        group.partition_A(make_tensor(make_smem_ptr(shared.smem_A.data()), SmemLayoutA{})));
    auto const right = group.make_fragment_B(
        group.partition_B(make_tensor(make_smem_ptr(shared.smem_B.data()), SmemLayoutB{})));
    multiply.accumulate_ = GMMA::ScaleOut::Zero;
    auto step = [&] {
      pipeline.consumer_wait(state);
      cutlass::arch::fence_view_async_shared();
      warpgroup_fence_operand(sums);
      warpgroup_arrive();
      CUTLASS_PRAGMA_UNROLL
      for (int block = 0; block < size<2>(left); ++block) {
        cute::gemm(multiply, left(_, _, block, state.index()), right(_, _, block, state.index()), sums);
        multiply.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
      ++state;
    };
    PipelineState done = state;
    step();
    CUTLASS_PRAGMA_NO_UNROLL
    for (int left_over = count - 1; left_over > 0; --left_over) {
      step();
      warpgroup_wait<1>();  // all but the last are done
      warpgroup_fence_operand(sums);
      pipeline.consumer_release(done);
      ++done;
    }
    warpgroup_fence_operand(sums);
  }

 private:
  // A warp's rows of the tiles, from kFirst on; `further` starts what else there is to copy for a stage.
  template <int kFirst, class Coordinates, class KTiles, class Further>
  CUTLASS_DEVICE static void load_rows(Params const& params, MainloopPipeline pipeline, PipelineState state,
                                       Coordinates const& at, KTiles k_tiles, int count, int lane,
                                       TensorStorage& shared, Further const& further) {
    // Where the rows lie, counted in copies; -1 where there is none. A lane knows them all where it copies few, and
    // else one of 32: of those that it copies itself and the lanes beside it do, so that neighbours exchange them.
    int first = int(cute::get<0>(at)) * kM + kFirst, end = params.m;
    if constexpr (kGrouped) {
      first += params.groups.begin(int(cute::get<3>(at)));
      end = params.groups.end(int(cute::get<3>(at)));
    }
    int rows[kKnown];
    CUTLASS_PRAGMA_UNROLL
    for (int i = 0; i < kKnown; ++i) {
      int row = first + lane / kLanes + (kAll ? i * kRows : i * 32 + lane % kLanes * kRows);
      bool there = row < end;
      if (params.picked.rows) {
        if (there) row = params.picked.rows[row];
        there = there && uint32_t(row) < uint32_t(params.picked.count);
      }
      rows[i] = there ? row * int(params.pitch) : -1;
    }

    int const byte = lane % kLanes * kBytes;
    char const* const a = params.a + (kGrouped ? 0 : params.batch * int(cute::get<3>(at))) + byte;
    uint32_t const own =
        cute::cast_smem_ptr_to_uint(shared.smem_A.data()) + (kFirst + lane / kLanes) * kSpan + byte;
    CUTLASS_PRAGMA_NO_UNROLL
    for (; count > 0; --count, ++k_tiles, ++state) {
      pipeline.producer_acquire(state);
      further(state, *k_tiles);
      CUTLASS_PRAGMA_UNROLL
      for (int span = 0; span < kSpans; ++span) {
        int const along = (int(*k_tiles) * kSpans + span) * kSpan;
        int const wanted = cute::max(0, cute::min(kBytes, params.k_bytes - along - byte));
        auto from = reinterpret_cast<uint64_t>(a + along);
        asm volatile("" : "+l"(from));  // one multiplication and addition for each copy, not two additions more
        uint32_t to[kPhases];  // addresses are swizzled as they are, wherever a stage begins
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < kPhases; ++i) {
          uint32_t const plain = own + state.index() * kStageBytes + (span * kM + i * kRows) * kSpan;
          to[i] = plain ^ (plain >> 3 & 0x70);
        }
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < kOwn / kRows; i += kBatch) {
          int row[kBatch];  // several, so that their exchanges overlap
          CUTLASS_PRAGMA_UNROLL
          for (int j = 0; j < kBatch; ++j) {
            if constexpr (kAll)
              row[j] = rows[i + j];
            else
              row[j] = __shfl_sync(~0u, rows[(i + j) / kLanes], (i + j) % kLanes, kLanes);
          }
          CUTLASS_PRAGMA_UNROLL
          for (int j = 0; j < kBatch; ++j)
            copy_or_clear<kBytes>(to[(i + j) % kPhases] + (i + j) / kPhases * (8 * kSpan),
                                  from + int64_t(row[j]) * kBytes, row[j] >= 0 ? wanted : 0);
        }
      }
      pipeline.producer_commit(state, cutlass::arch::cpasync_barrier_arrive_noinc);
    }
    __syncwarp();
  }
};

}  // namespace mucc::gemm
