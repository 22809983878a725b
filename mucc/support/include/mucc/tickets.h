// Tickets are counters that the blocks of a launch share. They count the blocks that have ended of those that share a
// result, the last of which combines their parts, or the tiles that blocks have taken.
#pragma once

#include <mucc/view.h>

namespace mucc {

// `parts` blocks share each result.
struct Tickets {
  int slot;          // of the kernel's own tickets; -1 for `memory`
  int parts;
  unsigned* memory;  // 0 before the launch
};

// A kernel's own tickets are 0 when it is loaded and again whenever a launch has ended. Each memory for partial results
// has a slot of them: launches that may run at the same time have different memory.
inline constexpr int kTicketSlots = 32, kSlotTickets = 640;

}  // namespace mucc
