// The host side of scans: which of a stage's kernels runs, and how a row is shared.
#pragma once

#include <mucc/pointwise.h>
#include <mucc/scan.h>

namespace mucc {

struct ScanPlan {
  ScanShape shape;
  int64_t blocks, words;  // of `status`
  int code;               // how a row is shared: which pair of kernels
};

// Plans a scan over the last axis of a space, `v` elements a step.
template <class Op>
ScanPlan plan_scan(Call const& c, Extents<Op::kRank> extents, int v) {
  extents.of[Op::kRows ? Op::kRank - 1 : Op::kKept - 1] /= v;
  int64_t rows = 1;
  for (int a = 0; a < Op::kKept; ++a) rows *= extents.of[a];
  int64_t const length = extents.of[Op::kRank - 1];
  ScanPlan plan{{rows, length, 1, 1, nullptr, 32}, 0, 0, 0};
  if (rows == 0 || length == 0) return plan;
  int const items = scan_items(v);
  int64_t tile = Op::kThreads * items, blocks = rows;
  if (!Op::kRows) {
    // Whole lines of memory, and narrow strips before blocks share columns: sharing takes longer.
    int& lanes = plan.shape.lanes;
    int const least = v > 1 ? 8 : 32;
    while (!is_reproducible<Op> && (lanes / 2 >= rows || (lanes > least && blocks_of(rows, lanes) < int64_t(c.sm_count)))) lanes /= 2;
    blocks = blocks_of(rows, lanes);
    tile /= lanes;
  }
  int64_t const chunks = blocks_of(length, tile);
  // Enough blocks hide the time that each waits for memory; where there are fewer, several share a row.
  int64_t const enough = Op::kRows ? 2 * int64_t(c.sm_count) : int64_t(c.sm_count) * 7 / 8;
  bool const split = !is_reproducible<Op> && chunks > 1 && blocks < enough;
  if (split) {
    plan.code = Op::kRows ? 4 : 1;
    plan.blocks = blocks * chunks;
    plan.shape.chunks = chunks;
    plan.shape.group = 8;
    while (plan.shape.group * plan.shape.group < chunks) plan.shape.group *= 2;
    plan.words = blocks * (chunks + blocks_of(chunks, plan.shape.group)) * (Op::kRows ? 1 : plan.shape.lanes * v);
  } else if (!Op::kRows) {
    plan.blocks = blocks;
  } else if (length <= 64) {
    while (plan.shape.lanes > 1 && plan.shape.lanes / 2 >= length) plan.shape.lanes /= 2;
    plan.blocks = blocks_of(rows, Op::kThreads / plan.shape.lanes);
  } else {
    plan.code = length <= 2 * Op::kThreads ? 1 : length <= 4 * Op::kThreads ? 2 : 3;
    plan.blocks = rows;
  }
  return plan;
}

template <class Op>
int64_t scan_scratch(Call const& c, Extents<Op::kRank> const& extents) {
  return aligned(8 * at_least(plan_scan<Op>(c, extents, 1).words, plan_scan<Op>(c, extents, Op::kVector).words));
}

// Scans along the last axis of a space. `codes` holds a pair of kernels, of single elements and of vectors, for each way
// to share a row: lanes of a warp, a block with 2 loads a thread, with 4, with all, several blocks; or for columns one
// block, several.
template <class Op>
int launch_scan(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                void* scratch) {
  if (is_reproducible<Op> && !Op::kRows) vector = false;
  vector = vector && extents.of[Op::kRows ? Op::kRank - 1 : Op::kKept - 1] % Op::kVector == 0;
  ScanPlan plan = plan_scan<Op>(c, extents, vector ? Op::kVector : 1);
  if (plan.blocks == 0 || plan.shape.length == 0) return 0;
  if (plan.blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  if (!Op::kRows && vector) extents.of[Op::kKept - 1] /= Op::kVector;
  plan.shape.status = static_cast<unsigned long long*>(scratch);
  if (plan.words && fill(c, static_cast<float*>(scratch), 0.0f, 2 * plan.words)) return 1;
  void* parameters[] = {&op, &extents, &plan.shape};
  Geometry const geometry{{unsigned(plan.blocks), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[2 * plan.code + vector], geometry, parameters);
}

}  // namespace mucc
