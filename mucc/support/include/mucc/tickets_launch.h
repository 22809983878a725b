// The tickets of a launch.
#pragma once

#include <mucc/call.h>
#include <mucc/tickets.h>

#include <atomic>

namespace mucc {

// The slot of tickets for memory on a device; -1 where all are taken.
struct SlotsOfTickets {
  std::atomic<void*> of[kMaxDevices][kTicketSlots] = {};

  int find(int device, void* memory) {
    if (device < 0 || device >= kMaxDevices) return -1;
    for (int i = 0; i < kTicketSlots; ++i) {
      void* known = of[device][i].load(std::memory_order_relaxed);
      if (!known && of[device][i].compare_exchange_strong(known, memory)) return i;
      if (known == memory) return i;
    }
    return -1;
  }
};

// Tickets for `count` results, at the start of scratch memory: there are slots for each `Op`.
template <class Op>
int hand_out(Call const& c, Tickets& tickets, int64_t count, void* scratch) {
  static SlotsOfTickets slots;
  tickets.memory = static_cast<unsigned*>(scratch);
  tickets.slot = count <= kSlotTickets ? slots.find(c.device, scratch) : -1;
  return tickets.slot < 0 ? fill(c, static_cast<float*>(scratch), 0.0f, count) : 0;
}

}  // namespace mucc
