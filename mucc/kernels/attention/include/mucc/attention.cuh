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

// Powers are relative to a score between this number and its negative: those of -infinity and +infinity are 0 and +infinity
// then, where differences of infinities would be NaN.
template <class Work>
inline constexpr float kLargest = Work::kPlain && kFactor<Work> > 1.0f ? 3.0e38f / kFactor<Work> : 3.4028234663852886e38f;

// Of the two rows that a lane has a part of, eight rows apart: the largest score, and the sum of this lane's powers.
template <class Work>
struct Rows {
  float most[2] = {-kLargest<Work>, -kLargest<Work>}, sum[2] = {0.0f, 0.0f};
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
MUCC_DEVICE void make_weights(Rows<Work>& rows, float (&c)[kCount], float (&rescale)[2]) {
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
    most = fminf(most_of_four_lanes(most), kLargest<Work>);
    rescale[h] = power_of_two((rows.most[h] - most) * kBy);
    rows.most[h] = most;
    rows.sum[h] *= rescale[h];
    float const shift = most * kBy;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j)
#pragma unroll
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        // Scores that were computed may be as large as floats are: their difference first.
        float& x = c[4 * j + i];
        constexpr float kUp = kRaise<Work>;
        x = power_of_two(Work::kPlain ? fmaf(x, kBy, kUp - shift) : kUp != 0 ? fmaf(x - most, kBy, kUp) : (x - most) * kBy);
        rows.sum[h] += x;
      }
  }
}

// What sums of a row are multiplied with, of its largest score and of the sum of its powers relative to that: nothing was
// added up where a row sees no column. A sink adds to the sum. Softmax of +infinity is NaN.
template <class Work, class P>
MUCC_DEVICE float share_of(Work const& work, P const& position, float most, float total) {
  if constexpr (!Work::kSoftmax) return 1.0f;
  float share;
  if constexpr (Work::kHasSink) {
    if (total == 0.0f) return 0.0f;
    share = reciprocal(total + power_of_two(work.sink(position) * kLog2E - most * kFactor<Work> + kRaise<Work>));
  } else {
    share = total == 0.0f ? Work::kNanRows ? NAN : 0.0f : reciprocal(total);
  }
  return fmaf(total, 0.0f, share);  // zero times infinity is NaN, and no branch
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
  constexpr float kLogOfTwo = 0.69314718055994530942f, kScale = Work::kPlain ? Work::kScale : 1.0f;
  position.at[Work::kRank - 1] = 0;
  work.store_sum(position, total == 0.0f ? -INFINITY : most * kScale + (log_of_two(total) - kRaise<Work>) * kLogOfTwo);
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
    return page * work.pages.apart + column % Work::kPage;
  }
}

}  // namespace mucc::attention
