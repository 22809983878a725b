// CUTLASS kernels: the epilogue nodes that CUTLASS has in another form. The header of the kernel itself,
// cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized*.hpp, comes after this one.
#pragma once

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder_decl.hpp>
#include <cutlass/gemm/collective/collective_mma_decl.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized.hpp>
#include <cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp>
#include <cutlass/gemm/collective/builders/sm90_gmma_builder.inl>
#include <cutlass/gemm/kernel/gemm_universal_decl.h>
#include <cutlass/gemm/kernel/tile_scheduler.hpp>
#include <mucc/epilogue.cuh>
#include <mucc/gemm_code.cuh>
#include <mucc/pair.cuh>

namespace mucc::gemm {

namespace fusion = cutlass::epilogue::fusion;

inline constexpr auto kNearest = cutlass::FloatRoundStyle::round_to_nearest;

// A number of stages. The builder of mainloops with A in registers reads the number from `bytes`.
template <int N>
struct Stages : cutlass::gemm::collective::StageCount<N> {
  static constexpr int bytes = N;
};

// ---- pointwise work -------------------------------------------------------------------------------------

// Applies a body to each element of the fragments that a visitor hands over.
template <class Body>
struct Each {
  template <class Fragment>
  struct Function {
    template <class... Inputs>
    CUTLASS_DEVICE Fragment operator()(Inputs const&... inputs) const {
      Fragment result;
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Fragment::kElements; ++i) result[i] = apply<Body>(inputs[i]...);
      return result;
    }
  };
};
template <class Body, class Output = float>
using Compute = fusion::Sm90Compute<Each<Body>::template Function, Output, float, kNearest>;

struct Identity {
  static MUCC_DEVICE float apply(float x) { return x; }
};

// Passes on sums of integers, which a body would see as floats.
template <class Fragment>
struct Same {
  CUTLASS_DEVICE Fragment operator()(Fragment const& x) const { return x; }
};
using Exact = fusion::Sm90Compute<Same, int32_t, int32_t, kNearest>;

// A visitor over sums of integers that computes in floats. CUTLASS would take the type of the sums for what it reads
// of C and for what a visitor ends in, and so cut off what lies behind the point. `Aux` is the type of elements of the
// epilogue's shared memory where no D is stored.
template <class Tree, class Aux = void>
struct InFloats : Tree {
  using ElementAux = Aux;
  using Tree::Tree;
};

// ---- further matrices -----------------------------------------------------------------------------------

// How an epilogue cuts its tile up, and how many pieces it has under way.
template <class TileShape, class ElementC, class ElementD, class Schedule, class EpilogueTile>
using Tiles =
    cutlass::epilogue::collective::detail::EpilogueDescriptor<TileShape, EpilogueTile, ElementC, ElementD, Schedule>;

// How a further matrix lies in shared memory on its way; other GPUs have specialisations.
template <class Tiles, class Stride, class Element>
struct AuxLoadParts : cutlass::epilogue::collective::detail::AuxLoadDescriptor<Tiles, Stride, Element> {};
template <class Tiles, class Stride, class Element>
struct AuxStoreParts : cutlass::epilogue::collective::detail::AuxStoreDescriptor<Tiles, Stride, Element> {};

template <class Tiles, class Element, class Stride, class D = AuxLoadParts<Tiles, Stride, Element>>
using AuxLoad = fusion::Sm90AuxLoad<D::Stages, typename D::EpilogueTile, Element, typename D::Stride,
                                    typename D::SmemLayoutAtom, typename D::CopyOpS2R>;

template <class Tiles, class Element, class Stride, class D = AuxStoreParts<Tiles, Stride, Element>>
using AuxStore = fusion::Sm90AuxStore<D::Stages, typename D::EpilogueTile, Element, kNearest, typename D::Stride,
                                      typename D::SmemLayoutAtom, typename D::CopyOpR2S>;

// ---- reductions -----------------------------------------------------------------------------------------

// The steps of a reduction as CUTLASS's nodes call them: per element, between lanes, on memory.
template <class Reduction, class T>
struct Atomic {
  CUTLASS_DEVICE void operator()(T* p, T x) const { Reduction::atomic(p, x); }
};
template <class Reduction>
struct Steps {
  template <class T>
  struct Element {
    CUTLASS_DEVICE T operator()(T const& a, T const& b) const { return Reduction::combine(a, Reduction::first(b)); }
  };
  template <class Fragment>
  struct Lanes {
    CUTLASS_DEVICE Fragment operator()(Fragment const& a, Fragment const& b) const {
      Fragment result;
      CUTLASS_PRAGMA_UNROLL
      for (int i = 0; i < Fragment::kElements; ++i) result[i] = Reduction::combine(a[i], b[i]);
      return result;
    }
  };
  template <class T>
  using Memory = Atomic<Reduction, T>;
};

}  // namespace mucc::gemm

namespace cutlass {
template <class Reduction, class T>
struct is_atomic<mucc::gemm::Atomic<Reduction, T>> : platform::true_type {};
}  // namespace cutlass

namespace mucc::gemm {

// A reduction node that expects its output to be filled with the identity already: CUTLASS's own filling links
// against the CUDA driver.
template <class Node>
struct Filled : Node {
  using Node::Node;
  template <class ProblemShape>
  static cutlass::Status initialize_workspace(ProblemShape const&, typename Node::Arguments const&, void*, cudaStream_t,
                                              cutlass::CudaHostAdapter* = nullptr) {
    return cutlass::Status::kSuccess;
  }
};

// Over M, into a vector along N.
template <class Reduction, class TileShape, class Stride>
using RowReduction =
    Filled<fusion::Sm90RowReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Lanes,
                                    Steps<Reduction>::template Memory, 0, TileShape, float, float, kNearest, Stride>>;

// Over N, into a vector along M.
template <class Reduction, class TileShape, class Stride>
using ColReduction =
    Filled<fusion::Sm90ColReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Lanes,
                                    Steps<Reduction>::template Memory, 0, TileShape, float, float, kNearest, Stride>>;

// Over M and N, into one number. CUTLASS's node has every thread go to memory; here a warp combines first.
template <class Reduction, class Stride>
struct ScalarReduction
    : Filled<fusion::Sm90ScalarReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Memory, float,
                                         float, kNearest, Stride>> {
  using Base = fusion::Sm90ScalarReduction<Steps<Reduction>::template Element, Steps<Reduction>::template Memory,
                                           float, float, kNearest, Stride>;
  using Filled<Base>::Filled;

  template <class Coordinates, class Residue>
  struct Callbacks : Base::template ConsumerStoreCallbacks<Coordinates, Residue> {
    using Parent = typename Base::template ConsumerStoreCallbacks<Coordinates, Residue>;
    using Parent::Parent;
    CUTLASS_DEVICE void end() {
      CUTLASS_PRAGMA_UNROLL
      for (int lanes = 16; lanes > 0; lanes /= 2)
        this->scalar = Reduction::combine(this->scalar, __shfl_xor_sync(~0u, this->scalar, lanes));
      if (cutlass::canonical_lane_idx() == 0) Parent::end();
    }
  };

  template <bool ReferenceSrc, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(fusion::detail::ConsumerStoreArgs<Args...> const& args) {
    return Callbacks<decltype(args.tCcD), decltype(args.residue_tCcD)>(cute::get<3>(args.tile_coord_mnkl), args.tCcD,
                                                                       args.residue_tCcD, this->params);
  }
};

}  // namespace mucc::gemm

template <class Tree, class Aux>
struct cutlass::epilogue::fusion::FusionCallbacksTraits<mucc::gemm::InFloats<Tree, Aux>> {
  using DispatchPolicy = void;
  using Callbacks = mucc::gemm::InFloats<Tree, Aux>;
  using Operation = FusionOperation;
  using CtaTile_MNK = void;
  using EpilogueTile_MN = void;
  using ElementCompute = float;
};
