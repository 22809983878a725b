// The threads of a launch as coroutines, and how they meet.
#pragma once

#include "on_host_memory.h"

#include <setjmp.h>
#include <ucontext.h>

namespace on_host {

inline ucontext_t scheduler, contexts[kMost];
inline jmp_buf scheduled, paused[kMost];  // no system call is made to switch between them
inline bool started[kMost], ended[kMost];
inline uint64_t passed[2][kMost];
inline int rounds[kMost];
constexpr uint64_t kUntouched = 0xA5A5A5A5A5A5A5A5;  // the lowest word of a stack
constexpr int kMostTurns = 4000000;

inline int cluster_threads = 0;
inline int arrived[kTogether], barriers[kTogether];  // threads at its barrier, barriers so far
inline unsigned first_block = 0;
inline void (*body)(void**);
inline void** given;

inline void pause() {
  on_device = false;
  if (!_setjmp(paused[self()])) _longjmp(scheduled, 1);
  on_device = true;
}
inline void wait() {
  ++rounds[self()];
  pause();
}
inline void whole() {
  on_device = true;
  body(given);
  on_device = false;
  ended[self()] = true;
  _longjmp(scheduled, 1);
}
inline void go_on(int t) {
  take_statics(t / present);
  block = t / present;
  threadIdx = {unsigned(t % present), 0, 0};
  blockIdx.x = first_block + unsigned(block);
  if (_setjmp(scheduled)) return;
  if (started[t]) _longjmp(paused[t], 1);
  started[t] = true;
  setcontext(&contexts[t]);
}

// The order of turns: with a seed warps take turns in another order in each round, and so do the lanes of a warp, which stay
// together.
inline uint64_t seed = 0;
inline uint32_t drawn(uint32_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return uint32_t((seed >> 33) % count);
}
inline int warps_in_turn[kMost / 32 + kTogether];
inline void shuffle(int count) {
  for (int i = count - 1; i > 0; --i) std::swap(warps_in_turn[i], warps_in_turn[drawn(uint32_t(i) + 1)]);
}

inline int gathered[kMost / 32], aligned_times[kMost / 32];  // lanes of a warp that wait for the others
inline int turn, aligned_turn[kMost / 32];  // rounds of turns of all threads, that in which the last lane came
inline int named[kTogether][16], named_times[kTogether][16];  // threads at the barriers that have numbers

// Gives each thread that has not ended a turn; whether one is left.
inline bool take_turns(int count) {
  int const warps = (count + 31) / 32;
  if (seed) shuffle(warps);
  bool more = false;
  for (int w = 0; w < warps; ++w) {
    int const first = 32 * warps_in_turn[w], lanes = std::min(32, count - first);
    int const turned = seed ? int(drawn(uint32_t(lanes))) : 0;
    for (int i = 0; i < lanes; ++i) {
      int const t = first + (i + turned) % lanes;
      if (ended[t]) continue;
      go_on(t);
      more = more || !ended[t];
    }
  }
  return more;
}

// Runs the threads of some blocks to their ends; false where they wait for each other forever.
inline bool run_blocks(int threads_of_each, int blocks, unsigned shared) {
  int const count = threads_of_each * blocks;
  present = threads_of_each, first_block = blockIdx.x, cluster_threads = count;
  std::memset(arrived, 0, sizeof(arrived));
  std::memset(gathered, 0, sizeof(gathered));
  std::memset(named, 0, sizeof(named));
  begin_statics(blocks);
  for (int b = 0; b < blocks; ++b) std::memset(dynamic[b], 0xFF, shared);
  begin_checks(count, shared);
  for (int w = 0; w < (count + 31) / 32; ++w) warps_in_turn[w] = w;
  for (int t = 0; t < count; ++t) {
    started[t] = ended[t] = false, rounds[t] = 0;
    getcontext(&contexts[t]);
    std::memcpy(stack(t), &kUntouched, sizeof(kUntouched));
    contexts[t].uc_stack.ss_sp = stack(t);
    contexts[t].uc_stack.ss_size = kStack;
    contexts[t].uc_link = &scheduler;
    makecontext(&contexts[t], whole, 0);
  }
  int turns = 0;
  for (; take_turns(count) && turns < kMostTurns; ++turns) ++turn;
  ++turn;
  for (int t = 0; t < count; ++t)
    if (std::memcmp(stack(t), &kUntouched, sizeof(kUntouched))) std::abort();  // it needs more than kStack bytes
  end_checks(count);
  return turns < kMostTurns;
}

// Lets the lanes of a warp go on together, also where some of them have waited longer than others.
inline void align() {
  int const warp = self() / 32, before = aligned_times[warp];
  if (++gathered[warp] == 32) gathered[warp] = 0, ++aligned_times[warp], aligned_turn[warp] = turn;
  // Lanes behind the last one to come have their turn after it: all go on in the next round of turns.
  do pause();
  while (aligned_times[warp] == before || aligned_turn[warp] == turn);
}

// The blocks of a cluster, which run together.
inline int cluster_arrived, cluster_times;
inline void sync_cluster() {
  int const before = cluster_times;
  release(of_cluster, before);
  if (++cluster_arrived == cluster_threads) cluster_arrived = 0, ++cluster_times;
  do pause();
  while (cluster_times == before);
  acquire(of_cluster, before);
}

// bar.sync and bar.arrive of 256 threads.
inline int named_arrive(int id) {
  int const before = named_times[block][id];
  release(of_named[block][id], before);
  if (++named[block][id] == 256) named[block][id] = 0, ++named_times[block][id];
  return before;
}
inline void named_sync(int id) {
  int const before = named_arrive(id), own = block;
  while (named_times[own][id] == before) pause();
  acquire(of_named[own][id], before);
}

}  // namespace on_host

// The lanes of a warp wait equally often, those of different warps need not.
inline void __syncthreads() {
  int const own = on_host::block, before = on_host::barriers[own];
  on_host::release(on_host::of_block[own], before);
  if (++on_host::arrived[own] == on_host::present) on_host::arrived[own] = 0, ++on_host::barriers[own];
  do on_host::wait();
  while (on_host::barriers[own] == before);
  on_host::acquire(on_host::of_block[own], before);
}

inline void __syncwarp() {
  int const warp = on_host::self() / 32, before = on_host::aligned_times[warp];
  on_host::release(on_host::of_warp[warp], before);
  on_host::align();
  on_host::acquire(on_host::of_warp[warp], before);
}

template <class T>
T exchange(T x, int from) {
  int const self = on_host::self(), parity = on_host::rounds[self] & 1;
  std::memcpy(&on_host::passed[parity][self], &x, sizeof(T));
  on_host::wait();
  std::memcpy(&x, &on_host::passed[parity][from], sizeof(T));
  return x;
}
template <class T>
T __shfl_down_sync(unsigned, T x, int lanes) {
  int const self = on_host::self();
  return exchange(x, self % 32 + lanes < 32 ? self + lanes : self);
}
template <class T>
T __shfl_up_sync(unsigned, T x, int lanes) {
  int const self = on_host::self();
  return exchange(x, self % 32 >= lanes ? self - lanes : self);
}
template <class T>
T __shfl_sync(unsigned, T x, int lane) {
  return exchange(x, on_host::self() / 32 * 32 + lane % 32);
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int bits) {
  return exchange(x, on_host::self() ^ bits);
}
inline bool __any_sync(unsigned, bool x) {
  int const self = on_host::self(), parity = on_host::rounds[self] & 1;
  on_host::passed[parity][self] = x;
  on_host::wait();
  bool any = false;
  for (int i = 0; i < 32; ++i) any = any || on_host::passed[parity][self / 32 * 32 + i];
  return any;
}
