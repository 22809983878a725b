// Sort kernels: rows that fit into the registers of a few threads, a warp or a block, and the first few elements of rows
// of any length.
//
// The space has its kept axes first, then the sorted one. The compiler writes `Op`, views of tensors, and `Work` upon it:
// `values<V>(position)` computes V neighbouring elements, `store(position, values, positions)` what is stored of V sorted
// ones and of where they come from. `kTaken` is how many are stored of each row, 0 for all.
//
// Elements are compared as whole numbers of 64 bits: a key that orders as they do, then their position. So no two are
// equal, the order of equal elements is that of their positions, and a bitonic network, which moves elements in an order
// of its own, sorts them the same in every run.
#pragma once

#include <mucc/sort.h>
#include <mucc/view.cuh>

namespace mucc {

// NaN is the largest float, and -0 equals 0: its sign is kept in the lowest bit, behind the position.
struct FloatKeys {
  static MUCC_DEVICE uint32_t key(float x) {
    uint32_t const bits = __float_as_uint(x);
    if (x != x) return ~0u;
    return bits >> 31 ? (bits << 1 ? ~bits : 1u << 31) : bits | 1u << 31;
  }
  static MUCC_DEVICE uint32_t mark(float x) { return __float_as_uint(x) == 1u << 31; }
  static MUCC_DEVICE float value(uint32_t key, uint32_t mark) {
    return __uint_as_float(mark ? 1u << 31 : key >> 31 ? key & ~(1u << 31) : ~key);
  }
};

// Integers of 32 bits, passed as their bits.
struct IntegerKeys {
  static MUCC_DEVICE uint32_t key(float x) { return __float_as_uint(x) ^ 1u << 31; }
  static MUCC_DEVICE uint32_t mark(float) { return 0; }
  static MUCC_DEVICE float value(uint32_t key, uint32_t) { return __uint_as_float(key ^ 1u << 31); }
};

constexpr uint64_t kNothing = ~uint64_t(0);  // behind all elements

template <class Work>
MUCC_DEVICE uint64_t sort_word(float x, int64_t position) {
  using Keys = typename Work::Keys;
  uint32_t const key = Work::kDescending ? ~Keys::key(x) : Keys::key(x);
  return uint64_t(key) << 32 | uint32_t(position) << 1 | Keys::mark(x);
}

template <class Work>
MUCC_DEVICE float value_of(uint64_t word) {
  uint32_t const key = uint32_t(word >> 32);
  return Work::Keys::value(Work::kDescending ? ~key : key, uint32_t(word) & 1);
}

MUCC_DEVICE float position_of(uint64_t word) { return __uint_as_float(uint32_t(word) >> 1); }

// ---- the network --------------------------------------------------------------------------------------------

MUCC_DEVICE uint64_t chosen(uint64_t a, uint64_t b, bool smaller) { return (a < b) == smaller ? a : b; }

MUCC_DEVICE void put_in_order(uint64_t& a, uint64_t& b) {
  uint64_t const first = chosen(a, b, true), last = chosen(a, b, false);
  a = first, b = last;
}

// Merges what a thread holds, where it falls and then rises, or the other way round.
template <int I>
MUCC_DEVICE void merge_items(uint64_t (&x)[I]) {
#pragma unroll
  for (int d = I / 2; d > 0; d /= 2) {
#pragma unroll
    for (int i = 0; i < I; ++i)
      if (!(i & d)) put_in_order(x[i], x[i + d]);
  }
}

// Sorts what a thread holds.
template <int I>
MUCC_DEVICE void sort_items(uint64_t (&x)[I]) {
#pragma unroll
  for (int k = 2; k <= I; k *= 2) {
#pragma unroll
    for (int i = 0; i < I; ++i)
      if (!(i & k / 2)) put_in_order(x[i], x[i ^ (k - 1)]);
#pragma unroll
    for (int d = k / 4; d > 0; d /= 2) {
#pragma unroll
      for (int i = 0; i < I; ++i)
        if (!(i & d)) put_in_order(x[i], x[i + d]);
    }
  }
}

// Compares with the thread whose number differs in the bits of `mask`, the same elements or with kTurned the last with
// the first. The thread without bit `half` keeps the smaller ones.
template <int T, bool kTurned, int I>
MUCC_DEVICE void compare_across(uint64_t (&x)[I], int mask, int half, uint64_t* shared) {
  bool const smaller = !(threadIdx.x & half);
  if (T > 32 && mask >= 32) {
    constexpr int kThreads = 256;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < I; ++i) shared[i * kThreads + threadIdx.x] = x[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < I; ++i)
      x[i] = chosen(x[i], shared[(kTurned ? I - 1 - i : i) * kThreads + (threadIdx.x ^ mask)], smaller);
  } else if (kTurned) {
#pragma unroll
    for (int i = 0; i < (I + 1) / 2; ++i) {
      int const j = I - 1 - i;
      uint64_t const a = __shfl_xor_sync(~0u, x[j], mask);
      if (i != j) x[j] = chosen(x[j], __shfl_xor_sync(~0u, x[i], mask), smaller);
      x[i] = chosen(x[i], a, smaller);
    }
  } else {
#pragma unroll
    for (int i = 0; i < I; ++i) x[i] = chosen(x[i], __shfl_xor_sync(~0u, x[i], mask), smaller);
  }
}

// Sorts what T neighbouring threads hold: the first has the first I elements, and so on.
template <int T, int I>
MUCC_DEVICE void sort_words(uint64_t (&x)[I], uint64_t* shared) {
  sort_items(x);
#pragma unroll 1
  for (int k = 2; k <= T; k *= 2) {
    compare_across<T, true>(x, k - 1, k / 2, shared);
#pragma unroll 1
    for (int d = k / 4; d > 0; d /= 2) compare_across<T, false>(x, d, d, shared);
    merge_items(x);
  }
}

// ---- rows ---------------------------------------------------------------------------------------------------

// Loads V elements as words, at positions from `first`.
template <int V, class Work, class P>
MUCC_DEVICE void load_words(uint64_t* x, Work const& work, P& p, int64_t first, bool here) {
  Lanes<V> loaded(0.0f);
  p.at[Work::kRank - 1] = first;
  if (here) loaded = work.template values<V>(p);
#pragma unroll
  for (int v = 0; v < V; ++v) x[v] = here ? sort_word<Work>(loaded.of[v], first + v) : kNothing;
}

template <int V, class Work, class P>
MUCC_DEVICE void store_words(uint64_t const* x, Work const& work, P& p, int64_t first) {
  Lanes<V> values, positions;
#pragma unroll
  for (int v = 0; v < V; ++v) values.of[v] = value_of<Work>(x[v]), positions.of[v] = position_of(x[v]);
  p.at[Work::kRank - 1] = first;
  work.store(p, values, positions);
}

// T threads sort a row, with I elements each.
template <int V, int T, int I, class Work>
MUCC_DEVICE void sort_rows(Work const& work, Extents<Work::kRank> const& extents, int64_t rows, int64_t length) {
  static_assert(I % V == 0 && Work::kThreads == 256, "");
  constexpr int kStored = Work::kTaken ? 1 : V;  // what is left of a row need not be whole vectors
  __shared__ uint64_t shared[T > 32 ? I * Work::kThreads : 1];
  int const lane = threadIdx.x % T;
  int64_t const row = int64_t(blockIdx.x) * (Work::kThreads / T) + threadIdx.x / T;
  bool const present = row < rows;
  Position<Work::kRank, int64_t> p;
  p.template split<0, Work::kKept>(present ? row : 0, extents.of);
  uint64_t x[I];
#pragma unroll
  for (int i = 0; i < I; i += V) {
    int64_t const first = int64_t(i) * T + lane * V;
    load_words<V>(x + i, work, p, first, present && first < length);
  }
  sort_words<T>(x, shared);
  int64_t const taken = Work::kTaken ? Work::kTaken : length;
#pragma unroll
  for (int i = 0; i < I; i += kStored) {
    int64_t const first = int64_t(lane) * I + i;
    if (present && first < taken) store_words<kStored>(x + i, work, p, first);
  }
}

// The first 32 of two sorted lists, an element in each lane.
MUCC_DEVICE uint64_t merge_lists(uint64_t mine, uint64_t turned) {
  uint64_t x[1] = {chosen(mine, turned, true)};
#pragma unroll
  for (int d = 16; d > 0; d /= 2) compare_across<32, false>(x, d, d, nullptr);
  return x[0];
}

// A block picks the first kTaken elements of a row, at most 32. Each warp walks along the row with a list of its own, a
// sorted element in each lane, and merges into it only what belongs before the last of those that count.
template <int V, class Work>
MUCC_DEVICE void pick_rows(Work const& work, Extents<Work::kRank> const& extents, int64_t, int64_t length) {
  constexpr int kWarps = Work::kThreads / 32;
  __shared__ uint64_t lists[kWarps][32];
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Position<Work::kRank, int64_t> p;
  p.template split<0, Work::kKept>(blockIdx.x, extents.of);
  uint64_t best = kNothing, last = kNothing;
  for (int64_t begin = int64_t(warp) * 32 * V; begin < length; begin += Work::kThreads * V) {
    int64_t const first = begin + lane * V;
    uint64_t loaded[V];
    load_words<V>(loaded, work, p, first, first < length);
    bool better = false;
#pragma unroll
    for (int v = 0; v < V; ++v) better = better || loaded[v] < last;
    if (!__any_sync(~0u, better)) continue;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      uint64_t x[1] = {loaded[v]};
      if (!__any_sync(~0u, x[0] < last)) continue;
      sort_words<32>(x, nullptr);
      best = merge_lists(best, __shfl_xor_sync(~0u, x[0], 31));
      last = __shfl_sync(~0u, best, Work::kTaken - 1);
    }
  }
  lists[warp][lane] = best;
  __syncthreads();
  if (warp > 0) return;
  for (int w = 1; w < kWarps; ++w) best = merge_lists(best, lists[w][31 - lane]);
  if (lane < Work::kTaken) store_words<1>(&best, work, p, lane);
}

}  // namespace mucc
