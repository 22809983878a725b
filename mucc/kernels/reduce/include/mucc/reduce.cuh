// Reduction kernels, with pointwise work before the reduction and behind it.
//
// The space has its kept axes first, then the reduced ones. The compiler writes `Op`, views of tensors, and `Work` upon it:
// `values<V>(position)` computes V neighbouring elements of each value to reduce, `store(position, results)` what is
// stored of a result. Each order of combination is fixed by the shape, so that results do not change from run to run.
#pragma once

#include <mucc/reduce.h>
#include <mucc/tickets.cuh>

namespace mucc {

// The innermost axis of those that are reduced where it is innermost of all, else of those that stay.
template <class Work>
inline constexpr int fast_axis = Work::kRows ? Work::kRank - 1 : Work::kKept - 1;

// V neighbouring elements of each of K values.
template <int V, int K>
struct Values {
  Lanes<V> of[K];
};

// ---- accumulators: words of 32 bits -------------------------------------------------------------------------

// An accumulator of one word. `number` is an element's index along the reduced axis.
template <class Kind>
struct Folded {
  static constexpr int kWords = 1;
  static MUCC_DEVICE void start(float* acc) { *acc = Kind::identity; }
  // Adds elements of which those that do not exist are left out. Pairs, then pairs of pairs: a sum's error grows with the
  // number of steps that follow each other.
  template <int kCount>
  static MUCC_DEVICE void add(float* acc, float (&x)[kCount], bool const (&exists)[kCount], int const*) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = exists[i] ? Kind::first(x[i]) : Kind::identity;
#pragma unroll
    for (int apart = 1; apart < kCount; apart *= 2) {
#pragma unroll
      for (int i = 0; i + apart < kCount; i += 2 * apart) x[i] = Kind::combine(x[i], x[i + apart]);
    }
    combine(acc, x);
  }
  static MUCC_DEVICE void combine(float* acc, float const* other) { *acc = Kind::combine(*acc, *other); }
  static MUCC_DEVICE float result(float const* acc) { return *acc; }
};

struct Larger {
  static constexpr float identity = -INFINITY;
  static MUCC_DEVICE bool precedes(float a, float b) { return a > b || (a != a && b == b); }
  static MUCC_DEVICE bool ties(float a, float b) { return a == b || (a != a && b != b); }
};
struct Smaller {
  static constexpr float identity = INFINITY;
  static MUCC_DEVICE bool precedes(float a, float b) { return a < b || (a != a && b == b); }
  static MUCC_DEVICE bool ties(float a, float b) { return Larger::ties(a, b); }
};
struct IntegerLarger {
  static constexpr float identity = IntegerMax::identity;
  static MUCC_DEVICE bool precedes(float a, float b) { return to_bits(a) > to_bits(b); }
  static MUCC_DEVICE bool ties(float a, float b) { return to_bits(a) == to_bits(b); }
};
struct IntegerSmaller {
  static constexpr float identity = IntegerMin::identity;
  static MUCC_DEVICE bool precedes(float a, float b) { return to_bits(a) < to_bits(b); }
  static MUCC_DEVICE bool ties(float a, float b) { return to_bits(a) == to_bits(b); }
};

// The index of the element that precedes the others, of those that tie the first: the element, then its index.
template <class Order>
struct Indexed {
  static constexpr int kWords = 2;
  static constexpr int kNone = 0x7fffffff;
  static MUCC_DEVICE void start(float* acc) { acc[0] = Order::identity, acc[1] = from_bits(kNone); }
  // Elements come in the order of their indices: one that ties precedes nothing but the start.
  template <int kCount>
  static MUCC_DEVICE void add(float* acc, float (&x)[kCount], bool const (&exists)[kCount], int const* numbers) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      bool const wins = exists[i] && (Order::precedes(x[i], acc[0]) || to_bits(acc[1]) == kNone);
      acc[0] = wins ? x[i] : acc[0];
      acc[1] = wins ? from_bits(numbers[i]) : acc[1];
    }
  }
  static MUCC_DEVICE void combine(float* acc, float const* other) {
    bool const wins = Order::precedes(other[0], acc[0]) ||
                      (Order::ties(other[0], acc[0]) && to_bits(other[1]) < to_bits(acc[1]));
    acc[0] = wins ? other[0] : acc[0];
    acc[1] = wins ? other[1] : acc[1];
  }
  static MUCC_DEVICE float result(float const* acc) { return acc[1]; }
};

// Several accumulators over the same elements. The counters in the folds are constants once the loops are unrolled.
template <class... Kinds>
struct Reductions {
  static constexpr int kCount = sizeof...(Kinds);
  static constexpr int kWords = (Kinds::kWords + ...);

  static MUCC_DEVICE void start(float (&acc)[kWords]) {
    int w = 0;
    ((Kinds::start(acc + w), w += Kinds::kWords), ...);
  }
  // Adds lanes `v` to below `v + kLanes` of kItems steps, in the order of steps.
  template <int kLanes, int V, int kItems>
  static MUCC_DEVICE void add(float (&acc)[kWords], Values<V, kCount> const (&values)[kItems], int v,
                              bool const (&exists)[kItems * kLanes], int const* numbers) {
    int w = 0, k = 0;
    ((add_value<Kinds, kLanes>(acc + w, values, k, v, exists, numbers), w += Kinds::kWords, ++k), ...);
  }
  template <class Kind, int kLanes, int V, int kItems>
  static MUCC_DEVICE void add_value(float* acc, Values<V, kCount> const (&values)[kItems], int k, int v,
                                    bool const (&exists)[kItems * kLanes], int const* numbers) {
    float x[kItems * kLanes];
#pragma unroll
    for (int i = 0; i < kItems * kLanes; ++i) x[i] = values[i / kLanes].of[k].of[v + i % kLanes];
    Kind::add(acc, x, exists, numbers);
  }
  static MUCC_DEVICE void combine(float (&acc)[kWords], float const (&other)[kWords]) {
    int w = 0;
    ((Kinds::combine(acc + w, other + w), w += Kinds::kWords), ...);
  }
  template <class Work, class P>
  static MUCC_DEVICE void store(Work const& work, P const& p, float const (&acc)[kWords]) {
    float results[kCount];
    int w = 0, k = 0;
    ((results[k] = Kinds::result(acc + w), w += Kinds::kWords, ++k), ...);
    work.store(p, results);
  }
};

// The elements that a step has: those of a whole vector.
struct WholeSteps {
  static constexpr bool kWhole = true;
  template <int kLanes, class Index>
  MUCC_DEVICE bool has(Index step, int, Index end) const { return step < end; }
  template <int kLanes, class Index>
  MUCC_DEVICE int number(Index step, int lane) const { return int(step * kLanes + lane); }
};

// The same of rows that lie one behind the other and have no whole number of vectors: steps are the vectors of memory, of
// which the first begins `shift` lanes before the row, and the last one may end behind it.
struct ShiftedSteps {
  static constexpr bool kWhole = false;
  uint32_t shift, length;
  template <int kLanes, class Index>
  MUCC_DEVICE bool has(Index step, int lane, Index end) const {
    return step < end && uint32_t(number<kLanes>(step, lane)) < length;
  }
  template <int kLanes, class Index>
  MUCC_DEVICE int number(Index step, int lane) const { return int(step * kLanes + lane) - int(shift); }
};

// Adds kItems steps, `stride` apart, that were loaded together; those behind the end are none. `acc` is the accumulator of
// each lane of a step, or the one of all.
template <class Kinds, int kWidth, int V, int kItems, class Index, class Steps = WholeSteps>
MUCC_DEVICE void add_steps(float (&acc)[kWidth][Kinds::kWords], Values<V, Kinds::kCount> const (&x)[kItems], Index i,
                           Index end, Index stride, Steps const& steps = {}) {
  static_assert(kWidth == 1 || kWidth == V);
  constexpr int kLanes = V / kWidth;  // that share an accumulator
  bool const all = Steps::kWhole && i + (kItems - 1) * stride < end;
  bool exists[kItems * kLanes];
  int numbers[kItems * kLanes];
#pragma unroll
  for (int k = 0; k < kItems * kLanes; ++k) {
    Index const step = i + k / kLanes * stride;
    exists[k] = all || steps.template has<kLanes>(step, k % kLanes, end);
    numbers[k] = steps.template number<kLanes>(step, k % kLanes);
  }
#pragma unroll
  for (int w = 0; w < kWidth; ++w) Kinds::template add<kLanes>(acc[w], x, w * kLanes, exists, numbers);
}

// ---- between threads ------------------------------------------------------------------------------------------

// Combines over groups of `lanes` lanes of a warp, a power of two; the first of each has the result.
template <class Kinds>
MUCC_DEVICE void combine_lanes(float (&acc)[Kinds::kWords], int lanes = 32) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    if (d >= lanes) continue;
    float other[Kinds::kWords];
#pragma unroll
    for (int w = 0; w < Kinds::kWords; ++w) other[w] = __shfl_down_sync(~0u, acc[w], d);
    Kinds::combine(acc, other);
  }
}

// Combines over a block; thread 0 has the result.
template <class Kinds, int kThreads>
MUCC_DEVICE void combine_block(float (&acc)[Kinds::kWords]) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float partial[kWarps][Kinds::kWords];
  combine_lanes<Kinds>(acc);
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int w = 0; w < Kinds::kWords; ++w) partial[threadIdx.x / 32][w] = acc[w];
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    Kinds::start(acc);
    if (threadIdx.x < kWarps) {
#pragma unroll
      for (int w = 0; w < Kinds::kWords; ++w) acc[w] = partial[threadIdx.x][w];
    }
    combine_lanes<Kinds>(acc, kWarps);
  }
}

// ---- between blocks -------------------------------------------------------------------------------------------

MUCC_DEVICE float read_partial(float const* word) {
#if defined(__CUDA_ARCH__)
  float x;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(word) : "memory");
  return x;
#else
  return *word;
#endif
}

// ---- rows: the innermost axis is reduced ----------------------------------------------------------------------

// Adds steps of a row to the accumulators, kItems of them at a time, `stride` apart: those from `i` on, and again from `round` behind it. Behind the end the last step is loaded again,
// so that no branch lies between loads.
template <int V, int kItems, class Index, class Work, class P>
MUCC_DEVICE void walk_row(Work const& work, Extents<Work::kRank> const& extents, P& p, Index i, Index end, Index stride,
                          Index round, float (&acc)[1][Work::Kinds::kWords]) {
  using Kinds = typename Work::Kinds;
  if constexpr (Work::kShifted && V > 1) {
    uint32_t const length = uint32_t(extents.of[Work::kRank - 1]);
    ShiftedSteps const steps{uint32_t(uint64_t(p.at[0]) * length % V), length};
    end = (steps.shift + length + V - 1) / V;
    Position<Work::kRank, int64_t> q;  // the first lane may be before the row
#pragma unroll
    for (int a = 0; a < Work::kRank; ++a) q.at[a] = p.at[a];
    for (; i < end; i += round) {
      Values<V, Kinds::kCount> x[kItems];
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        Index const step = i + k * stride;
        q.at[Work::kRank - 1] = int64_t(step < end ? step : end - 1) * V - steps.shift;
        x[k] = work.template values<V>(q);
      }
      add_steps<Kinds>(acc, x, i, end, stride, steps);
    }
    return;
  }
  for (; i < end; i += round) {
    Values<V, Kinds::kCount> x[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      Index const step = i + k * stride;
      split_known<Work, fast_axis<Work>, V, Work::kKept, Work::kRank>(p, step < end ? step : end - 1, extents.of);
      p.at[Work::kRank - 1] *= V;
      x[k] = work.template values<V>(p);
    }
    add_steps<Kinds>(acc, x, i, end, stride);
  }
}

// A few lanes of a warp, or all, walk along a row.
template <int V, class Index, class Work>
MUCC_DEVICE void reduce_warps(Work const& work, Extents<Work::kRank> const& extents, ReduceShape const& shape) {
  using Kinds = typename Work::Kinds;
  int const lanes = shape.lanes, lane = threadIdx.x & (lanes - 1);
  int64_t const row = (int64_t(blockIdx.x) * Work::kThreads + threadIdx.x) / lanes;
  bool const present = row < shape.results;
  Position<Work::kRank, Index> p;
  split_known<Work, fast_axis<Work>, V, 0, Work::kKept>(p, present ? Index(row) : Index(0), extents.of);
  float acc[1][Kinds::kWords];
  Kinds::start(acc[0]);
  constexpr int kMost = reduce_items(V, Work::kStreams), kItems = kMost < kLaneItems ? kMost : kLaneItems;
  if (present) walk_row<V, kItems, Index>(work, extents, p, lane, Index(shape.length), lanes, kItems * lanes, acc);
  combine_lanes<Kinds>(acc[0], lanes);
  if (present && lane == 0) Kinds::store(work, p, acc[0]);
}

// A block walks along a row, or takes a round of it in turn with others: together they walk along memory.
template <int V, class Index, class Work>
MUCC_DEVICE void reduce_rows(Work const& work, Extents<Work::kRank> const& extents, ReduceShape const& shape) {
  using Kinds = typename Work::Kinds;
  constexpr int kThreads = Work::kThreads;
  Index const row = blockIdx.x / unsigned(shape.tickets.parts);
  int const part = int(blockIdx.x - row * unsigned(shape.tickets.parts));
  constexpr int kItems = reduce_items(V, Work::kStreams);
  Index const round = Index(kItems * kThreads);
  Position<Work::kRank, Index> p;
  split_known<Work, fast_axis<Work>, V, 0, Work::kKept>(p, row, extents.of);
  float of[1][Kinds::kWords];
  auto& acc = of[0];
  Kinds::start(acc);
  walk_row<V, kItems, Index>(work, extents, p, Index(part) * round + threadIdx.x, Index(shape.length), Index(kThreads),
                             Index(shape.tickets.parts) * round, of);
  combine_block<Kinds, kThreads>(acc);
  if (shape.tickets.parts > 1) {
    float* const partials = shape.partials + int64_t(row) * shape.tickets.parts * Kinds::kWords;
    if (threadIdx.x == 0) {
#pragma unroll
      for (int w = 0; w < Kinds::kWords; ++w) partials[part * Kinds::kWords + w] = acc[w];
    }
    if (!ends_last<Work>(shape.tickets, unsigned(row))) return;
    Kinds::start(acc);
#pragma unroll 4
    for (int i = threadIdx.x; i < shape.tickets.parts; i += kThreads) {
      float other[Kinds::kWords];
#pragma unroll
      for (int w = 0; w < Kinds::kWords; ++w) other[w] = read_partial(partials + i * Kinds::kWords + w);
      Kinds::combine(acc, other);
    }
    combine_block<Kinds, kThreads>(acc);
  }
  if (threadIdx.x == 0) Kinds::store(work, p, acc);
}

// ---- columns: the innermost axis is kept ------------------------------------------------------------------------

// Combines over the groups of `lanes` threads of a block, each with V columns a thread, and calls `use(lane, v, words)`
// once for each column.
template <int V, class Kinds, int kThreads, class F>
MUCC_DEVICE void combine_groups(float (&acc)[V][Kinds::kWords], int lanes, F const& use) {
  constexpr int kWords = Kinds::kWords;
  constexpr int kMost = kWords > 4 ? 1 : 8 / kWords, kAtOnce = kMost < V ? kMost : V;
  __shared__ float shared[kAtOnce][kWords][kThreads];
  // The groups of a warp come together by shuffles.
  int const lane = threadIdx.x % 32, held = lanes < 32 ? kThreads / 32 * lanes : kThreads;
  int const place = lanes < 32 ? threadIdx.x / 32 * lanes + lane : threadIdx.x;
  for (int d = 16; d >= lanes; d /= 2) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      float other[kWords];
#pragma unroll
      for (int w = 0; w < kWords; ++w) other[w] = __shfl_down_sync(~0u, acc[v][w], d);
      Kinds::combine(acc[v], other);
    }
  }
#pragma unroll
  for (int first = 0; first < V; first += kAtOnce) {
    __syncthreads();  // all have read what was shared before
#pragma unroll
    for (int v = 0; v < kAtOnce; ++v) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        if (lanes >= 32 || lane < lanes) shared[v][w][place] = acc[first + v][w];
      }
    }
    __syncthreads();
    for (int column = threadIdx.x; column < kAtOnce * lanes; column += kThreads) {
      int const v = column / lanes, own = column & (lanes - 1);
      float total[kWords];
#pragma unroll
      for (int w = 0; w < kWords; ++w) total[w] = shared[v][w][own];
      for (int from = own + lanes; from < held; from += lanes) {
        float other[kWords];
#pragma unroll
        for (int w = 0; w < kWords; ++w) other[w] = shared[v][w][from];
        Kinds::combine(total, other);
      }
      use(own, first + v, total);
    }
  }
}

// A block walks down a strip of columns, or down a chunk of it: `lanes` threads have V columns each, and the groups of
// so many threads take steps in turn.
template <int V, class Index, class Work>
MUCC_DEVICE void reduce_columns(Work const& work, Extents<Work::kRank> const& extents, ReduceShape const& shape) {
  using Kinds = typename Work::Kinds;
  constexpr int kThreads = Work::kThreads, kWords = Kinds::kWords;
  constexpr int kItems = reduce_items(V, Work::kStreams);
  int const lanes = shape.lanes, groups = kThreads / lanes;
  int const lane = threadIdx.x & (lanes - 1), group = threadIdx.x / lanes;
  unsigned const strip = blockIdx.x / unsigned(shape.tickets.parts);
  int const part = int(blockIdx.x - strip * unsigned(shape.tickets.parts));
  int64_t const first = int64_t(strip) * lanes;
  // Lanes behind the last column walk down that one again.
  Index const column = Index(first + lane < shape.results ? first + lane : shape.results - 1);
  Index const begin = Index(part * shape.chunk);
  Index const end = shape.length - begin < shape.chunk ? shape.length : begin + shape.chunk;
  Position<Work::kRank, Index> p;
  split_known<Work, fast_axis<Work>, V, 0, Work::kKept>(p, column, extents.of);
  p.at[Work::kKept - 1] *= V;
  float acc[V][kWords];
#pragma unroll
  for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
  for (Index i = begin + group; i < end; i += kItems * groups) {
    Values<V, Kinds::kCount> x[kItems];
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      Index const step = i + k * groups;
      split_known<Work, fast_axis<Work>, V, Work::kKept, Work::kRank>(p, step < end ? step : end - 1, extents.of);
      x[k] = work.template values<V>(p);
    }
    add_steps<Kinds>(acc, x, i, end, Index(groups));
  }
  auto const store = [&](int from, int v, float const(&total)[kWords]) {
    if (first + from >= shape.results) return;
    Position<Work::kRank, Index> q;
    split_known<Work, fast_axis<Work>, V, 0, Work::kKept>(q, Index(first + from), extents.of);
    split_known<Work, fast_axis<Work>, V, Work::kKept, Work::kRank>(q, Index(0), extents.of);
    q.at[Work::kKept - 1] = q.at[Work::kKept - 1] * V + v;
    Kinds::store(work, q, total);
  };
  if (shape.tickets.parts == 1) {
    combine_groups<V, Kinds, kThreads>(acc, lanes, store);
    return;
  }
  float* const partials = shape.partials + int64_t(strip) * shape.tickets.parts * kWords * V * lanes;
  combine_groups<V, Kinds, kThreads>(acc, lanes, [&](int from, int v, float const(&total)[kWords]) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) partials[((int64_t(part) * kWords + w) * V + v) * lanes + from] = total[w];
  });
  if (!ends_last<Work>(shape.tickets, strip)) return;
#pragma unroll
  for (int v = 0; v < V; ++v) Kinds::start(acc[v]);
  constexpr int kAtOnce = V * kWords > 16 ? 1 : 16 / (V * kWords);
  for (int i = group; i < shape.tickets.parts; i += kAtOnce * groups) {
    float others[kAtOnce][V][kWords];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      int const from = i + k * groups < shape.tickets.parts ? i + k * groups : i;
#pragma unroll
      for (int v = 0; v < V; ++v) {
#pragma unroll
        for (int w = 0; w < kWords; ++w)
          others[k][v][w] = read_partial(partials + ((int64_t(from) * kWords + w) * V + v) * lanes + lane);
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k * groups >= shape.tickets.parts) break;
#pragma unroll
      for (int v = 0; v < V; ++v) Kinds::combine(acc[v], others[k][v]);
    }
  }
  combine_groups<V, Kinds, kThreads>(acc, lanes, store);
}

}  // namespace mucc
