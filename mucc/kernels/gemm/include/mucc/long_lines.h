// Tensor maps that CUTLASS makes, of matrices with long lines: L2 fetches 256 bytes at a time. It comes before CUTLASS's
// headers, which ask for 128 bytes.
//
// A step of a mainloop reads 128 bytes of each line, and the next step the 128 bytes behind them. DRAM opens a page for each
// line: with 256 bytes half as often. A product of 128 rows with weights of 4.3 GB in f32 takes 1.415 ms on an H100 instead
// of 1.510 ms (1.00 instead of 0.94 of a copy's bandwidth), and 1.07 GB 0.361 ms instead of 0.379 ms.
#pragma once

#include <cuda.h>
#include <cutlass/cuda_host_adapter.hpp>

namespace mucc::gemm {

// Bytes from which a line is long: so much is read of it that what is fetched behind its end does not count.
constexpr cuuint64_t kLongLine = 1024;

inline int bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 4;
  }
}

inline CUresult encode_cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* data,
                                              cuuint64_t const* extents, cuuint64_t const* strides, cuuint32_t const* box,
                                              cuuint32_t const* steps, CUtensorMapInterleave interleave,
                                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                              CUtensorMapFloatOOBfill fill) {
  if (extents[0] * bytes_of(type) >= kLongLine) promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  return cutlass::call_cuTensorMapEncodeTiled(map, type, rank, data, extents, strides, box, steps, interleave, swizzle,
                                              promotion, fill);
}
template <class... Arguments>
CUresult encode_cuTensorMapEncodeIm2col(Arguments... arguments) {
  return cutlass::call_cuTensorMapEncodeIm2col(arguments...);
}

}  // namespace mucc::gemm

#undef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#define CUTLASS_CUDA_DRIVER_WRAPPER_CALL(function) mucc::gemm::encode_##function
