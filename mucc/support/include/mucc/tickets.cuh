// Tickets on the device.
#pragma once

#include <mucc/tickets.h>
#include <mucc/view.cuh>

namespace mucc {

#if defined(__CUDACC__)
#define MUCC_IN_MEMORY __device__
#else
#define MUCC_IN_MEMORY
#endif

// A kernel's own tickets.
template <class Work>
MUCC_IN_MEMORY unsigned own_tickets[kTicketSlots * kSlotTickets];

// The address of a ticket.
template <class Work>
MUCC_DEVICE unsigned* ticket_of(Tickets const& tickets, unsigned index) {
  return (tickets.slot < 0 ? tickets.memory : own_tickets<Work> + tickets.slot * kSlotTickets) + index;
}

// Counts a ticket up, from `most` on to 0 again; returns what it was. What this thread wrote before is seen by those that
// count it up later.
template <class Work>
MUCC_DEVICE unsigned take_ticket(Tickets const& tickets, unsigned index, unsigned most) {
  unsigned* const ticket = ticket_of<Work>(tickets, index);
  unsigned before = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(ticket), "r"(most) : "memory");
#else
  before = *ticket;
  *ticket = before >= most ? 0 : before + 1;
#endif
  return before;
}

// The same without any order of memory: the thread waits where it uses the answer.
template <class Work>
MUCC_DEVICE unsigned claim_ticket(Tickets const& tickets, unsigned index, unsigned most) {
  unsigned* const ticket = ticket_of<Work>(tickets, index);
  unsigned before = 0;
#if defined(__CUDA_ARCH__)
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(ticket), "r"(most));
#else
  before = *ticket;
  *ticket = before >= most ? 0 : before + 1;
#endif
  return before;
}

// Says that this block has written its partial results; whether all others that share the result have, too. All threads
// of a block call it. The last one leaves the ticket as the first one found it.
template <class Work>
MUCC_DEVICE bool ends_last(Tickets const& tickets, unsigned result) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned const most = unsigned(tickets.parts) - 1;
    last = take_ticket<Work>(tickets, result, most) == most;
  }
  __syncthreads();
  return last;
}

}  // namespace mucc
