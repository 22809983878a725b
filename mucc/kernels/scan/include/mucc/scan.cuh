// Scan kernels: running sums and products along an axis, in one pass over memory.
//
// The space has its kept axes first, then the scanned one. The compiler writes `Op`, views of tensors, and `Work` upon
// it: `values<V>(position)` computes V neighbouring elements to scan, `store<V>(position, scanned)` what is stored of
// their results. Each order of combination is fixed by the shape, so that results do not change from run to run.
//
// Blocks that share a row follow each other in the order in which the hardware starts them: a block waits for blocks of
// smaller numbers only, all of which have started.
#pragma once

#include <mucc/scan.h>
#include <mucc/view.cuh>

namespace mucc {

// ---- within a thread and a warp ---------------------------------------------------------------------------

// V elements at a step of a row, in the order of the scan; `p` keeps the row.
template <int V, class Work, class P>
MUCC_DEVICE Lanes<V> scan_load(Work const& work, P& p, int64_t step, int64_t length) {
  p.at[Work::kRank - 1] = (Work::kReverse ? length - 1 - step : step) * (Work::kRows ? V : 1);
  Lanes<V> x = work.template values<V>(p);
  if constexpr (Work::kReverse && Work::kRows && V > 1) {
    Lanes<V> const forward = x;
#pragma unroll
    for (int v = 0; v < V; ++v) x.of[v] = forward.of[V - 1 - v];
  }
  return x;
}

template <int V, class Work, class P>
MUCC_DEVICE void scan_store(Work const& work, P& p, int64_t step, int64_t length, Lanes<V> y) {
  p.at[Work::kRank - 1] = (Work::kReverse ? length - 1 - step : step) * (Work::kRows ? V : 1);
  if constexpr (Work::kReverse && Work::kRows && V > 1) {
    Lanes<V> const forward = y;
#pragma unroll
    for (int v = 0; v < V; ++v) y.of[v] = forward.of[V - 1 - v];
  }
  work.store(p, y);
}

template <class Kind, int V>
MUCC_DEVICE float combine_lanes(Lanes<V> const& x) {
  float total = x.of[0];
#pragma unroll
  for (int v = 1; v < V; ++v) total = Kind::combine(total, x.of[v]);
  return total;
}

// The scan of V elements behind what `before` sums up.
template <bool kExclusive, class Kind, int V>
MUCC_DEVICE Lanes<V> scan_lanes(Lanes<V> const& x, float before) {
  Lanes<V> y;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float const after = Kind::combine(before, x.of[v]);
    y.of[v] = kExclusive ? before : after;
    before = after;
  }
  return y;
}

// What is scanned behind something else.
template <class Kind, int V>
MUCC_DEVICE Lanes<V> behind(float before, Lanes<V> y) {
#pragma unroll
  for (int v = 0; v < V; ++v) y.of[v] = Kind::combine(before, y.of[v]);
  return y;
}

// The inclusive scan over groups of `lanes` lanes of a warp, a power of two.
template <class Kind>
MUCC_DEVICE float scan_warp(float x, int lanes = 32) {
  int const lane = threadIdx.x & (lanes - 1);
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    if (d >= lanes) break;
    float const other = __shfl_up_sync(~0u, x, d);
    if (lane >= d) x = Kind::combine(other, x);
  }
  return x;
}

// ---- between blocks ---------------------------------------------------------------------------------------

// A word of `status` is 0 until it has a value: then its upper half is 1, and both are written at once.
MUCC_DEVICE void publish(unsigned long long* word, float value) {
  unsigned long long const all = 1ull << 32 | __float_as_uint(value);
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(all) : "memory");
#else
  *word = all;
#endif
}

// Reads V words, `stride` apart, once all of them have values.
template <int V>
MUCC_DEVICE Lanes<V> await(unsigned long long const* words, int stride) {
  unsigned long long all[V];
  unsigned missing;
  do {
    missing = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) {
#if defined(__CUDA_ARCH__)
      asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(all[v]) : "l"(words + v * stride) : "memory");
#else
      all[v] = words[v * stride];
#endif
      missing |= unsigned(all[v] >> 32) ^ 1u;
    }
  } while (missing);
  Lanes<V> values;
#pragma unroll
  for (int v = 0; v < V; ++v) values.of[v] = __uint_as_float(unsigned(all[v]));
  return values;
}

// Combines a value of each thread of a block, in the order of threads.
template <class Kind, int kThreads>
MUCC_DEVICE float combine_block(float x, float (&shared)[kThreads / 32]) {
  float const whole = scan_warp<Kind>(x);
  if (threadIdx.x % 32 == 31) shared[threadIdx.x / 32] = whole;
  __syncthreads();
  float total = shared[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; ++w) total = Kind::combine(total, shared[w]);
  return total;
}

// What the chunks of a row before this one sum up to, once `own` is known. `status` is that of the row.
template <class Kind, int kThreads>
MUCC_DEVICE float scan_before(unsigned long long* status, ScanShape const& shape, int64_t chunk, float own) {
  __shared__ float shared[2][kThreads / 32];
  int64_t const group = chunk / shape.group, first = group * shape.group;
  unsigned long long* const groups = status + shape.chunks;
  if (threadIdx.x == 0) publish(status + chunk, own);
  float x = Kind::identity;
  for (int64_t i = first + threadIdx.x; i < chunk; i += kThreads) x = Kind::combine(x, await<1>(status + i, 0).of[0]);
  float const within = combine_block<Kind, kThreads>(x, shared[0]);
  if (threadIdx.x == 0 && chunk - first == shape.group - 1) publish(groups + group, Kind::combine(within, own));
  if (group == 0) return within;
  x = Kind::identity;
  for (int64_t i = threadIdx.x; i < group; i += kThreads) x = Kind::combine(x, await<1>(groups + i, 0).of[0]);
  return Kind::combine(combine_block<Kind, kThreads>(x, shared[1]), within);
}

// ---- rows: the innermost axis is scanned --------------------------------------------------------------------

// A few lanes of a warp, or all, walk along a row.
template <int V, class Work>
MUCC_DEVICE void scan_warps(Work const& work, Extents<Work::kRank> const& extents, ScanShape const& shape) {
  using Kind = typename Work::Kind;
  int const lanes = shape.lanes, lane = threadIdx.x & (lanes - 1);
  int64_t const row = (int64_t(blockIdx.x) * Work::kThreads + threadIdx.x) / lanes;
  bool const present = row < shape.rows;
  Position<Work::kRank, int64_t> p;
  p.template split<0, Work::kKept>(present ? row : 0, extents.of);
  float carry = Kind::identity;
#pragma unroll 2
  for (int64_t step = lane; step - lane < shape.length; step += lanes) {
    bool const here = present && step < shape.length;
    Lanes<V> const x = here ? scan_load<V>(work, p, step, shape.length) : Lanes<V>(Kind::identity);
    float const through = scan_warp<Kind>(combine_lanes<Kind>(x), lanes);
    float const left = __shfl_up_sync(~0u, through, 1);
    float const before = Kind::combine(carry, lane == 0 ? Kind::identity : left);
    carry = Kind::combine(carry, __shfl_sync(~0u, through, threadIdx.x % 32 | (lanes - 1)));
    if (here) scan_store(work, p, step, shape.length, scan_lanes<Work::kExclusive, Kind>(x, before));
  }
}

// A block walks along a row, or with kSplit has one chunk of it. Each warp has kItems * 32 steps side by side.
template <int V, int kGiven = 0, bool kSplit = false, class Work>
MUCC_DEVICE void scan_rows(Work const& work, Extents<Work::kRank> const& extents, ScanShape const& shape) {
  using Kind = typename Work::Kind;
  constexpr int kItems = kGiven ? kGiven : scan_items(V);
  constexpr int kWarps = Work::kThreads / 32;
  constexpr int kTile = Work::kThreads * kItems;
  __shared__ float totals[2][kWarps];
  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int64_t const row = kSplit ? blockIdx.x / shape.chunks : blockIdx.x;
  int64_t const chunk = kSplit ? blockIdx.x - row * shape.chunks : 0;
  int64_t const length = shape.length;
  int64_t const end = kSplit ? (chunk + 1) * kTile : length;
  Position<Work::kRank, int64_t> p;
  p.template split<0, Work::kKept>(row, extents.of);
  float carry = Kind::identity;
  int parity = 0;
  for (int64_t tile = chunk * kTile; tile < end; tile += kTile, parity ^= 1) {
    int64_t const first = tile + warp * (32 * kItems) + lane;
    Lanes<V> x[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      int64_t const step = first + 32 * k;
      x[k] = step < length ? scan_load<V>(work, p, step, length) : Lanes<V>(Kind::identity);
    }
    float total = Kind::identity;
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      float const through = scan_warp<Kind>(combine_lanes<Kind>(x[k]));
      float const left = __shfl_up_sync(~0u, through, 1);
      x[k] = scan_lanes<Work::kExclusive, Kind>(x[k], Kind::combine(total, lane == 0 ? Kind::identity : left));
      total = Kind::combine(total, __shfl_sync(~0u, through, 31));
    }
    if (lane == 0) totals[parity][warp] = total;
    __syncthreads();
    float prefix = Kind::identity, all = Kind::identity;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) prefix = Kind::combine(prefix, totals[parity][w]);
      all = Kind::combine(all, totals[parity][w]);
    }
    if constexpr (kSplit) {
      unsigned long long* const status =
          shape.status + row * (shape.chunks + (shape.chunks + shape.group - 1) / shape.group);
      carry = scan_before<Kind, Work::kThreads>(status, shape, chunk, all);
    }
    prefix = Kind::combine(carry, prefix);
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      int64_t const step = first + 32 * k;
      if (step < length) scan_store(work, p, step, length, behind<Kind>(prefix, x[k]));
    }
    carry = Kind::combine(carry, all);
  }
}

// ---- columns: the innermost axis is kept --------------------------------------------------------------------

// Elements of V columns, one by one.
template <class Kind, int V>
MUCC_DEVICE Lanes<V> combine_each(Lanes<V> a, Lanes<V> const& b) {
#pragma unroll
  for (int v = 0; v < V; ++v) a.of[v] = Kind::combine(a.of[v], b.of[v]);
  return a;
}

template <class Kind, int V, class F>
MUCC_DEVICE Lanes<V> shuffled(Lanes<V> x, F const& shuffle) {
#pragma unroll
  for (int v = 0; v < V; ++v) x.of[v] = shuffle(x.of[v]);
  return x;
}

// Columns of a block: each of `lanes` lanes of a warp has V, and the warp 32 / lanes steps side by side.
template <int V, int kThreads>
struct Columns {
  static constexpr int kWarps = kThreads / 32;
  int lanes, place, warp;  // `place` is the lane's among the steps of its warp

  // Combines over all steps of a block, the same for each of them. `totals` is shared, and free before.
  template <class Kind>
  MUCC_DEVICE Lanes<V> combine(Lanes<V> x, float (&totals)[kWarps][V][32]) const {
    for (int d = lanes; d < 32; d *= 2)
      x = combine_each<Kind>(x, shuffled<Kind>(x, [&](float y) { return __shfl_xor_sync(~0u, y, d); }));
    return before<Kind>(x, totals, kWarps);
  }

  // Combines values of the first `count` warps, which all lanes of a column have.
  template <class Kind>
  MUCC_DEVICE Lanes<V> before(Lanes<V> const& x, float (&totals)[kWarps][V][32], int count) const {
    int const lane = threadIdx.x % 32;
#pragma unroll
    for (int v = 0; v < V; ++v) totals[warp][v][lane] = x.of[v];
    __syncthreads();
    return sum<Kind>(totals, count);
  }

  template <class Kind>
  MUCC_DEVICE Lanes<V> sum(float const (&totals)[kWarps][V][32], int count) const {
    int const lane = threadIdx.x % 32;
    Lanes<V> all(Kind::identity);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (w >= count) break;
#pragma unroll
      for (int v = 0; v < V; ++v) all.of[v] = Kind::combine(all.of[v], totals[w][v][lane]);
    }
    return all;
  }
};

// A block walks down its columns, or with kSplit has one chunk of them. A warp has kItems times its steps side by side.
template <int V, bool kSplit, class Work>
MUCC_DEVICE void scan_columns(Work const& work, Extents<Work::kRank> const& extents, ScanShape const& shape) {
  using Kind = typename Work::Kind;
  constexpr int kItems = scan_items(V);
  constexpr int kWarps = Work::kThreads / 32;
  __shared__ float totals[2][kWarps][V][32];
  int const lanes = shape.lanes, lane = threadIdx.x % 32, steps = 32 / lanes;
  Columns<V, Work::kThreads> const columns{lanes, lane / lanes, int(threadIdx.x) / 32};
  int64_t const strip = kSplit ? blockIdx.x / shape.chunks : blockIdx.x;
  int64_t const chunk = kSplit ? blockIdx.x - strip * shape.chunks : 0;
  int64_t const column = strip * lanes + (lane & (lanes - 1)), length = shape.length;
  int64_t const height = kWarps * kItems * steps;
  int64_t const end = kSplit ? (chunk + 1) * height : length;
  bool const present = column < shape.rows;
  Position<Work::kRank, int64_t> p;
  p.template split<0, Work::kKept>(present ? column : 0, extents.of);
  p.at[Work::kKept - 1] *= V;
  Lanes<V> carry(Kind::identity);
  int parity = 0;
  for (int64_t tile = chunk * height; tile < end; tile += height, parity ^= 1) {
    int64_t const first = tile + columns.warp * kItems * steps + columns.place;
    Lanes<V> x[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      int64_t const step = first + k * steps;
      x[k] = present && step < length ? scan_load<V>(work, p, step, length) : Lanes<V>(Kind::identity);
    }
    Lanes<V> total(Kind::identity);
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      Lanes<V> const own = x[k];
      Lanes<V> through = own, left(Kind::identity), all = own;
      if (steps > 1) {
        for (int d = lanes; d < 32; d *= 2) {
          Lanes<V> const other = shuffled<Kind>(through, [&](float y) { return __shfl_up_sync(~0u, y, d); });
          if (lane >= d) through = combine_each<Kind>(other, through);
        }
        Lanes<V> const previous = shuffled<Kind>(through, [&](float y) { return __shfl_up_sync(~0u, y, lanes); });
        if (lane >= lanes) left = previous;
        all = shuffled<Kind>(through, [&](float y) { return __shfl_sync(~0u, y, 32 - lanes + (lane & (lanes - 1))); });
      }
      x[k] = combine_each<Kind>(total, Work::kExclusive ? left : through);
      total = combine_each<Kind>(total, all);
    }
    Lanes<V> prefix = columns.template before<Kind>(total, totals[parity], columns.warp);
    Lanes<V> const all = columns.template sum<Kind>(totals[parity], kWarps);
    if constexpr (kSplit) {
      // The lanes of a column share the chunks before this one.
      int64_t const group = chunk / shape.group, begin = group * shape.group;
      int64_t const groups = (shape.chunks + shape.group - 1) / shape.group;
      int const width = lanes * V, at = lane & (lanes - 1), share = Work::kThreads / lanes;
      unsigned long long* const status = shape.status + strip * (shape.chunks + groups) * width + at;
      unsigned long long* const sums = status + shape.chunks * width;
      bool const speaks = present && int(threadIdx.x) < lanes;
      int const mine = columns.warp * steps + columns.place;
      if (speaks) {
#pragma unroll
        for (int v = 0; v < V; ++v) publish(status + chunk * width + v * lanes, all.of[v]);
      }
      Lanes<V> within(Kind::identity);
      for (int64_t i = begin + mine; present && i < chunk; i += share)
        within = combine_each<Kind>(within, await<V>(status + i * width, lanes));
      within = columns.template combine<Kind>(within, totals[1]);
      if (speaks && chunk - begin == shape.group - 1) {
#pragma unroll
        for (int v = 0; v < V; ++v) publish(sums + group * width + v * lanes, Kind::combine(within.of[v], all.of[v]));
      }
      if (group > 0) {
        for (int64_t i = mine; present && i < group; i += share)
          carry = combine_each<Kind>(carry, await<V>(sums + i * width, lanes));
        __syncthreads();  // all have read what was shared before
        carry = columns.template combine<Kind>(carry, totals[1]);
      }
      carry = combine_each<Kind>(carry, within);
    }
    prefix = combine_each<Kind>(carry, prefix);
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      int64_t const step = first + k * steps;
      if (present && step < length) scan_store(work, p, step, length, combine_each<Kind>(prefix, x[k]));
    }
    carry = combine_each<Kind>(carry, all);
  }
}

}  // namespace mucc
