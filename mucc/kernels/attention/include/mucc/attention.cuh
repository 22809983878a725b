// Attention without its scores in memory: each block has some queries, and passes over the keys and values that they see.
//
// Softmax is computed as the block goes: of each row it keeps the largest score so far, the sum of the powers, and the sum
// of the values weighted by them, which are scaled down when a larger score comes.
//
// The compiler writes `Op`, the operands, and `Work` upon it: `score(position, product)` is the score of a query and a key
// from their product, and `store<V>(position, results, to)` has `to` write what is computed of V neighbouring results.
// Positions are leading indices, query, and key or column.
#pragma once

#include <mucc/attention.h>
#include <mucc/shared.cuh>

namespace mucc::attention {

// ---- instructions -----------------------------------------------------------------------------------------

// Copies 16 bytes, or writes zeros where they are not `wanted`.
MUCC_DEVICE void copy_piece(void* to, void const* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(wanted ? 16 : 0)
               : "memory");
}
MUCC_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kLeft` groups of this thread's copies are under way.
template <int kLeft>
MUCC_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Four 8 x 8 matrices, whose rows the lanes name, eight lanes each.
MUCC_DEVICE void load_matrices(uint32_t (&x)[4], void const* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(row))
               : "memory");
}
MUCC_DEVICE void load_turned(uint32_t (&x)[4], void const* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(row))
               : "memory");
}

// 16 x 16 by 16 x 8.
MUCC_DEVICE void multiply(f16, float (&c)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
MUCC_DEVICE void multiply(bf16, float (&c)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 16 x 8 by 8 x 8, as tf32.
MUCC_DEVICE void multiply(float, float (&c)[4], uint32_t const (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four numbers as the bytes of a word, the first one in the lowest. Those that are too large become the largest.
MUCC_DEVICE uint32_t packed(e4m3, float a, float b, float c, float d) {
  uint16_t low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(b), "f"(a));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(d), "f"(c));
  return uint32_t(high) << 16 | low;
}

// Two numbers as the halves of a word, the first one in the low half.
MUCC_DEVICE uint32_t packed(f16, float low, float high) {
  uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
MUCC_DEVICE uint32_t packed(bf16, float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

MUCC_DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Without the branch for numbers so small that sums of powers, the largest of which is 1, are none of them.
MUCC_DEVICE float reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.0f / x;
#endif
}

// ---- softmax ----------------------------------------------------------------------------------------------

constexpr float kLog2E = 1.44269504088896340736f;

// What the difference of two scores is multiplied with to be an exponent of 2. Plain scores are products before scaling.
template <class Work>
inline constexpr float kFactor = Work::kPlain ? Work::kScale * kLog2E : kLog2E;

// Of the two rows that a lane has a part of, eight rows apart: the largest score, and the sum of this lane's powers.
struct Rows {
  float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
};

MUCC_DEVICE float most_of_four_lanes(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
MUCC_DEVICE float sum_of_four_lanes(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Where the first query of a lane and the first key of a step lie.
struct Corner {
  int row, column;
};

// How many columns there are: keys, or those of a sequence's pages.
template <class Work>
MUCC_DEVICE int64_t columns_of(Work const& work) {
  if constexpr (Work::kPage > 0)
    return work.pages.table.count * Work::kPage;
  else
    return work.key.count;
}

// The columns that the row of a position sees.
template <class Work, class P>
MUCC_DEVICE Columns columns_of_row(Work const& work, P const& position) {
  Columns seen{0, int(columns_of(work))};
  if constexpr (Work::kCausal) {
    int const row = position.at[Work::kRank - 2];
    seen.end = row < seen.end ? row + 1 : seen.end;
  }
  if constexpr (Work::kHasFirst) {
    int const first = work.first_column(position);
    seen.first = first > 0 ? first : 0;
  }
  if constexpr (Work::kHasLast) {
    int const last = work.last_column(position);
    seen.end = last < 0 ? 0 : last < seen.end ? last + 1 : seen.end;
  }
  return seen;
}

constexpr int kLastColumn = 0x7fffffff;  // as large as columns and labels are

MUCC_DEVICE Columns common(Columns const& a, Columns const& b) {
  return {a.first > b.first ? a.first : b.first, a.end < b.end ? a.end : b.end};
}

// The columns of `count` rows that have their labels, or the rows of columns, as `find_spans` found them.
template <class Work, class P>
MUCC_DEVICE Span labelled(Work const& work, P const& position, int64_t first, int count) {
  Span const* at = work.spans.data;
#pragma unroll
  for (int a = 0; a < Work::kBatch; ++a) at += position.at[a] * work.spans.strides[a];
  Span found{{kLastColumn, 0}, {0, kLastColumn}};
#pragma unroll 1
  for (int64_t i = first / kSpanRows; i * kSpanRows < first + count && i < work.spans.count; ++i) {
    Span const span = at[i];
    if (span.any.first < span.any.end) {
      found.any.first = span.any.first < found.any.first ? span.any.first : found.any.first;
      found.any.end = span.any.end > found.any.end ? span.any.end : found.any.end;
    }
    found.all = common(found.all, span.all);
  }
  return found;
}

// The columns between which some of `rows` rows see, and those that all of them see, whatever labels they have: a later row
// sees no earlier first and last columns than those before it.
template <class Work, class P>
MUCC_DEVICE Span range_of(Work const& work, P position, int64_t first_row, int rows) {
  constexpr int kRow = Work::kRank - 2;
  int64_t const last_row = (first_row + rows < work.query.count ? first_row + rows : work.query.count) - 1;
  position.at[kRow] = int(first_row);
  Columns const first = columns_of_row(work, position);
  position.at[kRow] = int(last_row);
  Columns const last = columns_of_row(work, position);
  return {{first.first, last.end}, {last.first, first.end}};
}

// The same, with labels.
template <class Work, class P>
MUCC_DEVICE Span span_of(Work const& work, P const& position, int64_t first_row, int rows) {
  Span span = range_of(work, position, first_row, rows);
  if constexpr (Work::kHasLabels) {
    Span const own = labelled(work, position, first_row, rows);
    span.any = common(span.any, own.any), span.all = common(span.all, own.all);
    if (span.any.first >= span.any.end) span.any = {0, 0};
  }
  return span;
}

// The columns at which the first and the last step of a tile begin, `kStep` columns each. There is one step at least.
struct Steps {
  int first, last;
};
template <int kStep>
MUCC_DEVICE Steps steps_of(Columns const& any) {
  int const last = any.end > 0 ? (any.end - 1) / kStep * kStep : 0, first = any.first / kStep * kStep;
  return {first < last ? first : last, last};
}

// Makes scores of products: element i of block j is that of row `row + i / 2 * 8` and column `column + 8 * j + i % 2`.
// Those of rows and columns that there are not are computed like the last one: nothing is read where there is none, and
// no branch divides the elements.
template <bool kMasked, int kBlocks, class Work, class P>
MUCC_DEVICE void make_scores(Work const& work, P const& position, Corner corner, float (&c)[4 * kBlocks]) {
  constexpr int kRow = Work::kRank - 2, kColumn = Work::kRank - 1;
  int const rows = int(work.query.count), columns = int(columns_of(work));
  P at[2] = {position, position};
  Columns seen[2];
  int labels[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    int const row = corner.row + 8 * h;
    at[h].at[kRow] = row < rows ? row : rows - 1;
    if constexpr (kMasked) seen[h] = columns_of_row(work, at[h]);
    if constexpr (kMasked && Work::kHasLabels) labels[h] = work.row_label(at[h]);
  }
#pragma unroll
  for (int j = 0; j < kBlocks; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const column = corner.column + 8 * j + i % 2;
      float& x = c[4 * j + i];
      if constexpr (!Work::kPlain) {
        at[i / 2].at[kColumn] = !kMasked || column < columns ? column : columns - 1;
        x = work.score(at[i / 2], x);
      }
      if constexpr (kMasked) {
        bool is_seen = column < seen[i / 2].end && (!Work::kHasFirst || seen[i / 2].first <= column);
        if constexpr (Work::kHasLabels) {
          at[i / 2].at[kColumn] = column < columns ? column : columns - 1;
          is_seen = is_seen & (work.column_label(at[i / 2]) == labels[i / 2]);
        }
        x = is_seen ? x : Work::kSoftmax ? -INFINITY : 0.0f;
      }
    }
}

// Replaces scores by their powers relative to the largest of the row so far, and says by how much what was added up before
// is to be scaled. Without softmax scores are weights.
template <class Work, int kCount>
MUCC_DEVICE void make_weights(Rows& rows, float (&c)[kCount], float (&rescale)[2]) {
  constexpr float kBy = kFactor<Work>;
  if constexpr (!Work::kSoftmax) {
    rescale[0] = rescale[1] = 1.0f;
    return;
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float most = rows.most[h];
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) most = fmaxf(most, fmaxf(c[4 * j + 2 * h], c[4 * j + 2 * h + 1]));
    most = most_of_four_lanes(most);
    float const base = most == -INFINITY ? 0.0f : most;
    rescale[h] = power_of_two((rows.most[h] - base) * kBy);
    rows.most[h] = most;
    rows.sum[h] *= rescale[h];
    float const shift = base * kBy;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j)
#pragma unroll
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        // Scores that were computed may be as large as floats are: their difference first.
        float& x = c[4 * j + i];
        constexpr float kUp = kRaise<Work>;
        x = power_of_two(Work::kPlain ? fmaf(x, kBy, kUp - shift) : kUp != 0 ? fmaf(x - base, kBy, kUp) : (x - base) * kBy);
        rows.sum[h] += x;
      }
  }
}

// What sums of a row are multiplied with, of its largest score and of the sum of its powers relative to that: nothing was
// added up where a row sees no column. A sink adds to the sum.
template <class Work, class P>
MUCC_DEVICE float share_of(Work const& work, P const& position, float most, float total) {
  if constexpr (!Work::kSoftmax) return 1.0f;
  if constexpr (Work::kHasSink) {
    if (total == 0.0f) return 0.0f;
    return reciprocal(total + power_of_two(work.sink(position) * kLog2E - most * kFactor<Work> + kRaise<Work>));
  }
  return total == 0.0f ? Work::kNanRows ? NAN : 0.0f : reciprocal(total);
}

// The binary logarithm, of sums whose largest part is 1.
MUCC_DEVICE float log_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::log2(x);
#endif
}

// Stores a row's log-sum-exp, of its largest score and of the sum of its powers relative to that.
template <class Work, class P>
MUCC_DEVICE void store_sum_of(Work const& work, P position, float most, float total) {
  constexpr float kLogOfTwo = 0.69314718055994530942f;
  position.at[Work::kRank - 1] = 0;
  work.store_sum(position, total == 0.0f ? -INFINITY : (most * kFactor<Work> + log_of_two(total) - kRaise<Work>) * kLogOfTwo);
}

// Writes 16 bytes. Of a store of C++ the compiler at times makes several instructions.
template <class T>
MUCC_DEVICE void write_words(T* at, Pack<uint32_t, 4> const& words) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(words.of[0]), "r"(words.of[1]), "r"(words.of[2]),
               "r"(words.of[3])
               : "memory");
#else
  *reinterpret_cast<Pack<uint32_t, 4>*>(at) = words;
#endif
}
template <class T>
MUCC_DEVICE void write_words(T* at, Pack<uint32_t, 2> const& words) {
  *reinterpret_cast<Pack<uint32_t, 2>*>(at) = words;
}

// Makes a word of two neighbouring results.
struct Packs {
  uint32_t& word;

  template <class View, class P>
  MUCC_DEVICE void operator()(View const&, P const&, Lanes<2> const& results) const {
    word = packed(typename View::Element{}, results.of[0], results.of[1]);
  }
};

// Writes the 16-bit numbers of words to a tensor, whatever the results.
template <int kWords>
struct StoresWords {
  Pack<uint32_t, kWords> words;

  template <class View, class P>
  MUCC_DEVICE void operator()(View const& view, P const& position, Lanes<2> const&) const {
    using T = typename View::Element;
    if constexpr (View::kAlong == Along::kUnit) {
      write_words(place(view, position), words);
    } else {
      auto const pack = __builtin_bit_cast(Pack<T, 2 * kWords>, words);
#pragma unroll
      for (int v = 0; v < 2 * kWords; ++v) place(view, position)[v * lane_step(view)] = pack.of[v];
    }
  }
};

// Writes V neighbouring results to a tensor.
struct Stores {
  template <int V, class View, class P>
  MUCC_DEVICE void operator()(View const& view, P const& position, Lanes<V> const& results) const {
    using T = typename View::Element;
    if constexpr (V * sizeof(T) == 16 && View::kAlong == Along::kUnit) {
      Pack<T, V> pack;
#pragma unroll
      for (int v = 0; v < V; ++v) narrow(results.of[v], pack.of[v]);
      write_words(place(view, position), __builtin_bit_cast(Pack<uint32_t, 4>, pack));
    } else {
      mucc::store(view, position, results);
    }
  }
};

// Writes two neighbouring results of a row.
template <class Work, class P>
MUCC_DEVICE void store_pair(Work const& work, P& position, int column, float const (&pair)[2]) {
  constexpr int kColumn = Work::kRank - 1;
  position.at[kColumn] = column;
  if (work.packs && column + 1 < Work::kResultWidth) {
    Lanes<2> both;
    both.of[0] = pair[0], both.of[1] = pair[1];
    work.template store<2>(position, both, Stores{});
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      position.at[kColumn] = column + i;
      if (column + i < Work::kResultWidth) work.template store<1>(position, Lanes<1>(pair[i]), Stores{});
    }
  }
}

// Of `kBlocks` blocks of 8 columns, 2 or 4, each of four lanes has two columns. Gives the lanes neighbouring columns of one
// block instead: those of block lane % kBlocks from column lane % 4 / kBlocks * 4 on.
template <int kBlocks>
MUCC_DEVICE void gather_columns(float (&x)[kBlocks][2], Lanes<2 * kBlocks>& to) {
  int const lane = threadIdx.x % 4;
  float half[kBlocks / 2][4];
#pragma unroll
  for (int m = 0; m < kBlocks / 2; ++m)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      bool const is_odd = lane % 2;
      float const kept = x[2 * m + 0][i], other = x[2 * m + 1][i];
      float const got = __shfl_xor_sync(~0u, is_odd ? kept : other, 1);
      half[m][i] = is_odd ? got : kept;
      half[m][2 + i] = is_odd ? other : got;
    }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kBlocks == 2) {
      to.of[i] = half[0][i];
    } else {
      bool const is_high = lane / 2;
      float const low = half[0][i], high = half[kBlocks / 2 - 1][i];
      float const got = __shfl_xor_sync(~0u, is_high ? low : high, 2);
      to.of[i] = is_high ? got : low;
      to.of[kBlocks / 2 * 4 - 4 + i] = is_high ? high : got;
    }
  }
}

// The same of words of two 16-bit numbers each: a word of each of `kBlocks` blocks becomes `kBlocks` words of one.
template <int kBlocks>
MUCC_DEVICE Pack<uint32_t, kBlocks> gather_words(uint32_t const (&x)[kBlocks]) {
  int const lane = threadIdx.x % 4;
  bool const is_odd = lane % 2, is_high = lane / 2;
  uint32_t half[kBlocks / 2][2];
#pragma unroll
  for (int m = 0; m < kBlocks / 2; ++m) {
    uint32_t const got = __shfl_xor_sync(~0u, is_odd ? x[2 * m] : x[2 * m + 1], 1);
    half[m][0] = is_odd ? got : x[2 * m];
    half[m][1] = is_odd ? x[2 * m + 1] : got;
  }
  Pack<uint32_t, kBlocks> to;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kBlocks == 2) {
      to.of[i] = half[0][i];
    } else {
      uint32_t const got = __shfl_xor_sync(~0u, is_high ? half[0][i] : half[1][i], 2);
      to.of[i] = is_high ? got : half[0][i];
      to.of[2 + i] = is_high ? half[1][i] : got;
    }
  }
  return to;
}

// Writes results: those of a lane as scores lie.
template <int kBlocks, class Work, class P>
MUCC_DEVICE void store_rows(Work const& work, P position, int row, int rows, Rows const& state,
                            float const (&sum)[4 * kBlocks]) {
  constexpr int kVector = Work::kVector, kTogether = kVector / 2, kColumn = Work::kRank - 1, kPacks = kBlocks / kTogether;
  int const lane = threadIdx.x % 32, own_column = 8 * (lane % kTogether) + lane % 4 / kTogether * 4;
  float const total[2] = {sum_of_four_lanes(state.sum[0]), sum_of_four_lanes(state.sum[1])};
  float const share[2] = {share_of(work, position, state.most[0], total[0]),
                          share_of(work, position, state.most[1], total[1])};
  auto exists = [&](int h) { return row + 8 * h < rows; };
  if constexpr (Work::kStoresSum) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      position.at[Work::kRank - 2] = row + 8 * h;
      if (lane % 4 == 0 && exists(h)) store_sum_of(work, position, state.most[h], total[h]);
    }
  }
  if (!work.packs) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      position.at[Work::kRank - 2] = row + 8 * h;
      if (!exists(h)) continue;
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        float const pair[2] = {sum[4 * j + 2 * h] * share[h], sum[4 * j + 2 * h + 1] * share[h]};
        store_pair(work, position, 8 * j + lane % 4 * 2, pair);
      }
    }
  } else if constexpr (Work::kNarrowsFirst) {
    // What lanes exchange are words of two results, as they are stored. All are exchanged before any is stored: no
    // branch is between them, so that one does not wait for another.
    Pack<uint32_t, kTogether> own[2][kPacks];
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll
      for (int n = 0; n < kPacks; ++n) {
        uint32_t words[kTogether];
#pragma unroll
        for (int k = 0; k < kTogether; ++k) {
          int const j = n * kTogether + k;
          Lanes<2> pair;
          pair.of[0] = sum[4 * j + 2 * h] * share[h], pair.of[1] = sum[4 * j + 2 * h + 1] * share[h];
          work.template store<2>(position, pair, Packs{words[k]});
        }
        own[h][n] = gather_words<kTogether>(words);
      }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      position.at[Work::kRank - 2] = row + 8 * h;
      if (!exists(h)) continue;
#pragma unroll
      for (int n = 0; n < kPacks; ++n) {
        position.at[kColumn] = own_column + 8 * kTogether * n;
        if (8 * kTogether * (n + 1) <= Work::kResultWidth || position.at[kColumn] < Work::kResultWidth)
          work.template store<2>(position, Lanes<2>(0.0f), StoresWords<kTogether>{own[h][n]});
      }
    }
  } else {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      position.at[Work::kRank - 2] = row + 8 * h;
#pragma unroll
      for (int n = 0; n < kPacks; ++n) {
        float x[kTogether][2];
#pragma unroll
        for (int k = 0; k < kTogether; ++k)
#pragma unroll
          for (int i = 0; i < 2; ++i) x[k][i] = sum[4 * (n * kTogether + k) + 2 * h + i] * share[h];
        Lanes<kVector> pack;
        gather_columns<kTogether>(x, pack);
        position.at[kColumn] = own_column + 8 * kTogether * n;
        if (exists(h) && position.at[kColumn] < Work::kResultWidth) work.template store<kVector>(position, pack, Stores{});
      }
    }
  }
}

// The leading indices of a block's queries. The others are 0.
template <class Work>
MUCC_DEVICE Position<Work::kRank, int> leading_position(Extents<Work::kRank> const& extents, unsigned batch) {
  Position<Work::kRank, int> p{};
#pragma unroll
  for (int a = Work::kBatch - 1; a >= 0; --a) {
    unsigned const extent = unsigned(extents.of[a]), rest = batch / extent;
    p.at[a] = int(batch - rest * extent);
    batch = rest;
  }
  return p;
}

template <class T, int kBatch, class P>
MUCC_DEVICE T* matrix_of(Operand<T, kBatch> const& operand, P const& p) {
  T* at = operand.data;
  if constexpr (kBatch > 0) {
#pragma unroll
    for (int a = 0; a < kBatch; ++a)
      if (operand.leading[a].extent != 1) at += p.at[a] * operand.leading[a].stride;
  }
  return at;
}

// Where the rows from `column` on of a sequence lie among those of keys and values. Pages that there are not become others.
template <class Work, class P>
MUCC_DEVICE int64_t row_of_column(Work const& work, P const& p, int64_t column) {
  if constexpr (Work::kPage == 0) {
    return column;
  } else {
    auto const& table = work.pages.table;
    int64_t const index = column / Work::kPage, last = table.count - 1;
    int64_t page = matrix_of(table, p)[(index < last ? index : last) * table.row];
    page = page < 0 ? 0 : page < work.pages.count ? page : work.pages.count - 1;
    return page * Work::kPage + column % Work::kPage;
  }
}

// ---- labels -------------------------------------------------------------------------------------------------

// Finds the columns that have the labels of `kSpanRows` rows: all lie between the first and the last one whose label is
// between the smallest and the largest of the rows. Labels may have any order; they are best where they rise. With `kTurned`
// it finds the rows that have the labels of columns, and what follows calls rows columns.
template <bool kTurned, class Work>
MUCC_DEVICE void find_spans(Work const& work, Extents<Work::kRank> const& extents) {
  constexpr int kRow = Work::kRank - (kTurned ? 1 : 2), kColumn = Work::kRank - (kTurned ? 2 : 1), kWarps = kSpanThreads / 32;
  int const queries = int(extents.of[Work::kRank - 2]), keys = int(columns_of(work)), lane = threadIdx.x % 32;
  int const rows = kTurned ? keys : queries, columns = kTurned ? queries : keys;
  auto label_of = [&](Position<Work::kRank, int> const& position, bool of_row) {
    return of_row != kTurned ? work.row_label(position) : work.column_label(position);
  };
  unsigned const count = unsigned(work.spans.count), block = blockIdx.x % count;
  unsigned index = blockIdx.x / count;
  Position<Work::kRank, int> position{};
  Span* to = work.spans.data + block;
#pragma unroll
  for (int a = Work::kBatch - 1; a >= 0; --a) {
    if (!(Work::kLabelAxes >> a & 1)) continue;
    unsigned const extent = unsigned(extents.of[a]), rest = index / extent;
    position.at[a] = int(index - rest * extent);
    to += position.at[a] * work.spans.strides[a];
    index = rest;
  }
  int low = kLastColumn, high = -kLastColumn - 1;
  for (int r = lane; r < kSpanRows; r += 32) {
    int const row = int(block) * kSpanRows + r;
    position.at[kRow] = row < rows ? row : rows - 1;
    int const label = label_of(position, true);
    low = label < low ? label : low, high = label > high ? label : high;
  }
  auto reduce = [](int& x, bool largest) {
#pragma unroll
    for (int bits = 1; bits < 32; bits *= 2) {
      int const other = __shfl_xor_sync(~0u, x, bits);
      x = (other > x) == largest ? other : x;
    }
  };
  reduce(low, false), reduce(high, true);
  int first = kLastColumn, end = 0, whole = 0;
#pragma unroll 8
  for (int column = threadIdx.x; column < columns; column += kSpanThreads) {
    position.at[kColumn] = column;
    int const label = label_of(position, false);
    bool const is_between = low <= label && label <= high;
    first = is_between && column < first ? column : first;
    end = is_between ? column + 1 : end;
    whole += is_between;
  }
  reduce(first, false), reduce(end, true);
#pragma unroll
  for (int bits = 1; bits < 32; bits *= 2) whole += __shfl_xor_sync(~0u, whole, bits);
  int* const found = reinterpret_cast<int*>(dynamic_shared());
  if (lane == 0) {
    int* const own = found + threadIdx.x / 32 * 3;
    own[0] = first, own[1] = end, own[2] = whole;
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < kWarps; ++w) {
    first = found[3 * w] < first ? found[3 * w] : first;
    end = found[3 * w + 1] > end ? found[3 * w + 1] : end;
    whole += found[3 * w + 2];
  }
  bool const all = low == high && whole == end - first;
  *to = {{first, end}, {all ? first : 0, all ? end : 0}};
}

// ---- the kernels that use mma.sync -------------------------------------------------------------------------

// Copies the 16 bytes from element e of a row on to shared memory, zeros where there are none.
template <bool kWhole, int kWidth, class T, class From>
MUCC_DEVICE void copy_row_piece(T* into, From const* row, int64_t step, int e, bool exists) {
  constexpr int kCount = kPiece<T>;
  if constexpr (kWhole) {
    bool const wanted = exists && e < kWidth;
    copy_piece(into, wanted ? row + e : row, wanted);
  } else {
    Pack<T, kCount> pack{};
    if (exists) {
#pragma unroll
      for (int k = 0; k < kCount; ++k)
        if (e + k < kWidth) {
          if constexpr (sizeof(From) == sizeof(T))
            pack.of[k] = row[(e + k) * step];
          else
            narrow(widen(row[(e + k) * step]), pack.of[k]);
        }
    }
    *reinterpret_cast<Pack<T, kCount>*>(into) = pack;
  }
}

// Copies rows [first, first + kCount) of a matrix to shared memory, kPitch elements apart; zeros from row `count` on. Row r
// lies where row `place_of(r)` would.
template <bool kWhole, int kCount, int kWidth, int kThreads, class T, class From, class Place>
MUCC_DEVICE void copy_rows(T* to, From const* from, int64_t row, int64_t step, int64_t first, int64_t count,
                           Place const& place_of) {
  constexpr int kPitch = pitch<T>(kWidth), kPieces = rounded(kWidth, 16) / kPiece<T>;
  for (int i = threadIdx.x; i < kCount * kPieces; i += kThreads) {
    int const r = i / kPieces, e = i % kPieces * kPiece<T>;
    bool const exists = first + r < count;
    copy_row_piece<kWhole, kWidth>(to + r * kPitch + e, exists ? from + place_of(first + r) * row : from, step, e,
                                   exists);
  }
}

// Each warp has 16 of the block's queries. Keys and values have two places each: while one is multiplied the other is
// filled.
template <bool kWhole, class Work>
MUCC_DEVICE void run(Work const& work, Extents<Work::kRank> const& extents) {
  using From = typename Work::Element;
  using T = typename InShared<From>::Type;
  constexpr int kRows = Work::kRows, kColumns = Work::kColumns, kThreads = Work::kThreads;
  // A product takes 32 bytes of a row: 16 elements, or 8 of f32.
  constexpr bool kSingle = sizeof(T) == 4;
  constexpr int kPart = kPiece<T>, kSteps = rounded(Work::kWidth, 16) / (2 * kPart), kPitch = pitch<T>(Work::kWidth);
  constexpr int kBlocks = kColumns / 8, kResults = rounded(Work::kResultWidth, 16) / 8;
  constexpr int kResultPitch = pitch<T>(Work::kResultWidth);
  T* const query = reinterpret_cast<T*>(dynamic_shared());
  T* const keys = query + kRows * kPitch;
  T* const values = keys + 2 * kColumns * kPitch;

  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned const tiles = unsigned((extents.of[Work::kRank - 2] + kRows - 1) / kRows);
  unsigned const tile = tiles - 1 - blockIdx.x % tiles;  // the longest ones first
  auto position = leading_position<Work>(extents, blockIdx.x / tiles);
  int64_t const first_row = int64_t(tile) * kRows;
  int const row = int(first_row) + warp * 16 + lane / 4;
  Span const span = span_of(work, position, first_row, kRows);
  int const columns = span.any.end;
  From const* const key_rows = matrix_of(work.key, position);
  From const* const value_rows = matrix_of(work.value, position);

  auto in_order = [](int64_t r) { return r; };
  auto in_pages = [&](int64_t column) { return row_of_column(work, position, column); };
  auto copy_keys = [&](int column, int place) {
    copy_rows<kWhole, kColumns, Work::kWidth, kThreads>(keys + place * kColumns * kPitch, key_rows, work.key.row,
                                                        work.key.step, column, columns, in_pages);
    commit_copies();
  };
  auto copy_values = [&](int column, int place) {
    copy_rows<kWhole, kColumns, Work::kResultWidth, kThreads>(values + place * kColumns * kResultPitch, value_rows,
                                                              work.value.row, work.value.step, column, columns,
                                                              in_pages);
    commit_copies();
  };
  copy_rows<kWhole, kRows, Work::kWidth, kThreads>(query, matrix_of(work.query, position), work.query.row,
                                                   work.query.step, first_row, work.query.count, in_order);
  int const start = span.any.first / kColumns * kColumns;
  copy_keys(start, 0);
  copy_values(start, 0);

  Rows state;
  float sum[4 * kResults] = {};
  T const* const own = query + (warp * 16 + lane % 16) * kPitch + lane / 16 * kPart;
  int place = 0;
  for (int column = start; column < columns; column += kColumns, place ^= 1) {
    wait_copies<1>();
    __syncthreads();
    copy_keys(column + kColumns, place ^ 1);
    float c[4 * kBlocks] = {};
    T const* const key = keys + place * kColumns * kPitch + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * kPart;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint32_t a[4];
      load_matrices(a, own + 2 * kPart * s);
      if constexpr (kSingle) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = to_tf32(__builtin_bit_cast(float, a[i]));
      }
#pragma unroll
      for (int j = 0; j < kBlocks; j += 2) {
        uint32_t b[4];
        load_matrices(b, key + 8 * j * kPitch + 2 * kPart * s);
        multiply(T{}, reinterpret_cast<float(&)[4]>(c[4 * j]), a, b[0], b[1]);
        multiply(T{}, reinterpret_cast<float(&)[4]>(c[4 * j + 4]), a, b[2], b[3]);
      }
    }
    Corner const corner{row, column + lane % 4 * 2};
    bool const whole = span.all.first <= column && column + kColumns <= span.all.end;
    if (whole)
      make_scores<false, kBlocks>(work, position, corner, c);
    else
      make_scores<true, kBlocks>(work, position, corner, c);
    float rescale[2];
    make_weights<Work>(state, c, rescale);
#pragma unroll
    for (int i = 0; i < 4 * kResults; ++i) sum[i] *= rescale[i / 2 % 2];

    wait_copies<1>();
    __syncthreads();
    copy_values(column + kColumns, place ^ 1);
    if constexpr (kSingle) {
      // A lane's weights of a block are those of two neighbouring keys, which count as its first and fifth one.
      T const* const value = values + (place * kColumns + lane % 4 * 2) * kResultPitch + lane / 4;
#pragma unroll
      for (int s = 0; s < kBlocks; ++s) {
        uint32_t const a[4] = {to_tf32(c[4 * s]), to_tf32(c[4 * s + 2]), to_tf32(c[4 * s + 1]), to_tf32(c[4 * s + 3])};
#pragma unroll
        for (int j = 0; j < kResults; ++j) {
          T const* const at = value + 8 * s * kResultPitch + 8 * j;
          multiply(T{}, reinterpret_cast<float(&)[4]>(sum[4 * j]), a, __builtin_bit_cast(uint32_t, at[0]),
                   __builtin_bit_cast(uint32_t, at[kResultPitch]));
        }
      }
    } else {
      T const* const value = values + place * kColumns * kResultPitch + lane % 16 * kResultPitch + lane / 16 * 8;
#pragma unroll
      for (int s = 0; s < kColumns / 16; ++s) {
        uint32_t a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float const* const pair = c + 8 * s + i / 2 * 4 + i % 2 * 2;
          a[i] = packed(T{}, pair[0], pair[1]);
        }
#pragma unroll
        for (int j = 0; j < kResults; j += 2) {
          uint32_t b[4];
          load_turned(b, value + 16 * s * kResultPitch + 8 * j);
          multiply(T{}, reinterpret_cast<float(&)[4]>(sum[4 * j]), a, b[0], b[1]);
          multiply(T{}, reinterpret_cast<float(&)[4]>(sum[4 * j + 4]), a, b[2], b[3]);
        }
      }
    }
  }
  wait_copies<0>();
  store_rows<kResults>(work, position, row, int(work.query.count), state, sum);
}

}  // namespace mucc::attention
