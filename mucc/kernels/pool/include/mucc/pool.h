// How pooling is divided: what the host decides and the kernels of pool.cuh follow.
#pragma once

#include <mucc/view.h>

namespace mucc {

// Divides small numbers by one that is known to the host: i / by, where i * by < 2^32.
struct Divisor {
  uint64_t magic;
  int by;
};
MUCC_BOTH constexpr Divisor divisor(int by) { return {(uint64_t(1) << 32) / uint64_t(by) + 1, by}; }
MUCC_BOTH constexpr int operator/(int i, Divisor const& d) { return int(uint64_t(unsigned(i)) * d.magic >> 32); }

MUCC_BOTH constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }

// How many neighbouring columns of V become one before they are shared: those that every window has all of, or none.
template <class Op>
MUCC_BOTH constexpr int pool_fold(int v) {
  constexpr int a = Op::kPooled - 1;
  if (Op::kDilation[a] != 1) return 1;
  return common_divisor(common_divisor(v, Op::kSize[a]), common_divisor(Op::kStride[a], Op::kPad[a]));
}

// How many lanes at each side of a warp read what windows of the others reach, where lanes that read one column each exchange what
// they read: windows have as many places along a row as the row has columns. Else 0.
template <class Op>
MUCC_BOTH constexpr int pool_beside(int v) {
  constexpr int a = Op::kPooled - 1;
  bool const keeps = Op::kStride[a] == 1 && 2 * Op::kPad[a] == Op::kDilation[a] * (Op::kSize[a] - 1);
  return v == 1 && keeps && Op::kPad[a] <= 4 ? Op::kPad[a] : 0;
}

// Blocks have `height` rows of results, and of each row one of `tiles` parts of `width` results. `slots` vectors of the
// source are read for a part, the first tap `ahead` columns into the first of them; in shared memory they are `pitch`
// floats. Results of a row are computed by `lanes` threads.
struct PoolShape {
  int64_t rows, tiles;
  Divisor slots, lanes;
  int width, height, pitch, ahead;
};

// Strips of neighbouring results: the rows and columns of results of a plane. With `warps`, the 32 strips of a warp are
// neighbours along one row.
struct PoolStrips {
  int64_t rows, columns;
  bool warps;
};

}  // namespace mucc
