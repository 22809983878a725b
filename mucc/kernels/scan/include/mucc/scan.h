// How a scan is divided: what the host decides and the kernels of scan.cuh follow.
#pragma once

#include <mucc/view.h>

namespace mucc {

// The loads that a thread has in flight: 32 elements, or 16 where it loads one by one.
MUCC_BOTH constexpr int scan_items(int v) { return v == 1 ? 16 : 32 / v; }

// Rows (or columns) of `length` steps. Where blocks share a row, each scans a chunk of it; chunks are summed up in groups
// of `group`, and `status` has a word for each chunk and each group, of columns one for each.
struct ScanShape {
  int64_t rows, length;
  int64_t chunks, group;
  unsigned long long* status;
  int lanes;  // of a warp: those that share a row, or those that have a column each
};

}  // namespace mucc
