// Contractions of weights of 4 or 8 bits with 16-bit activations. The weights are A: they lie in shared memory as they do
// in global memory, go to registers, become 16-bit floats there, minus zeros and times scales, and are multiplied from there.
//
// CUTLASS's mainloop for mixed operands copies the tiles; its arithmetic is replaced. That knows scales that are contiguous
// across groups only, wants (w * s + z) with what is rounded in between, and groups of whole tiles. Here scales and zeros lie
// as they like: a thread reads those of its rows from global memory, a tile ahead.
#pragma once

#include <mucc/gemm.cuh>
#include <mucc/view.h>

#include <cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized_mixed_input.hpp>
#if defined(__CUDACC__)
#include <mucc/narrow.cuh>
#endif

namespace mucc::gemm {

// Scales, or zeros, of groups along K: one for each row of the weights and each group.
template <class T>
struct PerGroup {
  T const* data = nullptr;
  int64_t row = 0, group = 0;  // strides

  CUTLASS_DEVICE T at(int r, int g) const { return data[r * row + g * group]; }
};
template <>
struct PerGroup<void> {};

// mucc's types for CUTLASS's.
template <class T>
struct OwnOf {
  using Type = T;
};
template <>
struct OwnOf<cutlass::bfloat16_t> {
  using Type = bf16;
};
template <>
struct OwnOf<cutlass::half_t> {
  using Type = f16;
};
template <>
struct OwnOf<cutlass::float_e4m3_t> {
  using Type = e4m3;
};
template <>
struct OwnOf<cutlass::float_e5m2_t> {
  using Type = e5m2;
};
template <>
struct OwnOf<cutlass::int4b_t> {
  using Type = s4;
};
template <>
struct OwnOf<cutlass::uint4b_t> {
  using Type = u4;
};

// `Scale` and `Zero` are the types of scales and zeros, void where there are none. `kGroup` elements along K share them.
template <int kGroup, class Scale, class Zero, class Base>
struct MixedMainloop : Base {
  using typename Base::MainloopPipeline;
  using typename Base::PipelineState;
  using typename Base::SmemLayoutA;
  using typename Base::SmemLayoutB;
  using typename Base::TiledMma;
  using typename Base::TileShape;
  using Narrow = typename OwnOf<typename Base::ElementA>::Type;
  using Wide = typename OwnOf<typename Base::ElementB>::Type;
  static constexpr bool kScaled = !cute::is_void_v<Scale>, kShifted = !cute::is_void_v<Zero>;
  static constexpr int kK = cute::size<2>(TileShape{});
  static constexpr int kGroups = kScaled && kGroup < kK ? kK / kGroup : 1;  // in a tile
  static constexpr int kInstruction = 16;                                   // elements along K
  static_assert(Base::IsATransformed && sizeof(Wide) == 2);
  static_assert(!kScaled || ((kGroup % kK == 0 || kK % kGroup == 0) && kGroup % kInstruction == 0));

  struct Arguments : Base::Arguments {
    PerGroup<Scale> scales;
    PerGroup<Zero> zeros;
  };
  struct Params : Base::Params {
    PerGroup<Scale> scales;
    PerGroup<Zero> zeros;
    int rows, groups;
  };

  // Where the first tile of a stage lies: along M, along K. The loading warp tells the others.
  struct alignas(8) Where {
    int m, k;
  };
  struct SharedStorage {
    struct TensorStorage : Base::TensorStorage {
      Where where[Base::DispatchPolicy::Stages];
    } tensors;
    using PipelineStorage = typename Base::PipelineStorage;
    PipelineStorage pipeline;
  };
  using TensorStorage = typename SharedStorage::TensorStorage;

  template <class Shape>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& a, void* workspace) {
    Params p{Base::to_underlying_arguments(shape, a, workspace), a.scales, a.zeros, int(cute::get<0>(shape)), 0};
    if constexpr (kScaled) {
      p.groups = (int(cute::get<2>(shape)) + kGroup - 1) / kGroup;
      p.tma_transaction_bytes += uint32_t(sizeof(Where));
    }
    return p;
  }

  // Writes a stage's place to shared memory, as one more of the copies that the stage waits for.
  template <class Barrier>
  static CUTLASS_DEVICE void tell(Where* to, Barrier* barrier, int m, int k) {
#if defined(__CUDA_ARCH__)
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [%0], {%1, %2}, [%3];" ::"r"(
            cute::cast_smem_ptr_to_uint(to)),
        "r"(m), "r"(k), "r"(cute::cast_smem_ptr_to_uint(barrier))
        : "memory");
#endif
  }

  template <class Inputs, class Coordinates, class KTiles>
  CUTLASS_DEVICE void load(Params const& params, MainloopPipeline pipeline, PipelineState state, Inputs const& inputs,
                           Coordinates const& at, KTiles k_tiles, int count, int thread, uint32_t rank,
                           TensorStorage& shared) {
    if constexpr (!kScaled) {
      Base::load(params, pipeline, state, inputs, at, k_tiles, count, thread, rank, shared);
    } else {
      CUTLASS_PRAGMA_NO_UNROLL
      for (; count > 0; --count, ++k_tiles, ++state) {
        Base::load(params, pipeline, state, inputs, at, k_tiles, 1, thread, rank, shared);
        if (cute::elect_one_sync())
          tell(&shared.where[state.index()], pipeline.producer_get_barrier(state), int(cute::get<0>(at)),
               int(cute::crd2idx(*k_tiles, cute::shape<3>(cute::get<0>(inputs)))));
      }
    }
  }

#if defined(__CUDACC__)
  template <class Sums>
  CUTLASS_DEVICE void mma(MainloopPipeline pipeline, PipelineState state, Sums& sums, int count, int thread,
                          TensorStorage& shared, Params const& params) {
    using namespace cute;
    auto const a = as_position_independent_swizzle_tensor(
        make_tensor(make_smem_ptr(shared.smem_A.begin()), SmemLayoutA{}));           // (M, K, stages)
    auto const b = make_tensor(make_smem_ptr(shared.smem_B.begin()), SmemLayoutB{});  // (N, K, stages)
    TiledMma multiply;
    auto const mine = multiply.get_thread_slice(thread);
    auto const group = multiply.get_slice(__shfl_sync(~0u, thread / cutlass::NumThreadsPerWarpGroup, 0) *
                                          cutlass::NumThreadsPerWarpGroup);
    auto const from = mine.partition_A(a);  // ((2 along K, 2 rows, 2 along K), atoms along M, along K, stages)
    auto const right = group.make_fragment_B(group.partition_B(b));
    auto wide = mine.partition_fragment_A(a(_, _, Int<0>{}));
    auto narrow = make_fragment_like<typename Base::RealSwappedElementA>(wide);
    auto const copy_a = make_tiled_copy_A(typename Base::SwappedSmemCopyAtomA{}, multiply);
    auto const to = copy_a.get_thread_slice(thread % cutlass::NumThreadsPerWarpGroup).retile_D(narrow);
    auto const place = mine.partition_A(make_identity_tensor(make_shape(size<0>(TileShape{}), size<2>(TileShape{}))));

    constexpr int kBlocks = size<2>(decltype(wide){}), kRows = 2 * size<1>(decltype(wide){});
    constexpr int kAhead = kBlocks > 8 ? 7 : kBlocks - 1;  // instructions that may be under way
    using Raw = uint_bit_t<2 * sizeof_bits_v<typename Base::RealSwappedElementA>>;

    // Scales and zeros of a thread's rows, of this tile and of the next one.
    constexpr int kScales = kScaled ? kGroups * kRows : 1, kZeros = kShifted ? kGroups * kRows : 1;
    uint32_t scale[kScales] = {}, zero[kZeros] = {}, next_scale[kScales] = {}, next_zero[kZeros] = {};
    [[maybe_unused]] int first_row = 0, k_tile = 0;
    auto fetch = [&](int tile) {
      if constexpr (kScaled) {
        CUTLASS_PRAGMA_UNROLL
        for (int i = 0; i < kRows; ++i) {
          int const row = first_row + int(get<0>(place(make_coord(0, i % 2, 0), i / 2, 0)));
          CUTLASS_PRAGMA_UNROLL
          for (int j = 0; j < kGroups; ++j) {
            int const column = kGroup < kK ? tile * kGroups + j : tile / (kGroup < kK ? 1 : kGroup / kK);
            bool const inside = row < params.rows && column < params.groups;
            next_scale[i * kGroups + j] = 0;
            if (inside) next_scale[i * kGroups + j] = both<Wide>(params.scales.at(row, column));
            if constexpr (kShifted) {
              next_zero[i * kGroups + j] = 0;
              if (inside) next_zero[i * kGroups + j] = both<Wide>(params.zeros.at(row, column));
            }
          }
        }
      }
    };

    PipelineState done = state;
    multiply.accumulate_ = GMMA::ScaleOut::Zero;
    auto token = pipeline.consumer_try_wait(state);
    // One tile; `left` are those that follow.
    auto step = [&](auto is_first, int left) {
      pipeline.consumer_wait(state, token);
      int const stage = state.index();
      ++state;
      token = pipeline.consumer_try_wait(state, left == 0);
      CUTLASS_PRAGMA_UNROLL
      for (int block = 0; block < kBlocks; ++block) copy(copy_a, from(_, _, block, stage), to(_, _, block));
      if constexpr (kScaled) {
        if constexpr (is_first) {
          Where const where = shared.where[stage];
          first_row = where.m * size<0>(TileShape{});
          k_tile = where.k;
          fetch(k_tile);
        }
        CUTLASS_PRAGMA_UNROLL
        for (int j = 0; j < kScales; ++j) scale[j] = next_scale[j];
        CUTLASS_PRAGMA_UNROLL
        for (int j = 0; j < kZeros; ++j) zero[j] = next_zero[j];
        fetch(++k_tile);
      }
      warpgroup_fence_operand(sums);
      CUTLASS_PRAGMA_UNROLL
      for (int block = 0; block < kBlocks; ++block) {
        auto const raw = recast<Raw>(narrow(_, _, block));
        auto const pairs = recast<uint32_t>(wide(_, _, block));
        static_assert(size(decltype(raw){}) == size(decltype(pairs){}));
        CUTLASS_PRAGMA_UNROLL
        for (int j = 0; j < size(pairs); ++j) {  // over rows, along K, over atoms
          uint32_t x = Widen<Narrow, Wide>::pair(uint32_t(raw(j)));
          [[maybe_unused]] int const own = (j % 2 + j / 4 * 2) * kGroups + block * kGroups / kBlocks;
          if constexpr (kShifted) x = minus<Wide>(x, zero[own]);
          if constexpr (kScaled) x = times<Wide>(x, scale[own]);
          pairs(j) = x;
        }
        warpgroup_arrive();
        cute::gemm(multiply, wide(_, _, block), right(_, _, block, stage), sums);
        multiply.accumulate_ = GMMA::ScaleOut::One;
        warpgroup_commit_batch();
        // The registers of the next block are free then. ptxas wants to see it here, or lets nothing run at once.
        warpgroup_wait<kAhead>();
        if constexpr (!is_first) {
          if (block == kBlocks - 2) {
            pipeline.consumer_release(done);  // all of the tile before has been multiplied
            ++done;
          }
        }
      }
      warpgroup_fence_operand(sums);
    };
    step(cute::true_type{}, count - 1);
    CUTLASS_PRAGMA_NO_UNROLL
    for (int left = count - 2; left >= 0; --left) step(cute::false_type{}, left);
  }
#endif
};

}  // namespace mucc::gemm
