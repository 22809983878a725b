// How a reduction is divided: what the host decides and the kernels of reduce.cuh follow.
#pragma once

#include <mucc/tickets.h>

namespace mucc {

// The steps whose loads a thread has in flight: of `v` elements of each of `streams` tensors, 16 bytes or fewer a load.
MUCC_BOTH constexpr int reduce_items(int v, int streams) {
  int const items = (v == 1 ? 16 : v <= 4 ? 8 : 4) / streams;
  return items < 2 ? 2 : items;
}

// The same where lanes of a warp share a row, which is short.
inline constexpr int kLaneItems = 4;

// Rows of at most so many steps are shared by lanes of a warp, and longer ones than `kMostByLanes` by a block; between them
// the number of rows decides.
inline constexpr int kLeastByBlock = 64, kMostByLanes = 8 * 32;

// Whether a launch may take a kernel of steps of `v` elements, with indices of 64 bits where `wide`; of rows, one where a
// block shares a row, or lanes.
template <class Op>
MUCC_BOTH constexpr bool may_reduce(bool by_block, int v, bool wide) {
  int64_t const results = known_product<Op>(0, Op::kKept), length = known_product<Op>(Op::kKept, Op::kRank);
  if (length == 0) return true;
  int64_t const most = results > length ? results : length;
  if (wide ? results != 0 && !may_be_wide(most) : !may_be_narrow(most)) return false;
  if (!Op::kRows) return true;
  if (v > 1 && !Op::kShifted && length % v != 0) return false;
  int64_t const steps = v == 1 ? length : Op::kShifted ? (length + 2 * v - 2) / v : length / v;
  return by_block ? steps > kLeastByBlock : steps <= kMostByLanes;
}

// `results` (of columns, vectors of them) from `length` steps each. Where blocks share a result, each reduces `chunk`
// steps, of rows one round of loads after the other in turn with the others, and the last one to end combines the parts.
struct ReduceShape {
  int64_t results, length, chunk;
  int lanes;  // those that share a result, or those that have a column each
  Tickets tickets;
  float* partials;
};

}  // namespace mucc
