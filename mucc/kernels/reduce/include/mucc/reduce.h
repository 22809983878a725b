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

// `results` (of columns, vectors of them) from `length` steps each. Where blocks share a result, each reduces `chunk`
// steps, of rows one round of loads after the other in turn with the others, and the last one to end combines the parts.
struct ReduceShape {
  int64_t results, length, chunk;
  int lanes;  // those that share a result, or those that have a column each
  Tickets tickets;
  float* partials;
};

}  // namespace mucc
