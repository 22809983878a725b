// The kernel that finds which columns have the labels of rows, before attention that skips the others.
#pragma once

#include <mucc/attention.cuh>

namespace mucc::attention {

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

}  // namespace mucc::attention
