// The host side of grouped contractions.
#pragma once

#include <mucc/gemm_launch.h>
#include <mucc/grouped.cuh>

namespace mucc::gemm {

// Hands the groups to all that ask for them. The batches of the problem are the groups.
template <class Kernel>
void set_groups(Problem const& p, typename Kernel::Arguments& to) {
  Groups const groups{p.groups.as<int32_t const>(), p.batch, p.m};
  to.mainloop.groups = groups;
  to.scheduler.groups = groups;
  using Rows = decltype(to.epilogue.rows);
  if constexpr (std::is_same_v<Rows, Groups>)
    to.epilogue.rows = groups;
  else
    to.epilogue.rows = {groups, p.rows.as<int32_t const>(), p.row_count};
}

}  // namespace mucc::gemm
