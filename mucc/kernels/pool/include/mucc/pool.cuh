// Pooling: each result is the largest element, or the mean, of a window of the source.
//
// The space has axes without windows first, kKept of them, then kPooled axes with windows of kSize taps kDilation apart,
// which move by kStride and begin kPad before the source. The compiler writes `Op`, views of tensors, and `Work` upon it:
// `values<V>(position)` computes V neighbouring elements of the source, `store<V>(position, pooled)` V results.
// kOutside[a] says that windows reach outside of the source along an axis, kVaries[a] that not all of them count as many
// elements. kDivisor is what means divide by where it is not 0.
#pragma once

#include <mucc/pool.h>
#include <mucc/view.cuh>

namespace mucc {

template <class Kind, int V>
MUCC_DEVICE void pool_combine(Lanes<V>& a, Lanes<V> const& b) {
#pragma unroll
  for (int v = 0; v < V; ++v) a.of[v] = Kind::combine(a.of[v], b.of[v]);
}

// The first element of the window of a result along an axis, if there is no padding before it.
template <int a, class Work, class P>
MUCC_DEVICE int64_t pool_first(P const& result) {
  constexpr int kStride = Work::kStride[a], kPad = Work::kPad[a];
  return int64_t(result.at[Work::kKept + a]) * kStride - kPad;
}

// Moves to an element of the source along an axis, or where there is none to the nearest one. Says whether there is one.
template <int a, class Work, class P>
MUCC_DEVICE bool pool_move(P& p, int64_t place, Extents<Work::kPooled> const& source) {
  bool inside = true;
  if constexpr (Work::kOutside[a]) {
    inside = place >= 0 && place < source.of[a];
    place = place < 0 ? 0 : inside ? place : source.of[a] - 1;
  }
  p.at[Work::kKept + a] = place;
  return inside;
}

template <int a, bool kHas, class Work, class P, class Q>
MUCC_DEVICE bool pool_tap(P const& result, Q& p, int tap, Extents<Work::kPooled> const& source) {
  if constexpr (kHas) {
    constexpr int kDilation = Work::kDilation[a];
    return pool_move<a, Work>(p, pool_first<a, Work>(result) + tap * kDilation, source);
  } else {
    return true;
  }
}

// Combines the taps of the window of a result along those axes whose bits are set. Along the others `p` says where.
template <int V, unsigned kAxes, class Work, class P>
MUCC_DEVICE Lanes<V> pool_taps(Work const& work, P const& result, P p, Extents<Work::kPooled> const& source) {
  constexpr bool kHas0 = kAxes & 1, kHas1 = kAxes & 2, kHas2 = kAxes & 4;
  constexpr int kTaps0 = kHas0 ? Work::kSize[0] : 1, kTaps1 = kHas1 ? Work::kSize[Work::kPooled > 1] : 1,
                kTaps2 = kHas2 ? Work::kSize[Work::kPooled - 1] : 1;
  constexpr int kAll = kTaps0 * kTaps1 * kTaps2, kUnroll = kAll <= 32 ? kAll : 4;
  Lanes<V> total(Work::Kind::identity);
#pragma unroll kUnroll
  for (int t = 0; t < kAll; ++t) {
    bool inside = pool_tap<0, kHas0, Work>(result, p, t / (kTaps1 * kTaps2), source);
    inside = pool_tap<1, kHas1, Work>(result, p, t / kTaps2 % kTaps1, source) && inside;
    inside = pool_tap<2, kHas2, Work>(result, p, t % kTaps2, source) && inside;
    Lanes<V> const x = work.template values<V>(p);
    pool_combine<typename Work::Kind>(total, inside ? x : Lanes<V>(Work::Kind::identity));
  }
  return total;
}

// How many elements a mean divides by.
template <int a, class Work, class P>
MUCC_DEVICE float pool_count(P const& result, Extents<Work::kPooled> const& source) {
  if constexpr (!Work::kVaries[a]) {
    constexpr int kSize = Work::kSize[a];
    return float(kSize);
  } else {
    constexpr int kSize = Work::kSize[a], kPad = Work::kCountPad ? Work::kPad[a] : 0;
    int64_t const first = pool_first<a, Work>(result), end = first + kSize, last = source.of[a] + kPad;
    int64_t const begin = Work::kCountPad || first > 0 ? first : 0;
    return float((end < last ? end : last) - begin);
  }
}

template <int V, class Work, class P>
MUCC_DEVICE void pool_store(Work const& work, P const& p, Extents<Work::kPooled> const& source, Lanes<V> y) {
  if constexpr (Work::kMean) {
    float count = float(Work::kDivisor);
    if constexpr (Work::kDivisor == 0) {
      count = pool_count<0, Work>(p, source);
      if constexpr (Work::kPooled > 1) count *= pool_count<1, Work>(p, source);
      if constexpr (Work::kPooled > 2) count *= pool_count<2, Work>(p, source);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) y.of[v] = y.of[v] / count;
  }
  work.store(p, y);
}

// ---- rows: the last axis is contiguous ----------------------------------------------------------------------

// A block pools along all axes but the last into shared memory, vectors of columns side by side, then along the last one.
template <int V, class Work>
MUCC_DEVICE void pool_rows(Work const& work, Extents<Work::kRank> const& extents, Extents<Work::kPooled> const& source,
                           PoolShape const& shape) {
  using Kind = typename Work::Kind;
  constexpr int kLast = Work::kPooled - 1, kColumn = Work::kRank - 1, kFold = pool_fold<Work>(V);
  constexpr int kStride = Work::kStride[kLast], kPad = Work::kPad[kLast], kDilation = Work::kDilation[kLast];
  constexpr int kLeft = Work::kSize[kLast] / kFold, kUnroll = kLeft <= 32 ? kLeft : 8;
  constexpr unsigned kDown = (1u << kLast) - 1;
  constexpr int kTaps = (kLast > 0 ? Work::kSize[0] : 1) * (kLast > 1 ? Work::kSize[1] : 1);
  constexpr int kBatch = kTaps >= 8 ? 1 : kTaps >= 4 ? 2 : 4;  // slots whose loads are in flight together
  alignas(16) __shared__ float tile[Work::kTile];
  __shared__ Position<Work::kRank, int64_t> rows[Work::kMostRows];
  int64_t const block = int64_t(blockIdx.x) / shape.tiles, part = int64_t(blockIdx.x) - block * shape.tiles;
  int64_t const first_row = block * shape.height;
  int const height = int(shape.rows - first_row < shape.height ? shape.rows - first_row : shape.height);
  if (int(threadIdx.x) < height) {
    int64_t const row = first_row + threadIdx.x;
    if (shape.rows <= 0xffffffff) {
      Position<Work::kRank, uint32_t> p;
      p.template split<0, kColumn>(uint32_t(row), extents.of);
#pragma unroll
      for (int a = 0; a < kColumn; ++a) rows[threadIdx.x].at[a] = p.at[a];
    } else {
      rows[threadIdx.x].template split<0, kColumn>(row, extents.of);
    }
  }
  __syncthreads();
  int64_t const start = part * shape.width, columns = source.of[kLast];
  int64_t const first = start * kStride - kPad - shape.ahead;
  int const steps = height * shape.slots.by;
  for (int from = int(threadIdx.x); from < steps; from += kBatch * Work::kThreads) {
    Lanes<V> x[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      // Loads without branches are in flight together: what is not wanted is read elsewhere, and dropped.
      int const i = from + b * Work::kThreads, step = i < steps ? i : from;
      int const row = step / shape.slots;
      int64_t const column = first + int64_t(step - row * shape.slots.by) * V;
      bool const inside = column >= 0 && column < columns;
      auto p = rows[row];
      p.at[kColumn] = column < 0 ? 0 : inside ? column : columns - V;
      x[b] = pool_taps<V, kDown>(work, rows[row], p, source);
      if (!inside) x[b] = Lanes<V>(Kind::identity);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      int const i = from + b * Work::kThreads;
      if (i >= steps) break;
      // Rows of `pitch` floats are what their slots hold, one row after the other.
      Pack<float, V / kFold> folded;
#pragma unroll
      for (int g = 0; g < V / kFold; ++g) {
        folded.of[g] = x[b].of[g * kFold];
#pragma unroll
        for (int f = 1; f < kFold; ++f) folded.of[g] = Kind::combine(folded.of[g], x[b].of[g * kFold + f]);
      }
      *reinterpret_cast<Pack<float, V / kFold>*>(tile + i * (V / kFold)) = folded;
    }
  }
  __syncthreads();
  int const beside = int(threadIdx.x) / shape.lanes, step = Work::kThreads / shape.lanes.by;
  if (beside >= step) return;
  int64_t const left = extents.of[kColumn] - start;
  int const width = left < shape.width ? int(left) : shape.width;
  for (int row = beside; row < height; row += step) {
    auto p = rows[row];
    float const* const taps = tile + row * shape.pitch + shape.ahead / kFold;
#pragma unroll 2
    for (int column = int(threadIdx.x) - beside * shape.lanes.by; column < width; column += shape.lanes.by) {
      float const* const from = taps + column * (kStride / kFold);
      Lanes<1> y(from[0]);
#pragma unroll kUnroll
      for (int t = 1; t < kLeft; ++t) y.of[0] = Kind::combine(y.of[0], from[t * kDilation]);
      p.at[kColumn] = start + column;
      pool_store(work, p, source, y);
    }
  }
}

// ---- strips: the last axis is contiguous, and windows are small ---------------------------------------------------

// Where the vectors of V columns lie from which a thread computes K neighbouring results. The first result's window
// begins kAhead columns into the first of kVectors vectors, which is kFirst vectors from the strip.
template <int V, int K, class Work>
struct PoolStrip {
  static constexpr int kLast = Work::kPooled - 1, kSize = Work::kSize[kLast], kStride = Work::kStride[kLast];
  static constexpr int kPad = Work::kPad[kLast], kDilation = Work::kDilation[kLast];
  static constexpr int kFirst = -((kPad + V - 1) / V), kAhead = -kPad - kFirst * V;
  static constexpr int kReach = kAhead + (K - 1) * kStride + kDilation * (kSize - 1) + 1;
  static constexpr int kVectors = (kReach + V - 1) / V;

  // Whether a window has an element of a vector.
  static MUCC_DEVICE constexpr bool wants(int vector) {
    for (int k = 0; k < K; ++k)
      for (int t = 0; t < kSize; ++t)
        if ((kAhead + k * kStride + t * kDilation) / V == vector) return true;
    return false;
  }
};

// Whether the window of one of `kRun` neighbouring results has the element `ahead` after the first one's begin.
template <int a, int kRun, class Work>
MUCC_DEVICE constexpr bool pool_wants(int ahead) {
  constexpr int kSize = Work::kSize[a], kStride = Work::kStride[a], kDilation = Work::kDilation[a];
  for (int r = 0; r < kRun; ++r) {
    int const tap = ahead - r * kStride;
    if (tap >= 0 && tap < kDilation * (kSize - 1) + 1 && tap % kDilation == 0) return true;
  }
  return false;
}

// Whether that element is inside of the source wherever whole runs of results begin.
template <int a, int kRun, class Work>
MUCC_DEVICE constexpr bool pool_inside(int ahead) {
  constexpr int kReach = Work::kDilation[a] * (Work::kSize[a] - 1) + 1, kPad = Work::kPad[a];
  return !Work::kTail && Work::kStride[a] == 1 && ahead >= kPad && ahead < kReach - kPad + kRun - 1;
}

// How many elements along an axis a mean divides by, of a window that may be behind the last one.
template <int a, class Work>
MUCC_DEVICE float pool_count_at(int64_t result, Extents<Work::kPooled> const& source) {
  Position<Work::kRank, int64_t> p;
  p.at[Work::kKept + a] = result;
  return pool_count<a, Work>(p, source);
}

MUCC_DEVICE constexpr int32_t signed_index(uint32_t i) { return int32_t(i); }
MUCC_DEVICE constexpr int64_t signed_index(uint64_t i) { return int64_t(i); }

template <bool kFirst, class P, class Q>
MUCC_DEVICE auto pool_either(P const& p, Q const& q) {
  if constexpr (kFirst)
    return p;
  else
    return q;
}

// Combines what the lanes of a warp have that a window reaches along a row, of which each has its own column.
template <class Work>
MUCC_DEVICE float pool_lanes(float mine, int64_t column, int64_t columns) {
  using Kind = typename Work::Kind;
  constexpr int a = Work::kPooled - 1, kSize = Work::kSize[a], kPad = Work::kPad[a], kDilation = Work::kDilation[a];
  int const lane = threadIdx.x % 32;
  float total = Kind::identity;
#pragma unroll
  for (int t = 0; t < kSize; ++t) {
    int const ahead = t * kDilation - kPad;
    float x = mine;
    if (ahead != 0) {
      x = __shfl_sync(0xffffffffu, mine, (lane + ahead) & 31);
      if (!(ahead < 0 ? column + ahead >= 0 : column + ahead < columns)) x = Kind::identity;
    }
    total = t == 0 ? x : Kind::combine(total, x);
  }
  return total;
}

// A thread has K neighbouring results of each of kRun rows. It reads each row of the source once, in vectors, reduces the
// windows along it in registers, and combines them down the rows. Results whose rows are no multiples of K are exchanged
// within a warp, so that neighbouring lanes store neighbouring ones. Where lanes read one column each, they combine it down the
// rows first, and then what the lanes beside them have: the outermost lanes of a warp have no results.
template <int V, int K, bool kLoose, class Index, class Work>
MUCC_DEVICE void pool_strips(Work const& work, Extents<Work::kRank> const& extents,
                             Extents<Work::kPooled> const& source, PoolStrips const& shape, Index total) {
  using Kind = typename Work::Kind;
  using Strip = PoolStrip<V, K, Work>;
  constexpr int kRank = Work::kRank, kKept = Work::kKept, kLast = Work::kPooled - 1, kColumn = kRank - 1;
  constexpr int kDown = kLast > 0 ? kLast - 1 : 0, kRow = kKept + kDown, kRun = Work::kRun;
  constexpr int kOuter = pool_beside<Work>(V), kHeld = Work::kThreads - Work::kThreads / 32 * 2 * kOuter;
  constexpr int kVectors = kOuter ? 1 : Strip::kVectors, kStride = Strip::kStride, kDilation = Strip::kDilation;
  constexpr int kRowStride = kLast > 0 ? Work::kStride[kDown] : 1, kRowDilation = kLast > 0 ? Work::kDilation[kDown] : 1;
  constexpr int kRowReach = kLast > 0 ? kRowDilation * (Work::kSize[kDown] - 1) + 1 : 1;
  constexpr int kRows = (kRun - 1) * kRowStride + kRowReach, kPlanes = kLast > 1 ? Work::kSize[0] : 1;
  constexpr bool kBeside = kOuter == 0 && (Work::kOutside[kLast] || kLoose);
  __shared__ float exchanged[kLoose ? Work::kThreads / 32 : 1][kLoose ? 32 * K : 1];

  Index const i = Index(blockIdx.x) * kHeld + threadIdx.x - Index((threadIdx.x / 32 * 2 + 1) * kOuter);
  bool const exists = i < total;
  if (!kLoose && kOuter == 0 && !exists) return;
  Position<kRank, Index> p;
  p.template split<0, kRank>(exists ? i : total - 1, extents.of);
  p.at[kColumn] *= K;
  if constexpr (kLast > 0) p.at[kRow] *= kRun;

  // With places of 64 bits the compiler adds a row to an address; sums of 32 bits it would have to let wrap around.
  Position<kRank, int64_t> place;
#pragma unroll
  for (int a = 0; a < kRank; ++a) place.at[a] = int64_t(p.at[a]);

  int64_t const columns = source.of[kLast], strip = place.at[kColumn] * kStride;
  Index column[kVectors];
  bool has_columns[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    int64_t const at = kOuter ? strip : strip + (Strip::kFirst + j) * V;
    has_columns[j] = !kBeside || (at >= 0 && at < columns);
    column[j] = Index(has_columns[j] ? at : at < 0 ? 0 : columns - V);
  }
  Lanes<K> y[kRun];
#pragma unroll
  for (int r = 0; r < kRun; ++r) y[r] = Lanes<K>(Kind::identity);
  using Signed = decltype(signed_index(Index()));
  int64_t const first = kLast > 0 ? pool_first<kDown, Work>(p) : 0;
#pragma unroll 1
  for (int plane = 0; plane < kPlanes; ++plane) {
    auto q = pool_either<kRowStride == 1 && !kLoose>(place, p);
    bool const has_plane = pool_tap<0, (kLast > 1), Work>(p, q, plane, source);
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      if (kLast > 0 && !pool_wants<kDown, kRun, Work>(j)) continue;
      bool has_row = has_plane;
      if constexpr (kLast > 0) {
        if ((Work::kOutside[kDown] || Work::kTail) && !pool_inside<kDown, kRun, Work>(j)) {
          // With narrow indices, rows are few enough for 32 bits.
          Signed const row = Signed(first) + j, last = Signed(source.of[kDown]) - 1;
          Signed const nearest = row < 0 ? 0 : row < last ? row : last;
          q.at[kRow] = nearest;
          has_row = has_row && nearest == row;
        } else {
          q.at[kRow] = first + j;
        }
      }
      float x[kVectors * V];
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        if (kOuter == 0 && !Strip::wants(v)) continue;
        q.at[kColumn] = column[v];
        Lanes<V> const some = work.template values<V>(q);
        bool const inside = has_row && has_columns[v];
#pragma unroll
        for (int e = 0; e < V; ++e) x[v * V + e] = inside ? some.of[e] : Kind::identity;
      }
      Lanes<K> along;
#pragma unroll
      for (int k = 0; k < K; ++k) {
        along.of[k] = x[kOuter ? k : Strip::kAhead + k * kStride];
#pragma unroll
        for (int t = 1; t < (kOuter ? 1 : Strip::kSize); ++t)
          along.of[k] = Kind::combine(along.of[k], x[Strip::kAhead + k * kStride + t * kDilation]);
      }
#pragma unroll
      for (int r = 0; r < kRun; ++r) {
        int const ahead = j - r * kRowStride;
        if (ahead >= 0 && ahead < kRowReach && ahead % kRowDilation == 0) pool_combine<Kind>(y[r], along);
      }
    }
  }

  [[maybe_unused]] int const lane = threadIdx.x % 32;
  if constexpr (kOuter > 0) {
#pragma unroll
    for (int r = 0; r < kRun; ++r) y[r].of[0] = pool_lanes<Work>(y[r].of[0], place.at[kColumn], columns);
    if (!exists || lane < kOuter || lane >= 32 - kOuter) return;
  }

  [[maybe_unused]] float counts[K];
  if constexpr (Work::kMean && Work::kDivisor == 0) {
    float before = 1;
    if constexpr (kLast > 1) before = pool_count_at<0, Work>(place.at[kKept], source);
#pragma unroll
    for (int k = 0; k < K; ++k) counts[k] = before * pool_count_at<kLast, Work>(place.at[kColumn] + k, source);
  }
  auto to = pool_either<!kLoose>(place, p);
  Index const begin = p.at[kColumn];
#pragma unroll
  for (int r = 0; r < kRun; ++r) {
    if constexpr (kLast > 0 && Work::kTail) {
      if (int64_t(to.at[kRow]) >= shape.rows) break;
    }
    if constexpr (Work::kMean) {
      float down = float(Work::kDivisor == 0 ? 1 : Work::kDivisor);
      if constexpr (kLast > 0 && Work::kDivisor == 0) down = pool_count_at<kDown, Work>(to.at[kRow], source);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        y[r].of[k] = fast_div(y[r].of[k], Work::kDivisor == 0 ? down * counts[k] : down);
      }
    }
    if constexpr (!kLoose) {
      work.store(to, y[r]);
    } else if (shape.warps) {
      // A warp has strips of one row.
      float(&mine)[32 * K] = exchanged[threadIdx.x / 32];
      *reinterpret_cast<Pack<float, K>*>(mine + lane * K) = *reinterpret_cast<Pack<float, K> const*>(&y[r]);
      __syncwarp();
      Index const start = begin - Index(lane * K);
#pragma unroll
      for (int k = 0; k < K; ++k) {
        to.at[kColumn] = start + Index(k * 32 + lane);
        if (exists && int64_t(to.at[kColumn]) < shape.columns) work.store(to, Lanes<1>(mine[k * 32 + lane]));
      }
      __syncwarp();
    } else if (exists) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        to.at[kColumn] = begin + Index(k);
        if (int64_t(to.at[kColumn]) < shape.columns) work.store(to, Lanes<1>(y[r].of[k]));
      }
    }
    if constexpr (kLast > 0) ++to.at[kRow];
  }
}

// ---- columns: an axis without a window is contiguous --------------------------------------------------------

// Each thread has V columns and kRun neighbouring results along kSlide, whose windows share what they read.
template <int V, class Index, class Work>
MUCC_DEVICE void pool_columns(Work const& work, Extents<Work::kRank> const& extents,
                              Extents<Work::kPooled> const& source, int64_t length, Index total) {
  using Kind = typename Work::Kind;
  constexpr int kRank = Work::kRank, kKept = Work::kKept, kSlide = Work::kSlide, a = kSlide - kKept;
  constexpr int kRun = Work::kRun, kStride = Work::kStride[a], kDilation = Work::kDilation[a];
  constexpr int kReach = kDilation * (Work::kSize[a] - 1) + 1, kSpan = (kRun - 1) * kStride + kReach;
  constexpr unsigned kOthers = ((1u << Work::kPooled) - 1) & ~(1u << a);
  constexpr int kUnroll = kSpan * Work::kOtherTaps <= 64 ? kSpan : 1;
  Index const step = Index(gridDim.x) * Work::kThreads;
  for (Index i = Index(blockIdx.x) * Work::kThreads + threadIdx.x; i < total; i += step) {
    Position<kRank, Index> p;
    if constexpr (Work::kFast == kRank - 1) {
      p.template split<0, kRank>(i, extents.of);
    } else {
      // The columns are neighbours, then the results of a plane.
      Index const columns = Index(extents.of[kKept - 1]), rest = i / columns, outer = Index(extents.of[kKept]);
      p.template split<kKept, kRank>(rest, extents.of);
      Index const before = p.at[kKept] / outer;
      p.at[kKept] -= before * outer;
      if constexpr (kKept > 1) p.template split<0, kKept - 1>(before, extents.of);
      p.at[kKept - 1] = (i - rest * columns) * V;
    }
    p.at[kSlide] *= kRun;
    int64_t const first = pool_first<a, Work>(p);
    Lanes<V> y[kRun];
#pragma unroll
    for (int r = 0; r < kRun; ++r) y[r] = Lanes<V>(Kind::identity);
#pragma unroll kUnroll
    for (int j = 0; j < kSpan; ++j) {
      bool wanted = false;
#pragma unroll
      for (int r = 0; r < kRun; ++r) {
        int const ahead = j - r * kStride;
        wanted = wanted || (ahead >= 0 && ahead < kReach && ahead % kDilation == 0);
      }
      if (!wanted) continue;
      auto q = p;
      bool const inside = first + j >= 0 && first + j < source.of[a];
      q.at[kSlide] = Index(first + j < 0 ? 0 : inside ? first + j : source.of[a] - 1);
      Lanes<V> x = pool_taps<V, kOthers>(work, p, q, source);
      if (!inside) x = Lanes<V>(Kind::identity);
#pragma unroll
      for (int r = 0; r < kRun; ++r) {
        int const ahead = j - r * kStride;
        if (ahead >= 0 && ahead < kReach && ahead % kDilation == 0) pool_combine<Kind>(y[r], x);
      }
    }
#pragma unroll
    for (int r = 0; r < kRun; ++r) {
      if (int64_t(p.at[kSlide]) < length) pool_store(work, p, source, y[r]);
      ++p.at[kSlide];
    }
  }
}

}  // namespace mucc
