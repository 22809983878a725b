// CUTLASS kernels for Blackwell: products by tcgen05 into tensor memory. Comes after mucc/gemm.cuh, in the place where
// kernels of other GPUs have the header of their kernel.
#pragma once

#include <cutlass/gemm/collective/sm100_mma_warpspecialized.hpp>
#include <cutlass/gemm/collective/builders/sm100_umma_builder.inl>
#include <cutlass/gemm/kernel/sm100_gemm_tma_warpspecialized.hpp>

// The instruction takes signed and unsigned operands of 8 bits in any combination, each with a format of its own in the
// descriptor. CUTLASS's builder asks for two operands of one type.
namespace cutlass::gemm::collective::detail {
template <>
constexpr bool check_input_datatypes<int8_t, uint8_t>() {
  return true;
}
template <>
constexpr bool check_input_datatypes<uint8_t, int8_t>() {
  return true;
}
}  // namespace cutlass::gemm::collective::detail

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

// What a visitor made of a fragment, rounded to whatever type it is assigned to: an epilogue asks for the result's
// type where it stores registers directly, and for f32 where it does not.
template <class Fragment>
struct Rounding {
  Fragment value;
  template <class T, int N, bool kRegisters>
  CUTLASS_DEVICE operator cutlass::Array<T, N, kRegisters>() const {
    return cutlass::NumericArrayConverter<T, typename Fragment::Element, N>{}(value);
  }
};

// An epilogue's visitor whose results are rounded so.
template <class Visitor>
struct Rounded : Visitor {
  using Visitor::Visitor;

  template <class Parent>
  struct Callbacks : Parent {
    CUTLASS_DEVICE explicit Callbacks(Parent const& parent) : Parent(parent) {}
    template <class Fragment>
    CUTLASS_DEVICE auto visit(Fragment const& accumulators, int v, int m, int n) {
      auto const value = Parent::visit(accumulators, v, m, n);
      return Rounding<std::remove_const_t<decltype(value)>>{value};
    }
  };

  template <bool ReferenceSrc, class... Args>
  CUTLASS_DEVICE auto get_consumer_store_callbacks(fusion::detail::ConsumerStoreArgs<Args...> const& args) {
    auto callbacks = Visitor::template get_consumer_store_callbacks<ReferenceSrc>(args);
    return Callbacks<decltype(callbacks)>(callbacks);
  }
};

}  // namespace mucc::gemm
