// Where an accumulator of wgmma lies in registers, and where its elements go in a swizzled tile of shared memory.
// Numbers only, so that the host can check them.
#pragma once

#if defined(__CUDACC__)
#define MUCC_EVERYWHERE __host__ __device__ __forceinline__
#else
#define MUCC_EVERYWHERE inline
#endif

namespace mucc::fragment {

// wgmma m64nN: of each 64 x 8 block of the accumulator a thread of the warpgroup holds two pairs of neighbours in a
// row, eight rows apart. Register `2 * half + i` of block j is element
// (row(thread) + 8 * half, 8 * j + col(thread) + i).
MUCC_EVERYWHERE constexpr int row(int thread) { return thread / 32 * 16 + thread % 32 / 4; }
MUCC_EVERYWHERE constexpr int col(int thread) { return thread % 4 * 2; }

// The first of the four registers of the 64 x 8 block at (64 * m, c) of a warpgroup's accumulator, which holds
// `blocks_m` blocks along M and instructions of `mma_n` columns: registers run along an instruction, then M, then N.
MUCC_EVERYWHERE constexpr int index(int m, int c, int blocks_m, int mma_n) {
  return (c / mma_n * blocks_m + m) * (mma_n / 2) + c % mma_n / 8 * 4;
}

// The byte of (row, byte) of a tile whose rows are `width` bytes (32, 64 or 128) apart, swizzled as tensor maps of that
// width do it: rows that would meet in the banks exchange their 16-byte pieces.
MUCC_EVERYWHERE constexpr int swizzled(int row, int byte, int width) {
  return row * width + (byte ^ (row * width / 128 % (width / 16) * 16));
}

// The row and the byte of the 16 bytes that lane `lane` names to stmatrix.x4, which stores 16 x 16 elements of 16 bits
// of a warp: matrices (rows 0-7, columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15).
MUCC_EVERYWHERE constexpr int matrix_row(int lane) { return lane % 16; }
MUCC_EVERYWHERE constexpr int matrix_byte(int lane) { return lane / 16 * 16; }

// The same for stmatrix.x4.trans, which stores the columns of those matrices as rows: here rows count columns of the
// accumulator, and bytes its rows.
MUCC_EVERYWHERE constexpr int transposed_row(int lane) { return lane / 16 * 8 + lane % 8; }
MUCC_EVERYWHERE constexpr int transposed_byte(int lane) { return lane / 8 % 2 * 16; }

// What of a box of `width` columns from `column` on belongs to a range of `count` columns from `low` on: columns `first`
// to `end` of the box, none where those are equal. TMA stores it from column `at` of the range's matrix on, and leaves out
// what lies behind the matrix. Nothing may lie before it, so a box in which the range begins is stored by threads.
struct Share {
  int at, first, end;
  MUCC_EVERYWHERE constexpr bool is_any() const { return first < end; }
  MUCC_EVERYWHERE constexpr bool is_mapped() const { return first < end && at >= 0; }
};
MUCC_EVERYWHERE constexpr Share share(int column, int width, int low, int count) {
  int const at = column - low, first = at < 0 ? -at : 0, left = count - at;
  return {at, first, left < width ? left : width};
}

}  // namespace mucc::fragment
