// The host side of contractions whose A is copied by threads.
#pragma once

#include <mucc/long_lines.h>
// It replaces a call in CUTLASS's headers, which these include:
#include <mucc/copied.cuh>
#include <mucc/grouped_launch.h>

namespace mucc::gemm {

// Which rows of A are multiplied.
template <class Kernel>
void set_picked(Problem const& p, typename Kernel::Arguments& to) {
  to.mainloop.picked = {p.picked.as<int32_t const>(), p.picked_count};
}

}  // namespace mucc::gemm
