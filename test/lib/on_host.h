// Runs what the compiler writes for a program on the host: its host entry and its light kernels as they are, each thread
// of a block as a coroutine. Contractions are stand-ins that the test writes from the problem that a program describes.
#pragma once

#include <mucc/check.h>
#include <mucc/problem.h>
#include <mucc/program.h>
#include <mucc/tensor_map.h>

#include "gpu_bits.h"

#include <setjmp.h>
#include <ucontext.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define __global__
#define __shared__ static
#define __launch_bounds__(...)
#define __grid_constant__

struct Index3 {
  unsigned x, y, z;
};
static Index3 threadIdx, blockIdx, gridDim;

inline int __float2int_rn(float x) {
  // What is too large becomes the largest integer, and NaN becomes 0: `cvt.rni.s32.f32` of the PTX ISA.
  if (x != x) return 0;
  if (x >= 2147483648.0f) return INT32_MAX;
  return x <= -2147483648.0f ? INT32_MIN : int(std::nearbyint(x));
}

namespace on_host {

// ---- numbers of 16 bits -----------------------------------------------------------------------------------

inline uint16_t to_bf16(float x) {
  uint32_t const u = __float_as_uint(x);
  if (x != x) return 0x7FFF;
  return uint16_t((u + 0x7FFFu + (u >> 16 & 1u)) >> 16);
}
inline float computed_f16(uint16_t bits) {
  int const exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float const x = exponent == 31  ? (mantissa ? NAN : INFINITY)
                  : exponent == 0 ? std::ldexp(float(mantissa), -24)
                                  : std::ldexp(float(mantissa + 1024), exponent - 25);
  return bits >> 15 ? -x : x;
}
inline float from_f16(uint16_t bits) {
  static std::vector<float> const table = [] {
    std::vector<float> all(1 << 16);
    for (int i = 0; i < 1 << 16; ++i) all[i] = computed_f16(uint16_t(i));
    return all;
  }();
  return table[bits];
}
inline uint16_t to_f16(float x) {
  uint16_t best = 0x7e00;
  if (x != x) return best;
  float const size = std::fabs(x);
  int const exponent = size < 0x1p-14f ? -14 : std::ilogb(size);
  float const rounded = std::ldexp(std::nearbyint(std::ldexp(size, 10 - exponent)), exponent - 10);
  if (rounded > 65504.0f) {
    best = 0x7c00;
  } else if (rounded < 0x1p-14f) {
    best = uint16_t(std::ldexp(rounded, 24));
  } else {
    int const e = std::ilogb(rounded);
    best = uint16_t((e + 15) << 10 | (int(std::ldexp(rounded, 10 - e)) - 1024));
  }
  return std::signbit(x) ? best | 0x8000 : best;
}

inline int sm_count = 0, sm_shared = 0;  // that plans are made for
inline int launches = 0;                  // so far

// ---- threads ----------------------------------------------------------------------------------------------

constexpr int kMost = 4096, kStack = 1 << 16;
constexpr uint64_t kUntouched = 0xA5A5A5A5A5A5A5A5;  // the lowest word of a stack
inline ucontext_t scheduler, contexts[kMost];
inline jmp_buf scheduled, paused[kMost];  // no system call is made to switch between them
inline bool started[kMost], ended[kMost];
inline uint64_t passed[2][kMost];
inline int rounds[kMost];

// The blocks of a launch run together, or one by one: the threads of each follow those of the one before.
constexpr int kTogether = 8;
inline int cluster_threads = 0;
inline int present = 0, block = 0;                 // threads of a block, the block that goes on
inline int arrived[kTogether], barriers[kTogether];  // threads at its barrier, barriers so far
inline unsigned first_block = 0;
inline int self() { return block * present + int(threadIdx.x); }

inline std::unique_ptr<char[]> stacks{new char[size_t(kMost) * kStack]};
inline char* stack(int t) { return stacks.get() + size_t(t) * kStack; }
inline void (*body)(void**);
inline void** given;

inline void pause() {
  if (!_setjmp(paused[self()])) _longjmp(scheduled, 1);
}
inline void wait() {
  ++rounds[self()];
  pause();
}
inline void whole() {
  body(given);
  ended[self()] = true;
  _longjmp(scheduled, 1);
}
inline void go_on(int t) {
  block = t / present;
  threadIdx = {unsigned(t % present), 0, 0};
  blockIdx.x = first_block + unsigned(block);
  if (_setjmp(scheduled)) return;
  if (started[t]) _longjmp(paused[t], 1);
  started[t] = true;
  setcontext(&contexts[t]);
}
inline int gathered[kMost / 32], aligned_times[kMost / 32];  // lanes of a warp that wait for the others
inline int turn, aligned_turn[kMost / 32];  // rounds of turns of all threads, that in which the last lane came
inline int named[kTogether][16], named_times[kTogether][16];  // threads at the barriers that have numbers
inline void run_blocks(int threads_of_each, int blocks) {
  int const count = threads_of_each * blocks;
  present = threads_of_each, first_block = blockIdx.x, cluster_threads = count;
  std::memset(arrived, 0, sizeof(arrived));
  std::memset(gathered, 0, sizeof(gathered));
  std::memset(named, 0, sizeof(named));
  for (int t = 0; t < count; ++t) {
    started[t] = ended[t] = false, rounds[t] = 0;
    getcontext(&contexts[t]);
    std::memcpy(stack(t), &kUntouched, sizeof(kUntouched));
    contexts[t].uc_stack.ss_sp = stack(t);
    contexts[t].uc_stack.ss_size = kStack;
    contexts[t].uc_link = &scheduler;
    makecontext(&contexts[t], whole, 0);
  }
  for (bool more = true; more; ++turn) {
    more = false;
    for (int t = 0; t < count; ++t) {
      if (ended[t]) continue;
      go_on(t);
      more = more || !ended[t];
    }
  }
  for (int t = 0; t < count; ++t)
    if (std::memcmp(stack(t), &kUntouched, sizeof(kUntouched))) std::abort();  // it needs more than kStack bytes
}

// Lets the lanes of a warp go on together, also where some of them have waited longer than others.
inline void align() {
  int const warp = self() / 32, before = aligned_times[warp];
  if (++gathered[warp] == 32) gathered[warp] = 0, ++aligned_times[warp], aligned_turn[warp] = turn;
  // Lanes behind the last one to come have their turn after it: all go on in the next round of turns.
  do pause();
  while (aligned_times[warp] == before || aligned_turn[warp] == turn);
}

// ---- kernels and contractions -----------------------------------------------------------------------------

using Entry = void (*)(void**);
using Contraction = char const* (*)(mucc::gemm::Problem const&);
inline std::map<std::string, Entry>& entries() {
  static std::map<std::string, Entry> all;
  return all;
}
inline std::map<std::string, Contraction>& contractions() {
  static std::map<std::string, Contraction> all;
  return all;
}

// Those of kernels with several entries, by what describes the problem: their stages have the same names.
using Describe = int (*)(mucc::Call const&, mucc::gemm::Problem&);
inline std::map<Describe, Contraction>& described() {
  static std::map<Describe, Contraction> all;
  return all;
}

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** p, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<A>*>(p[I])...);
}
template <class... A>
void call(void (*kernel)(A...), void** p) {
  call(kernel, p, std::index_sequence_for<A...>{});
}

inline int contract(mucc::Call const& c, mucc::gemm::Stage const& stage, void*) {
  mucc::gemm::Problem problem;
  if (stage.describe(c, problem)) return 1;
  auto const own = described().find(stage.describe);
  Contraction const run = own != described().end()
                              ? own->second
                              : contractions().at(std::string(c.kernel->name) + "/" + stage.name);
  char const* wrong = run(problem);
  return wrong ? mucc::fail("MU9001", "%s", wrong) : 0;
}
inline int64_t no_scratch(mucc::Call const&, mucc::gemm::Stage const&) { return 0; }

// What TMA asks of a matrix that the kernel maps: whole granules between its rows, even of one row.
inline bool maps(mucc::gemm::Operand const& m, int unit, int bytes, bool batched) {
  if (reinterpret_cast<uintptr_t>(m.data) % 16) return false;
  for (int i = 0; i < (batched ? 3 : 2); ++i)
    if (i != unit && m.stride[i] * bytes % 16) return false;
  return true;
}

// Whether a column is in a range, which an operand of no tensor gives as its first strides.
inline bool in_range(mucc::gemm::Operand const& range, int64_t column) {
  return range.stride[0] <= column && column < range.stride[0] + range.stride[1];
}

}  // namespace on_host

// The lanes of a warp wait equally often, those of different warps need not.
inline void __syncthreads() {
  int const own = on_host::block, before = on_host::barriers[own];
  if (++on_host::arrived[own] == on_host::present) on_host::arrived[own] = 0, ++on_host::barriers[own];
  do on_host::wait();
  while (on_host::barriers[own] == before);
}

inline void __syncwarp() { on_host::align(); }

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

namespace on_host {

// ---- a warp's matrices --------------------------------------------------------------------------------------

inline float from_bf16(uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }

inline void copy_piece(void* to, void const* from, bool wanted) {
  if (wanted)
    std::memcpy(to, from, 16);
  else
    std::memset(to, 0, 16);
}

// ldmatrix.x4: lane 8 * m + r names row r of matrix m.
inline void matrices(uint32_t (&x)[4], void const* row, bool turned) {
  int const self = on_host::self(), parity = rounds[self] & 1, lane = self % 32;
  passed[parity][self] = reinterpret_cast<uint64_t>(row);
  wait();
  for (int m = 0; m < 4; ++m) {
    auto element = [&](int r, int c) {
      uint16_t bits;
      std::memcpy(&bits, reinterpret_cast<char const*>(passed[parity][self - lane + 8 * m + r]) + 2 * c, 2);
      return uint32_t(bits);
    };
    int const r = lane / 4, c = lane % 4 * 2;
    x[m] = turned ? element(c, r) | element(c + 1, r) << 16 : element(r, c) | element(r, c + 1) << 16;
  }
}

// mma.sync m16n8k16, of which a lane has four words of the left operand and two of the right one.
inline uint32_t words[2][kMost][6];
inline void multiply(float (*number)(uint16_t), float (&c)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  int const self = on_host::self(), parity = rounds[self] & 1, lane = self % 32;
  uint32_t const own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  std::memcpy(words[parity][self], own, sizeof(own));
  wait();
  auto half = [&](int from, int word, int k) {
    return number(uint16_t(words[parity][self - lane + from][word] >> 16 * (k % 2)));
  };
  for (int i = 0; i < 4; ++i) {
    int const row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      c[i] += half(row % 8 * 4 + k % 8 / 2, row / 8 + k / 8 * 2, k) * half(column * 4 + k % 8 / 2, 4 + k / 8, k);
  }
}

// mma.sync m16n8k8 of tf32.
inline void multiply_single(float (&c)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  int const self = on_host::self(), parity = rounds[self] & 1, lane = self % 32;
  uint32_t const own[6] = {a[0], a[1], a[2], a[3], b0, b1};
  std::memcpy(words[parity][self], own, sizeof(own));
  wait();
  auto single = [&](int from, int word) {
    uint32_t const bits = words[parity][self - lane + from][word] & ~0x1fffu;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  };
  for (int i = 0; i < 4; ++i) {
    int const row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 8; ++k)
      c[i] += single(row % 8 * 4 + k % 4, row / 8 + k / 4 * 2) * single(column * 4 + k % 4, 4 + k / 4);
  }
}

// ---- warpgroups, and the copy engine ------------------------------------------------------------------------

// Shared memory is named by the distance from its start.
alignas(1024) inline char dynamic[kTogether][1 << 18];

struct Barrier {
  int count, pending, bytes, phase;
  void look() {
    if (pending == 0 && bytes == 0) pending = count, ++phase;
  }
};
inline std::map<uint32_t, Barrier> barriers_at[kTogether];
inline void start_barrier(uint32_t at, int count) { barriers_at[block][at] = {count, count, 0, 0}; }
inline void expect(uint32_t at, int bytes) {
  Barrier& barrier = barriers_at[block].at(at);
  barrier.bytes += bytes;
  --barrier.pending;
  barrier.look();
}
inline void await(uint32_t at, int parity) {
  while ((barriers_at[block].at(at).phase & 1) == parity) pause();
}

// The blocks of a cluster, which run together.
inline int cluster_arrived, cluster_times;
inline void sync_cluster() {
  int const before = cluster_times;
  if (++cluster_arrived == cluster_threads) cluster_arrived = 0, ++cluster_times;
  do pause();
  while (cluster_times == before);
}
inline float shared_of(uint32_t at) {
  float x;
  std::memcpy(&x, dynamic[at >> 24] + (at & 0xffffff), 4);
  return x;
}

// bar.sync and bar.arrive of 256 threads.
inline int named_arrive(int id) {
  int const before = named_times[block][id];
  if (++named[block][id] == 256) named[block][id] = 0, ++named_times[block][id];
  return before;
}
inline void named_sync(int id) {
  int const before = named_arrive(id);
  while (named_times[block][id] == before) pause();
}

__attribute__((optimize("O2"))) inline uint32_t swizzled(uint32_t at) { return at ^ (at >> 7 & 7) << 4; }

// A tensor map; axes beyond `rank` have one element. Of positions it has the corners and steps, too, and only two axes of
// `box`.
struct Map {
  char const* data;
  int8_t rank, size, swizzles;
  uint8_t box_less_one[5];
  uint32_t extents[5];
  int64_t strides[5];
  int16_t lower[3], upper[3], steps[3];
  int box(int a) const { return box_less_one[a] + 1; }
};
inline void copy_element(Map const& map, char* to, char const* from, bool inside) {
  std::memset(to, 0, size_t(map.size));
  if (!inside) return;
  std::memcpy(to, from, size_t(map.size));
  if (map.size < 4) return;
  uint32_t bits;
  std::memcpy(&bits, to, 4);
  bits = bits + 0x1000u & ~0x1fffu;  // tf32
  std::memcpy(to, &bits, 4);
}
inline void copied(uint32_t barrier, int bytes) {
  Barrier& at = barriers_at[block].at(barrier);
  at.bytes -= bytes;
  at.look();
}
inline void copy_tile(uint32_t to, void const* given, uint32_t barrier, int element, int row, int const* leading) {
  Map const& map = *static_cast<Map const*>(given);
  int const first[5] = {element, row, leading[0], leading[1], leading[2]};
  if (element * map.size % 16) std::abort();  // an H100 takes it for an illegal instruction
  int total = 1;
  for (int a = 0; a < map.rank; ++a) total *= map.box(a);
  for (int i = 0; i < total; ++i) {
    bool inside = true;
    char const* from = map.data;
    for (int a = 0, rest = i; a < map.rank; rest /= map.box(a), ++a) {
      int64_t const at = first[a] + rest % map.box(a);
      inside = inside && at >= 0 && at < int64_t(map.extents[a]);
      from += map.size * at * map.strides[a];
    }
    uint32_t const place = map.swizzles ? swizzled(uint32_t(to + i / map.box(0) * 128 + map.size * (i % map.box(0))))
                                        : uint32_t(to + map.size * i);
    copy_element(map, dynamic[block] + place, from, inside);
  }
  copied(barrier, total * map.size);
}
inline void copy_positions(uint32_t to, void const* given, uint32_t barrier, int channel, int const* first, int batch,
                           uint16_t const* tap) {
  Map const& map = *static_cast<Map const*>(given);
  int const axes = map.rank - 2;
  int at[3];
  for (int a = 0; a < axes; ++a) {
    at[a] = first[a];
    // It has to be one of the positions, and the tap a number of so many bits.
    if (at[a] < map.lower[a] || (at[a] - map.lower[a]) % map.steps[a] || tap[a] >> 16 / axes) std::abort();
    if (at[a] > int64_t(map.extents[1 + a]) - 1 + map.upper[a]) std::abort();
  }
  for (int r = 0; r < map.box(1); ++r) {
    bool inside = batch < int64_t(map.extents[1 + axes]);
    int64_t offset = batch * map.strides[1 + axes];
    for (int a = 0; a < axes; ++a) {
      int const index = at[a] + tap[a];
      inside = inside && index >= 0 && index < int64_t(map.extents[1 + a]);
      offset += index * map.strides[1 + a];
    }
    for (int e = 0; e < map.box(0); ++e)
      copy_element(map, dynamic[block] + swizzled(uint32_t(to + r * 128 + map.size * e)),
                   map.data + map.size * (offset + channel + e), inside && channel + e < int64_t(map.extents[0]));
    int a = 0;
    for (; a < axes; ++a) {
      at[a] += map.steps[a];
      if (at[a] <= int64_t(map.extents[1 + a]) - 1 + map.upper[a]) break;
      at[a] = map.lower[a];
    }
    if (a == axes) ++batch;
  }
  copied(barrier, map.box(0) * map.box(1) * map.size);
}

// Element (row, k) of an operand of wgmma that a descriptor names.
__attribute__((optimize("O2"))) inline uint16_t operand(uint64_t d, int row, int k, bool turned) {
  uint32_t const start = uint32_t(d & 0x3fff) << 4, next = uint32_t(d >> 16 & 0x3fff) << 4,
                 step = uint32_t(d >> 32 & 0x3fff) << 4;
  uint32_t const at = turned ? start + row / 64 * next + k / 8 * step + k % 8 * 128 + row % 64 * 2
                             : start + row / 8 * step + row % 8 * 128 + k * 2;
  uint16_t bits;
  std::memcpy(&bits, dynamic[block] + swizzled(at), 2);
  return bits;
}
template <int kCount, class Left>
__attribute__((optimize("O2"))) void add_products(float (*number)(uint16_t), float (&sum)[kCount], Left left, uint64_t b,
                                                  int keeps, bool turned) {
  int const thread = int(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  float a[2][16];
  for (int k = 0; k < 16; ++k)
    for (int h = 0; h < 2; ++h) a[h][k] = number(left(row + 8 * h, k));
  for (int i = 0; i < kCount; ++i)
    if (!keeps) sum[i] = 0;
  for (int i = 0; i < kCount; i += 4)
    for (int c = 0; c < 2; ++c)
      for (int k = 0; k < 16; ++k) {
        float const x = number(operand(b, i * 2 + column + c, k, turned));
        sum[i + c] += a[0][k] * x;
        sum[i + 2 + c] += a[1][k] * x;
      }
}
template <int kCount>
void wgmma(float (*number)(uint16_t), float (&sum)[kCount], uint64_t a, uint64_t b, int keeps, bool turned,
           bool left_turned) {
  auto left = [a, left_turned](int row, int k) { return operand(a, row, k, left_turned); };
  add_products(number, sum, left, b, keeps, turned);
}
template <int kCount>
void wgmma(float (*number)(uint16_t), float (&sum)[kCount], uint32_t const (&a)[4], uint64_t b, int keeps, bool turned,
           bool) {
  int const self = on_host::self(), lane = self % 32;
  std::memcpy(words[0][self], a, sizeof(a));
  align();
  auto left = [&](int row, int k) {
    return uint16_t(words[0][self - lane + row % 8 * 4 + k % 8 / 2][row % 16 / 8 + k / 8 * 2] >> 16 * (k % 2));
  };
  add_products(number, sum, left, b, keeps, turned);
  align();
}

// The same of tf32, whose rows have eight elements.
__attribute__((optimize("O2"))) inline float number_at(uint64_t d, int row, int k) {
  uint32_t const start = uint32_t(d & 0x3fff) << 4, step = uint32_t(d >> 32 & 0x3fff) << 4;
  float x;
  std::memcpy(&x, dynamic[block] + swizzled(start + row / 8 * step + row % 8 * 128 + k * 4), 4);
  return x;
}
template <int kCount, class Left>
__attribute__((optimize("O2"))) void add_tf32(float (&sum)[kCount], Left left, uint64_t b, int keeps) {
  int const thread = int(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  float a[2][8];
  for (int k = 0; k < 8; ++k)
    for (int h = 0; h < 2; ++h) a[h][k] = left(row + 8 * h, k);
  for (int i = 0; i < kCount; ++i) {
    if (!keeps) sum[i] = 0;
    for (int k = 0; k < 8; ++k) sum[i] += a[i / 2 % 2][k] * number_at(b, i / 4 * 8 + column + i % 2, k);
  }
}
template <int kCount>
void wgmma_tf32(float (&sum)[kCount], uint64_t a, uint64_t b, int keeps) {
  add_tf32(sum, [a](int row, int k) { return number_at(a, row, k); }, b, keeps);
}
template <int kCount>
void wgmma_tf32(float (&sum)[kCount], uint32_t const (&a)[4], uint64_t b, int keeps) {
  int const self = on_host::self(), lane = self % 32;
  std::memcpy(words[0][self], a, sizeof(a));
  align();
  auto left = [&](int row, int k) {
    return __uint_as_float(words[0][self - lane + row % 8 * 4 + k % 4][row % 16 / 8 + k / 4 * 2]);
  };
  add_tf32(sum, left, b, keeps);
  align();
}

// The same of e4m3, whose rows have 32 elements.
inline float from_e4m3(uint8_t bits) {
  int const exponent = bits >> 3 & 15, mantissa = bits & 7;
  float const x = exponent == 15 && mantissa == 7 ? NAN
                  : exponent == 0                 ? std::ldexp(float(mantissa), -9)
                                                  : std::ldexp(float(mantissa + 8), exponent - 10);
  return bits >> 7 ? -x : x;
}
inline uint8_t byte_at(uint64_t d, int row, int k) {
  uint32_t const start = uint32_t(d & 0x3fff) << 4, step = uint32_t(d >> 32 & 0x3fff) << 4;
  return uint8_t(dynamic[block][swizzled(start + row / 8 * step + row % 8 * 128 + k)]);
}
inline float e4m3_at(uint64_t d, int row, int k) { return from_e4m3(byte_at(d, row, k)); }
inline float s8_at(uint64_t d, int row, int k) { return float(int8_t(byte_at(d, row, k))); }
template <int kCount, class Left, class Right>
__attribute__((optimize("O2"))) void add_bytes(float (&sum)[kCount], Left left, Right right, int keeps) {
  int const thread = int(threadIdx.x) % 128, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
  float a[2][32];
  for (int k = 0; k < 32; ++k)
    for (int h = 0; h < 2; ++h) a[h][k] = left(row + 8 * h, k);
  for (int i = 0; i < kCount; ++i) {
    if (!keeps) sum[i] = 0;
    for (int k = 0; k < 32; ++k) sum[i] += a[i / 2 % 2][k] * right(i / 4 * 8 + column + i % 2, k);
  }
}
template <int kCount>
void wgmma_e4m3(float (&sum)[kCount], uint64_t a, uint64_t b, int keeps) {
  add_bytes(
      sum, [a](int row, int k) { return e4m3_at(a, row, k); }, [b](int row, int k) { return e4m3_at(b, row, k); }, keeps);
}
// Sums are s32 on a GPU, whose bits are those of an f32: here they are f32.
template <int kCount>
void wgmma_s8(float (&sum)[kCount], uint64_t a, uint64_t b, int keeps) {
  add_bytes(sum, [a](int row, int k) { return s8_at(a, row, k); }, [b](int row, int k) { return s8_at(b, row, k); }, keeps);
}
template <int kCount>
void wgmma_e4m3(float (&sum)[kCount], uint32_t const (&a)[4], uint64_t b, int keeps) {
  int const self = on_host::self(), lane = self % 32;
  std::memcpy(words[0][self], a, sizeof(a));
  align();
  auto left = [&](int row, int k) {
    uint32_t const word = words[0][self - lane + row % 8 * 4 + k % 16 / 4][row % 16 / 8 + k / 16 * 2];
    return from_e4m3(uint8_t(word >> 8 * (k % 4)));
  };
  add_bytes(sum, left, [b](int row, int k) { return e4m3_at(b, row, k); }, keeps);
  align();
}

}  // namespace on_host

namespace mucc {

inline int make_map(on_host::Map& map, void const* data, Mapped element, int rank, int64_t const* extents,
                    int64_t const* strides, int const* box, bool swizzles) {
  map = {static_cast<char const*>(data), int8_t(rank), int8_t(bytes_of(element)), swizzles, {}, {}, {}, {}, {}, {}};
  for (int a = 0; a < rank; ++a) {
    map.extents[a] = uint32_t(extents[a]), map.strides[a] = strides[a];
    if (extents[a] < 1 || (a > 0 && (strides[a] <= 0 || strides[a] * map.size % 16)))
      return fail("MU9001", "TMA cannot map axis %d", a);
    if (box[a] < 1 || box[a] > 256) return fail("MU9001", "TMA cannot copy %d elements along axis %d", box[a], a);
    map.box_less_one[a] = uint8_t(box[a] - 1);
  }
  if (reinterpret_cast<uintptr_t>(data) % 16) return fail("MU9001", "TMA cannot map the address");
  if (box[0] * map.size % 16) return fail("MU9001", "TMA cannot copy rows of %d elements", box[0]);
  if (swizzles && box[0] * map.size > 128) return fail("MU9001", "TMA cannot swizzle rows of %d elements", box[0]);
  return 0;
}
inline int map_boxes(Call const&, void* to, void const* data, Mapped element, int rank, int64_t const* extents,
                     int64_t const* strides, int const* box) {
  on_host::Map map;
  if (make_map(map, data, element, rank, extents, strides, box, false)) return 1;
  static_assert(sizeof(map) <= 128);
  std::memcpy(to, &map, sizeof(map));
  return 0;
}
inline int map_tiles(Call const&, void* to, void const* data, Mapped element, int rank, int64_t const* extents,
                     int64_t const* strides, int columns, int rows) {
  on_host::Map map;
  int const box[5] = {columns, rows, 1, 1, 1};
  if (make_map(map, data, element, rank, extents, strides, box, true)) return 1;
  std::memcpy(to, &map, sizeof(map));
  return 0;
}
inline int map_positions(Call const&, void* to, void const* data, Mapped element, int rank, int64_t const* extents,
                         int64_t const* strides, int const* lower, int const* upper, int const* steps, int columns,
                         int rows) {
  on_host::Map map;
  int const box[5] = {columns, rows, 1, 1, 1};
  if (make_map(map, data, element, rank, extents, strides, box, true)) return 1;
  int const axes = rank - 2, most = 1 << (16 / axes - 1);
  for (int a = 0; a < axes; ++a) {
    map.lower[a] = int16_t(lower[a]), map.upper[a] = int16_t(upper[a]), map.steps[a] = int16_t(steps[a]);
    bool fits = lower[a] >= -most && lower[a] < most && upper[a] >= -most && upper[a] < most;
    fits = fits && steps[a] >= 1 && steps[a] <= 8 && lower[a] <= extents[1 + a] - 1 + upper[a];
    if (!fits) return fail("MU9001", "TMA cannot walk along axis %d", a);
  }
  std::memcpy(to, &map, sizeof(map));
  return 0;
}

inline int start(Call const&, char const*, Code& code, Geometry const& g, void** parameters) {
  on_host::body = on_host::entries().at(code.name);
  on_host::given = parameters;
  ++on_host::launches;
  gridDim = {g.grid[0], g.grid[1], g.grid[2]};
  unsigned const together = g.together ? g.grid[0] : g.cluster[0] ? g.cluster[0] : 1;
  if (together > on_host::kTogether || together * g.block > on_host::kMost)
    return fail("MU9001", "%u blocks cannot run together", together);
  for (unsigned y = 0; y < g.grid[1]; ++y)
    for (unsigned x = 0; x < g.grid[0]; x += together) {
      blockIdx = {x, y, 0};
      on_host::run_blocks(int(g.block), int(together));
    }
  return 0;
}

inline int fill(Call const&, float* data, float value, int64_t count, int64_t rows, int64_t pitch) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < count; ++i) data[r * pitch + i] = value;
  return 0;
}

// Indices are drawn to fit.
inline int check_ends(Call const&, int, int64_t) { return 0; }
inline int check_rows(Call const&, int, int64_t, bool) { return 0; }

inline int check_c(Call& c, const MuccTensor* args, int n) {
  const Kernel& k = *c.kernel;
  c.sm_count = on_host::sm_count, c.sm_shared = on_host::sm_shared;
  if (n != k.args.size) return fail_count(k, n);
  start_dims(c);
  int first = -1;
  for (int i = 0; i < n; ++i)
    if (is_tensor(k.args[i]) ? check_tensor(c, i, args[i], first) : check_scalar(c, i, args[i])) return 1;
  return check_dims(c);
}

inline int call_c(const Kernel& k, const MuccTensor* args, int n, void*, size_t, void*) noexcept {
  Call c(k);
  if (check_c(c, args, n)) return 1;
  int64_t const bytes = (k.workspace(c) + 511) / 256 * 256;
  std::unique_ptr<void, void (*)(void*)> memory(std::aligned_alloc(256, bytes), std::free);
  std::memset(memory.get(), 0xFF, bytes);
  c.workspace = memory.get();
  c.workspace_bytes = size_t(bytes);
  return k.launch(c);
}
inline int64_t workspace_c(const Kernel&, const MuccTensor*, int) noexcept { return 0; }
inline int call_ffi(const Kernel&, const ffi::Any*, int, ffi::Any*) noexcept { return 1; }
inline int workspace_ffi(const Kernel&, const ffi::Any*, int, ffi::Any*) noexcept { return 1; }
inline int entry_ffi(const Kernel&, Entry, const ffi::Any*, int, ffi::Any*) noexcept { return 1; }
inline int entry_c(const Kernel& k, Entry entry, const MuccTensor* args, int n) noexcept {
  Call c(k);
  return check_c(c, args, n) ? -1 : entry(c.dims);
}

}  // namespace mucc

MUCC_DOOR void on_host_sm_count(int count) { on_host::sm_count = count; }
MUCC_DOOR int on_host_launches() { return on_host::launches; }
MUCC_DOOR void on_host_sm_shared(int bytes) { on_host::sm_shared = bytes; }
MUCC_DOOR const char* mucc_last_error(void) { return mucc::last_error.text; }
