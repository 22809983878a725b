// The host side of pooling kernels.
#pragma once

#include <mucc/pointwise.h>
#include <mucc/pool.h>

namespace mucc {

// Plans windows along the last axis, of vectors of `v` columns.
template <class Op>
PoolShape plan_pool(Call const& c, Extents<Op::kRank> const& extents, int v) {
  constexpr int a = Op::kPooled - 1;
  int64_t const stride = Op::kStride[a], reach = int64_t(Op::kDilation[a]) * (Op::kSize[a] - 1) + 1;
  int const fold = pool_fold<Op>(v);
  int64_t const length = extents.of[Op::kRank - 1], rows = product(extents) / at_least(length, 1);
  // A part of a row begins anywhere within a vector.
  int64_t const most = (int64_t(Op::kTile) * fold - reach - 2 * (v - 1)) / stride + 1;
  int64_t const tiles = blocks_of(length, most), width = blocks_of(length, tiles);
  int64_t const slots = blocks_of((width - 1) * stride + reach + v - 1, v);
  int64_t const pitch = slots * v / fold;
  int64_t height = at_most(at_most(int64_t(Op::kMostRows), Op::kTile / pitch), rows);
  while (height > 1 && blocks_of(rows, height) * tiles < 4 * int64_t(c.sm_count)) height = (height + 1) / 2;
  return {rows, tiles, divisor(int(width)), divisor(int(slots)), int(height), int(pitch)};
}

// Pools with the last axis contiguous. `codes` are the kernels of single columns and of vectors.
template <class Op>
int launch_pool_rows(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                     Extents<Op::kPooled> source) {
  if (product(extents) == 0) return 0;
  vector = vector && source.of[Op::kPooled - 1] % Op::kVector == 0;
  PoolShape shape = plan_pool<Op>(c, extents, vector ? Op::kVector : 1);
  int64_t const blocks = blocks_of(shape.rows, shape.height) * shape.tiles;
  if (blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  void* parameters[] = {&op, &extents, &source, &shape};
  Geometry const geometry{{unsigned(blocks), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[vector], geometry, parameters);
}

// Pools with an axis contiguous that has no window. `codes` come by vectors and width of an index.
template <class Op>
int launch_pool_columns(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                        Extents<Op::kPooled> source) {
  if (product(extents) == 0) return 0;
  vector = vector && Op::kVector > 1 && extents.of[Op::kFast] % Op::kVector == 0;
  if (vector) extents.of[Op::kFast] /= Op::kVector;
  int64_t length = extents.of[Op::kSlide];
  extents.of[Op::kSlide] = blocks_of(length, Op::kRun);
  int64_t total = product(extents);
  bool const wide = total > INT32_MAX;
  auto narrow = uint32_t(total);
  void* parameters[] = {&op, &extents, &source, &length, wide ? static_cast<void*>(&total) : &narrow};
  Geometry const geometry{{unsigned(at_most(blocks_of(total, Op::kThreads), INT32_MAX)), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[kVector * vector + kWide * wide], geometry, parameters);
}

}  // namespace mucc
