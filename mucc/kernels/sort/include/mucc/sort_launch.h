// The host side of sorts: which of a stage's kernels runs.
#pragma once

#include <mucc/pointwise.h>
#include <mucc/sort.h>

namespace mucc {

// Sorts along the last axis of a space. `codes` holds a kernel for each way, of single elements and where kVector is more
// than 1 of vectors.
template <class Op>
int launch_sort(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector) {
  int64_t rows = 1, length = extents.of[Op::kRank - 1];
  for (int a = 0; a < Op::kKept; ++a) rows *= extents.of[a];
  if (rows == 0 || length == 0) return 0;
  int way = 0;
  while (!Op::kWays[way].takes(length)) ++way;
  int const lanes = Op::kWays[way].lanes;
  int64_t const blocks = lanes ? blocks_of(rows, Op::kThreads / lanes) : rows;
  if (check_blocks(c, stage, blocks)) return 1;
  vector = vector && Op::kVector > 1 && length % Op::kVector == 0;
  void* parameters[] = {&op, &extents, &rows, &length};
  Geometry const geometry{{unsigned(blocks), 1, 1}, unsigned(Op::kThreads)};
  return start(c, stage, codes[way * (Op::kVector > 1 ? 2 : 1) + vector], geometry, parameters);
}

}  // namespace mucc
