// Which kernel of map.cuh runs over a space.
#pragma once

#include <mucc/view.h>

namespace mucc {

// Whether a launch may take the kernel of vectors of `v` elements, with indices of 64 bits where `wide`.
template <class Op>
MUCC_BOTH constexpr bool may_map(int v, bool wide) {
  int64_t const elements = known_product<Op>(0, Op::kRank);
  return (wide ? may_be_wide(elements) : may_be_narrow(elements)) && Op::kKnown[Op::kRank - 1] % v == 0;
}

}  // namespace mucc
