// How the rows of a sort kernel are sorted: what the compiler writes, the host chooses from and the kernels follow.
#pragma once

#include <mucc/view.h>

namespace mucc {

// A row is sorted by `lanes` threads with `items` elements each; none of either: its first elements are picked.
struct SortWay {
  int lanes, items;
  MUCC_BOTH constexpr bool takes(int64_t length) const { return lanes == 0 || length <= int64_t(lanes) * items; }
};

}  // namespace mucc
