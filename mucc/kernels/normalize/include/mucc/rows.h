// How the rows of a kernel are divided: what the host decides and the kernels of rows.cuh follow.
#pragma once

#include <mucc/view.h>

namespace mucc {

// `rows` rows of `length` steps each. Where rows lie side by side, a step is one element of each of V rows, and `rows`
// counts groups of V rows. `lanes` threads share a row, or as many rows side by side are those of a warp's threads.
struct RowShape {
  uint32_t rows, length;
  int lanes, threads;
};

}  // namespace mucc
