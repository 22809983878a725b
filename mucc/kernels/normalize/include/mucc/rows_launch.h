// The host side of normalize kernels: which of a stage's kernels runs, and how many threads share a row.
#pragma once

#include <mucc/pointwise.h>
#include <mucc/rows.h>

namespace mucc {

struct RowPlan {
  RowShape shape;
  int64_t blocks;
  int code;
};

// Rows whose elements are neighbours. `codes` are those of single elements: lanes of a warp, a block, a block that loads
// again; then of vectors: a few lanes, a warp, a block with a short and a long part of the row in each thread, a
// block that loads again.
template <class Op>
RowPlan plan_rows(int64_t rows, int64_t length, int v) {
  bool const vector = v > 1;
  RowPlan plan{{uint32_t(rows), uint32_t(length), 32, Op::kThreads}, 0, 0};
  auto& shape = plan.shape;
  int const few = vector ? Op::kShort / v : Op::kFew, some = Op::kSome / v, many = Op::kMany / v;
  if (length <= 32 * few || (vector && length <= 32 * many)) {
    plan.code = vector ? 3 + (length > 32 * few) : 0;
    while (shape.lanes > 1 && shape.lanes / 2 * few >= length) shape.lanes /= 2;
    plan.blocks = blocks_of(rows, shape.threads / shape.lanes);
    return plan;
  }
  plan.blocks = rows;
  auto const threads = [&](int items) { return 32 * blocks_of(length, 32 * items); };
  bool const is_long = vector && length > 256 * some;
  int const items = is_long ? many : vector ? some : few;
  int64_t const most = is_long ? Op::kManyThreads : Op::kMostThreads;
  plan.code = vector ? 5 + is_long : 1;
  if (threads(items) <= most) {
    shape.threads = int(threads(items));
  } else {
    plan.code = vector ? 7 : 2;
    shape.threads = Op::kMostThreads;
  }
  shape.lanes = shape.threads;
  return plan;
}

// Rows that lie side by side. `codes` are those of single elements, then of vectors, where a thread has its part of a row
// in registers and where it loads again.
template <class Op>
RowPlan plan_columns(Call const& c, int64_t rows, int64_t length, int v) {
  RowPlan plan{{uint32_t(rows), uint32_t(length), 32, Op::kThreads}, 0, v > 1 ? 2 : 0};
  auto& shape = plan.shape;
  // Whole sectors of memory.
  int const least = v > 1 ? 2 : 8, items = v > 1 ? Op::kColumnItems : 16;
  auto const holds = [&] { return length <= int64_t(items) * (shape.threads / shape.lanes); };
  while (shape.lanes > least && (!holds() || blocks_of(rows, shape.lanes) < int64_t(c.sm_count))) shape.lanes /= 2;
  if (!holds()) {
    shape.lanes = 32;
    while (shape.lanes > 8 && blocks_of(rows, shape.lanes) < int64_t(c.sm_count)) shape.lanes /= 2;
    ++plan.code;
  }
  plan.blocks = blocks_of(rows, shape.lanes);
  return plan;
}

// Runs over a space whose last axes are reduced.
template <class Op>
int launch_rows(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector) {
  constexpr int kFast = Op::kInner ? Op::kRank - 1 : Op::kKept - 1;
  vector = vector && extents.of[kFast] % Op::kVector == 0;
  int const v = vector ? Op::kVector : 1;
  extents.of[kFast] /= v;
  int64_t rows = 1, length = 1;
  for (int a = 0; a < Op::kKept; ++a) rows *= extents.of[a];
  for (int a = Op::kKept; a < Op::kRank; ++a) length *= extents.of[a];
  if (rows == 0) return 0;
  if (length == 0) return fail("MU6007", "%s, stage %s: rows without elements", c.kernel->name, stage);
  RowPlan const plan = Op::kInner ? plan_rows<Op>(rows, length, v) : plan_columns<Op>(c, rows, length, v);
  if (plan.blocks > INT32_MAX || rows > UINT32_MAX || length > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  void* parameters[] = {&op, &extents, const_cast<RowShape*>(&plan.shape)};
  Geometry const geometry{{unsigned(plan.blocks), 1, 1}, unsigned(plan.shape.threads)};
  return start(c, stage, codes[plan.code], geometry, parameters);
}

}  // namespace mucc
