// The host side of pooling kernels.
#pragma once

#include <mucc/pointwise.h>
#include <mucc/pool.h>

namespace mucc {

// How many threads share a row of results: those that leave the fewest of a block idle, with few results each.
constexpr int pool_lanes(int width, int threads) {
  int best = threads;
  double used = 0;
  for (int each = int(blocks_of(width, threads)), more = 0; more < 4; ++each, ++more) {
    int const lanes = int(blocks_of(width, each));
    double const share = double(threads / lanes) * width / each / threads;
    if (share > used + 0.02) best = lanes, used = share;
  }
  return best;
}

// Plans windows along the last axis, of vectors of `v` columns.
template <class Op>
PoolShape plan_pool(Call const& c, Extents<Op::kRank> const& extents, int v) {
  constexpr int a = Op::kPooled - 1;
  int64_t const stride = Op::kStride[a], reach = int64_t(Op::kDilation[a]) * (Op::kSize[a] - 1) + 1;
  int64_t const fold = pool_fold<Op>(v), ahead = (v - Op::kPad[a] % v) % v;
  int64_t const length = extents.of[Op::kRank - 1], rows = product(extents) / length;
  int64_t const most = (Op::kTile * fold - reach - ahead - (v - 1)) / stride + 1;
  int64_t const tiles = blocks_of(length, most / v * v);
  // Parts of a row begin at the same place within a vector.
  int64_t const width = tiles == 1 ? length : blocks_of(blocks_of(length, tiles), v) * v;
  int64_t const slots = blocks_of(ahead + (width - 1) * stride + reach, v), pitch = slots * v / fold;
  int64_t height = at_most(at_most(int64_t(Op::kMostRows), Op::kTile / pitch), rows);
  while (height > 1 && blocks_of(rows, height) * tiles < 4 * int64_t(c.sm_count)) height = (height + 1) / 2;
  return {rows,       tiles,       divisor(int(slots)), divisor(pool_lanes(int(width), Op::kThreads)),
          int(width), int(height), int(pitch),          int(ahead)};
}

// Pools with the last axis contiguous. `codes` are the kernels of single columns and of vectors.
template <class Op>
int launch_pool_rows(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                     Extents<Op::kPooled> source) {
  if (product(extents) == 0) return 0;
  vector = vector && source.of[Op::kPooled - 1] % Op::kVector == 0;
  PoolShape shape = plan_pool<Op>(c, extents, vector ? Op::kVector : 1);
  int64_t const blocks = blocks_of(shape.rows, shape.height) * shape.tiles;
  if (check_blocks(c, stage, blocks)) return 1;
  void* parameters[] = {&op, &extents, &source, &shape};
  Geometry const geometry{{unsigned(blocks), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[vector], geometry, parameters);
}

// Pools with the last axis contiguous and small windows. `codes` come by vectors and width of an index.
template <class Op>
int launch_pool_strips(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                       Extents<Op::kPooled> source) {
  if (product(extents) == 0) return 0;
  constexpr int kLast = Op::kRank - 1;
  vector = vector && Op::kVector > 1 && source.of[Op::kPooled - 1] % Op::kVector == 0;
  vector = vector && (Op::kLoose || extents.of[kLast] % Op::kOutputs == 0);
  PoolStrips shape{Op::kPooled > 1 ? extents.of[kLast - 1] : 1, extents.of[kLast], false};
  if (vector) {
    int64_t const strips = blocks_of(extents.of[kLast], Op::kOutputs), whole = blocks_of(strips, 32) * 32;
    shape.warps = Op::kLoose && 4 * (whole - strips) <= strips;
    extents.of[kLast] = shape.warps ? whole : strips;
  }
  if (Op::kPooled > 1) extents.of[kLast - 1] = blocks_of(extents.of[kLast - 1], Op::kRun);
  int64_t total = product(extents), widest = 0;
  for (int64_t extent : source.of) widest = at_least(widest, extent);
  bool const wide = at_least(total, widest) > INT32_MAX / 2;
  int const beside = pool_beside<Op>(vector ? Op::kVector : 1);
  int64_t const blocks = blocks_of(total, Op::kThreads - Op::kThreads / 32 * 2 * beside);
  if (check_blocks(c, stage, blocks)) return 1;
  auto narrow = uint32_t(total);
  void* parameters[] = {&op, &extents, &source, &shape, wide ? static_cast<void*>(&total) : &narrow};
  Geometry const geometry{{unsigned(blocks), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[kVector * vector + kWide * wide], geometry, parameters);
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
