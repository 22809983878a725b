// Where an epilogue stores a tile: tensor maps of results, and which rows and columns of them a tile has.
#pragma once

#include <cuda.h>
#include <cute/tensor.hpp>
#include <cutlass/cuda_host_adapter.hpp>
#include <cutlass/cutlass.h>

namespace mucc::gemm {

// A tensor map with the method that CUTLASS's have.
struct TensorMap {
  CUtensorMap map;
  CUTLASS_HOST_DEVICE CUtensorMap const* get_tma_descriptor() const { return &map; }
};

// The map of a matrix (batches, M, N), N contiguous, rows `ld` elements apart, stored in boxes of box_m x box_n. All zeros
// where the driver refuses.
inline TensorMap map_of(CUtensorMapDataType type, int size, void const* data, int M, int N, int batches, int64_t ld,
                        int64_t batch, int box_m, int box_n) {
  TensorMap made{};
  if (batches == 1) batch = ld * M;  // any legal stride
  cuuint64_t const extents[] = {cuuint64_t(N), cuuint64_t(M), cuuint64_t(batches)};
  cuuint64_t const strides[] = {cuuint64_t(ld * size), cuuint64_t(batch * size)};
  cuuint32_t const box[] = {cuuint32_t(box_n), cuuint32_t(box_m), 1}, steps[] = {1, 1, 1};
  int const width = box_n * size;
  auto const swizzle = width == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                       : width == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                       : width == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                     : CU_TENSOR_MAP_SWIZZLE_NONE;
  CUresult const result = CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeTiled)(
      &made.map, type, 3, const_cast<void*>(data), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? made : TensorMap{};
}

// Which rows of D the output tiles cover: here, those of the matrix from the first to the last.
struct AllRows {
  struct Arguments {};
  static constexpr bool kAll = true;
  int first, end;  // of the tile, and of the rows that may be stored

  template <class Shape, class Coordinates>
  CUTLASS_DEVICE AllRows(Arguments const&, Shape const& shape, Coordinates const& at, int tile)
      : first(int(cute::get<0>(at)) * tile), end(int(cute::get<0>(shape))) {}
};

// The same where columns of the product are stored to several matrices: to each a range of them.
template <int kCount>
struct ColumnRanges : AllRows {
  static constexpr int kRanges = kCount;
  struct Range {
    void* data;
    int64_t row, batch;
    int low, count;
  };
  struct Arguments {
    Range range[kCount];
  };

  template <class Shape, class Coordinates>
  CUTLASS_DEVICE ColumnRanges(Arguments const&, Shape const& shape, Coordinates const& at, int tile)
      : AllRows({}, shape, at, tile) {}
};
template <class Rows, class = void>
inline constexpr int ranges_of = 0;
template <class Rows>
inline constexpr int ranges_of<Rows, std::void_t<decltype(Rows::kRanges)>> = Rows::kRanges;

}  // namespace mucc::gemm
