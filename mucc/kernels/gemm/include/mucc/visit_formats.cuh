// Formats of accumulators and of results: what bodies take, how two neighbours of a result are
// rounded and packed, and their type in a tensor map.
#pragma once

#include <cuda.h>
#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/numeric_conversion.h>
#include <mucc/visit_loads.cuh>

namespace mucc::gemm {

// An accumulator as bodies take it. Integers of 32 bits are stored as they are: f32 only carries their bits through a
// body that does nothing.
template <class D>
CUTLASS_DEVICE float carried(float x) {
  return x;
}
template <class D>
CUTLASS_DEVICE float carried(int32_t x) {
  if constexpr (std::is_same_v<D, int32_t>)
    return __int_as_float(x);
  else
    return float(x);
}

template <class T>
struct Output;
template <>
struct Output<float> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
};
template <>
struct Output<cutlass::bfloat16_t> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  static CUTLASS_DEVICE uint32_t pack(Pair p) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(p.y), "f"(p.x));
    return both;
  }
};
template <>
struct Output<cutlass::half_t> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  static CUTLASS_DEVICE uint32_t pack(Pair p) {
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(p.y), "f"(p.x));
    return both;
  }
};

template <class T>
struct OutputFloat8 {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static CUTLASS_DEVICE uint16_t pack(Pair p) {
    uint16_t both;
    if constexpr (cute::is_same_v<T, cutlass::float_e4m3_t>) {
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(p.y), "f"(p.x));
    } else {
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(p.y), "f"(p.x));
    }
    return both;
  }
};
template <>
struct Output<cutlass::float_e4m3_t> : OutputFloat8<cutlass::float_e4m3_t> {};
template <>
struct Output<cutlass::float_e5m2_t> : OutputFloat8<cutlass::float_e5m2_t> {};

template <class T>
struct OutputInteger8 {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  static CUTLASS_DEVICE uint16_t pack(Pair p) {
    cutlass::NumericConverter<T, float> const narrow;
    return uint16_t(uint8_t(narrow(p.x)) | uint8_t(narrow(p.y)) << 8);
  }
};
template <>
struct Output<int8_t> : OutputInteger8<int8_t> {};
template <>
struct Output<uint8_t> : OutputInteger8<uint8_t> {};
template <>
struct Output<int32_t> {
  static constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_INT32;
};

}  // namespace mucc::gemm
