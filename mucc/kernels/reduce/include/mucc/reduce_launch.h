// The host side of reductions: which of a stage's kernels runs, and how a result is shared.
#pragma once

#include <mucc/pointwise.h>
#include <mucc/reduce.h>
#include <mucc/tickets_launch.h>

namespace mucc {

struct ReducePlan {
  ReduceShape shape;
  int64_t blocks, tickets, words;  // of `partials`
  int code;                        // how a result is shared: which group of kernels
};

// Divides a reduction over the last axes of a space, `v` elements a step.
template <class Op>
ReducePlan plan_reduce(Call const& c, Extents<Op::kRank> extents, int v) {
  constexpr bool kAlike = is_reproducible<Op>;  // as if there were many results, however many there are
  int64_t& fast = extents.of[Op::kRows ? Op::kRank - 1 : Op::kKept - 1];
  fast = Op::kShifted && v > 1 ? (fast + 2 * v - 2) / v : fast / v;  // the most vectors that a shifted row meets
  int64_t results = 1, length = 1;
  for (int a = 0; a < Op::kKept; ++a) results *= extents.of[a];
  for (int a = Op::kKept; a < Op::kRank; ++a) length *= extents.of[a];
  ReducePlan plan{{results, length, length, 32, {-1, 1, nullptr}, nullptr}, 0, 0, 0, 0};
  if (results == 0 || length == 0) return plan;
  int& lanes = plan.shape.lanes;
  int64_t const processors = at_least(1, c.sm_count), items = reduce_items(v, Op::kStreams);
  int64_t side;  // steps that a block takes side by side
  if (Op::kRows) {
    bool const block =
        length > kMostByLanes || (length > kLeastByBlock && !kAlike && results < 16 * processors);
    plan.code = block;
    if (!block) {
      // So many loads a lane, unless that leaves processors idle.
      while (lanes > 1 && lanes / 2 * kLaneItems >= length) lanes /= 2;
      while (!kAlike && lanes < 32 && lanes < length && blocks_of(results * lanes, Op::kThreads) < 2 * processors) lanes *= 2;
      plan.blocks = blocks_of(results, Op::kThreads / lanes);
      return plan;
    }
    plan.blocks = results;
    side = Op::kThreads;
  } else {
    // Wide strips, unless that leaves lanes without a column, threads with few steps, processors idle because columns are
    // too short to be shared, or the last block of a strip with more than four parts for each group of threads.
    int const widest = v == 1 ? 256 : 64, least = v == 1 ? 32 : 8;
    bool const shared = length > 2 * items * (Op::kThreads / least);
    for (lanes = Op::kThreads; lanes > 1; lanes /= 2) {
      int64_t const strips = kAlike ? 128 * processors : blocks_of(results, lanes), groups = Op::kThreads / lanes;
      bool const many = lanes > widest || (shared ? blocks_of(16 * processors, strips) > 4 * groups : strips < 4 * processors);
      bool const narrows = lanes > least && many && groups * items < length;
      if ((kAlike || lanes / 2 < results) && !narrows) break;
    }
    plan.blocks = blocks_of(results, lanes);
    side = Op::kThreads / lanes;
  }
  // Blocks share a result where there are few, as long as each has two rounds of loads: with many short blocks no
  // processor waits long for the last ones.
  // Strips of long columns are shared anyway: short blocks end together.
  if (kAlike) return plan;
  bool const few = plan.blocks < 8 * processors;
  if (!few && Op::kRows) return plan;
  int64_t const wanted = blocks_of((!few ? 128 : Op::kRows ? 64 : 16) * processors, plan.blocks);
  int64_t const parts = at_most(wanted, length / ((few ? 2 : 16) * items * side));
  if (parts <= 1) return plan;
  plan.shape.chunk = blocks_of(length, parts);
  plan.shape.tickets.parts = int(Op::kRows ? parts : blocks_of(length, plan.shape.chunk));
  plan.tickets = plan.blocks;
  plan.blocks *= plan.shape.tickets.parts;
  plan.words = plan.blocks * Op::kWords * (Op::kRows ? 1 : lanes * v);
  return plan;
}

inline int64_t reduce_bytes(ReducePlan const& plan) { return aligned(4 * plan.tickets) + aligned(4 * plan.words); }

template <class Op>
int64_t reduce_scratch(Call const& c, Extents<Op::kRank> const& extents) {
  return at_least(reduce_bytes(plan_reduce<Op>(c, extents, 1)), reduce_bytes(plan_reduce<Op>(c, extents, Op::kVector)));
}

// Reduces over the last axes of a space. `codes` holds kernels of single elements, of vectors, and of single elements with
// indices of 64 bits, for each way to share a result: lanes of a warp, then blocks; only the latter where the innermost
// axis is kept.
template <class Op>
int launch_reduce(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                  void* scratch) {
  constexpr int kFast = Op::kRows ? Op::kRank - 1 : Op::kKept - 1;
  int64_t results = 1, length = 1;
  for (int a = 0; a < Op::kKept; ++a) results *= extents.of[a];
  for (int a = Op::kKept; a < Op::kRank; ++a) length *= extents.of[a];
  bool const wide = at_least(results, length) > INT32_MAX;
  // Where vectors lie along results, whether there can be any depends on how many results there are; so it does in rows of
  // odd lengths, where it decides where a row begins within a vector, too.
  if (is_reproducible<Op> && (!Op::kRows || Op::kShifted)) vector = false;
  // All that is read of a vector at the end of shifted rows is memory of the tensor.
  vector = vector && !wide && (Op::kShifted ? product(extents) : extents.of[kFast]) % Op::kVector == 0;
  ReducePlan plan = plan_reduce<Op>(c, extents, vector ? Op::kVector : 1);
  if (plan.blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  if (vector && !Op::kShifted) extents.of[kFast] /= Op::kVector;
  plan.shape.partials = reinterpret_cast<float*>(static_cast<char*>(scratch) + aligned(4 * plan.tickets));
  if (plan.tickets && hand_out<Op>(c, plan.shape.tickets, plan.tickets, scratch)) return 1;
  void* parameters[] = {&op, &extents, &plan.shape};
  Geometry const geometry{{unsigned(plan.blocks), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[3 * plan.code + (wide ? 2 : vector)], geometry, parameters);
}

}  // namespace mucc
