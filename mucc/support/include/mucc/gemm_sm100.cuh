// CUTLASS kernels for Blackwell: products by tcgen05 into tensor memory. Comes after mucc/gemm.cuh, in the place where
// kernels of other GPUs have the header of their kernel.
#pragma once

#include <cutlass/gemm/collective/sm100_mma_warpspecialized.hpp>
#include <cutlass/gemm/collective/builders/sm100_umma_builder.inl>
#include <cutlass/gemm/kernel/sm100_gemm_tma_warpspecialized.hpp>

namespace mucc::gemm {

// How an epilogue cuts its tile up, and how many pieces it has under way. `MmaShape` is the tile of one or two blocks
// that a matrix instruction works on together.
template <class MmaShape, class ElementC, class StrideC, class ElementD, class StrideD, class Schedule>
using Sm100Tiles = cutlass::epilogue::collective::detail::Sm100EpilogueDescriptor<
    cutlass::arch::OpClassTensorOp, MmaShape, cutlass::epilogue::collective::EpilogueTileAuto, float, ElementC, ElementD,
    Schedule, StrideC, StrideD, false, false>;

template <class MmaShape, class C, class StrideC, class D, class StrideD, class Schedule, class Stride, class Element>
struct AuxLoadParts<Sm100Tiles<MmaShape, C, StrideC, D, StrideD, Schedule>, Stride, Element>
    : cutlass::epilogue::collective::detail::Sm100AuxLoadDescriptor<
          Sm100Tiles<MmaShape, C, StrideC, D, StrideD, Schedule>, Stride, Element> {};

template <class MmaShape, class C, class StrideC, class D, class StrideD, class Schedule, class Stride, class Element>
struct AuxStoreParts<Sm100Tiles<MmaShape, C, StrideC, D, StrideD, Schedule>, Stride, Element>
    : cutlass::epilogue::collective::detail::Sm100AuxStoreDescriptor<
          Sm100Tiles<MmaShape, C, StrideC, D, StrideD, Schedule>, Stride, Element> {};

}  // namespace mucc::gemm
