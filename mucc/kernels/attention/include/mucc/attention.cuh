// Attention without its scores in memory: each block has some queries, and passes over the keys and values that they see.
//
// Softmax is computed as the block goes: of each row it keeps the largest score so far, the sum of the powers, and the sum
// of the values weighted by them, which are scaled down when a larger score comes.
//
// The compiler writes `Op`, the operands, and `Work` upon it: `score(position, product)` is the score of a query and a key
// from their product, and `store<V>(position, results)` writes V neighbouring results. Positions are leading indices, query,
// and key or column.
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

// ---- softmax ----------------------------------------------------------------------------------------------

constexpr float kLog2E = 1.44269504088896340736f;

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

// Makes scores of products: element i of block j is that of row `row + i / 2 * 8` and column `column + 8 * j + i % 2`.
template <bool kMasked, int kBlocks, class Work, class P>
MUCC_DEVICE void make_scores(Work const& work, P position, Corner corner, int columns, float (&c)[4 * kBlocks]) {
  constexpr int kRow = Work::kRank - 2, kColumn = Work::kRank - 1;
#pragma unroll
  for (int j = 0; j < kBlocks; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int const row = corner.row + i / 2 * 8, column = corner.column + 8 * j + i % 2;
      bool const seen = !kMasked || (column < columns && (!Work::kCausal || column <= row));
      if constexpr (!Work::kPlain) {
        position.at[kRow] = row;
        position.at[kColumn] = column;
        // Nothing is read where there is no row or column.
        c[4 * j + i] = seen && row < work.query.count ? work.score(position, c[4 * j + i]) : -INFINITY;
      } else if (!seen) {
        c[4 * j + i] = -INFINITY;
      }
    }
}

// Replaces scores by their powers relative to the largest of the row so far, and says by how much what was added up before
// is to be scaled.
template <class Work, int kCount>
MUCC_DEVICE void make_weights(Rows& rows, float (&c)[kCount], float (&rescale)[2]) {
  constexpr float kFactor = Work::kPlain ? Work::kScale * kLog2E : kLog2E;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float most = rows.most[h];
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) most = fmaxf(most, fmaxf(c[4 * j + 2 * h], c[4 * j + 2 * h + 1]));
    most = most_of_four_lanes(most);
    float const base = most == -INFINITY ? 0.0f : most;
    rescale[h] = power_of_two((rows.most[h] - base) * kFactor);
    rows.most[h] = most;
    rows.sum[h] *= rescale[h];
    float const shift = base * kFactor;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j)
#pragma unroll
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        // Scores that were computed may be as large as floats are: their difference first.
        float& x = c[4 * j + i];
        x = power_of_two(Work::kPlain ? fmaf(x, kFactor, -shift) : (x - base) * kFactor);
        rows.sum[h] += x;
      }
  }
}

// Writes results: those of a lane as scores lie.
template <int kBlocks, class Work, class P>
MUCC_DEVICE void store_rows(Work const& work, P position, int row, int64_t rows, bool pairs, Rows const& state,
                            float const (&sum)[4 * kBlocks]) {
  constexpr int kRow = Work::kRank - 2, kColumn = Work::kRank - 1;
  int const lane = threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float const total = sum_of_four_lanes(state.sum[h]);
    float const share = total == 0.0f ? 0.0f : 1.0f / total;
    position.at[kRow] = row + 8 * h;
    if (row + 8 * h >= rows) continue;
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      int const column = 8 * j + lane % 4 * 2;
      position.at[kColumn] = column;
      Lanes<2> both;
      both.of[0] = sum[4 * j + 2 * h] * share, both.of[1] = sum[4 * j + 2 * h + 1] * share;
      if (pairs && column + 1 < Work::kResultWidth) {
        work.template store<2>(position, both);
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          position.at[kColumn] = column + i;
          if (column + i < Work::kResultWidth) work.template store<1>(position, Lanes<1>(both.of[i]));
        }
      }
    }
  }
}

// The leading indices of a block's queries. The others are 0.
template <class Work>
MUCC_DEVICE Position<Work::kRank, int> leading_position(Extents<Work::kRank> const& extents, int64_t batch) {
  Position<Work::kRank, int> p{};
#pragma unroll
  for (int a = Work::kBatch - 1; a >= 0; --a) {
    int64_t const rest = batch / extents.of[a];
    p.at[a] = int(batch - rest * extents.of[a]);
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

// The columns that a tile of queries sees: up to which there are some.
template <class Work>
MUCC_DEVICE int columns_of(Work const& work, int64_t first_row, int rows) {
  int64_t const all = work.key.count, seen = first_row + rows;
  return int(Work::kCausal && seen < all ? seen : all);
}

// ---- the kernels that use mma.sync -------------------------------------------------------------------------

// Copies rows [first, first + kCount) of a matrix to shared memory, kPitch elements apart; zeros where there are none.
template <bool kWhole, int kCount, int kWidth, int kThreads, class T>
MUCC_DEVICE void copy_rows(T* to, T const* from, int64_t row, int64_t step, int64_t first, int64_t count) {
  constexpr int kPadded = rounded(kWidth, 16), kPitch = kPadded + 8, kPieces = kPadded / 8;
  for (int i = threadIdx.x; i < kCount * kPieces; i += kThreads) {
    int const r = i / kPieces, e = i % kPieces * 8;
    T const* const at = from + (first + r) * row + e * step;
    T* const into = to + r * kPitch + e;
    if constexpr (kWhole) {
      bool const wanted = first + r < count && e < kWidth;
      copy_piece(into, wanted ? at : from, wanted);
    } else {
      Pack<T, 8> pack{};
      if (first + r < count) {
#pragma unroll
        for (int k = 0; k < 8; ++k)
          if (e + k < kWidth) pack.of[k] = at[k * step];
      }
      *reinterpret_cast<Pack<T, 8>*>(into) = pack;
    }
  }
}

// Each warp has 16 of the block's queries. Keys and values have two places each: while one is multiplied the other is
// filled.
template <bool kWhole, class Work>
MUCC_DEVICE void run(Work const& work, Extents<Work::kRank> const& extents) {
  using T = typename Work::Element;
  constexpr int kRows = Work::kRows, kColumns = Work::kColumns, kThreads = Work::kThreads;
  constexpr int kSteps = rounded(Work::kWidth, 16) / 16, kPitch = 16 * kSteps + 8;
  constexpr int kBlocks = kColumns / 8, kResults = rounded(Work::kResultWidth, 16) / 8, kResultPitch = 8 * kResults + 8;
  T* const query = reinterpret_cast<T*>(dynamic_shared());
  T* const keys = query + kRows * kPitch;
  T* const values = keys + 2 * kColumns * kPitch;

  int const lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int64_t const tiles = (extents.of[Work::kRank - 2] + kRows - 1) / kRows;
  int64_t const tile = tiles - 1 - int64_t(blockIdx.x) % tiles;  // the longest ones first
  auto position = leading_position<Work>(extents, int64_t(blockIdx.x) / tiles);
  int64_t const first_row = tile * kRows;
  int const row = int(first_row) + warp * 16 + lane / 4;
  int const columns = columns_of(work, first_row, kRows);
  T const* const key_rows = matrix_of(work.key, position);
  T const* const value_rows = matrix_of(work.value, position);

  auto copy_keys = [&](int column, int place) {
    copy_rows<kWhole, kColumns, Work::kWidth, kThreads>(keys + place * kColumns * kPitch, key_rows, work.key.row,
                                                        work.key.step, column, columns);
    commit_copies();
  };
  auto copy_values = [&](int column, int place) {
    copy_rows<kWhole, kColumns, Work::kResultWidth, kThreads>(values + place * kColumns * kResultPitch, value_rows,
                                                              work.value.row, work.value.step, column, columns);
    commit_copies();
  };
  copy_rows<kWhole, kRows, Work::kWidth, kThreads>(query, matrix_of(work.query, position), work.query.row,
                                                   work.query.step, first_row, work.query.count);
  copy_keys(0, 0);
  copy_values(0, 0);

  Rows state;
  float sum[4 * kResults] = {};
  T const* const own = query + (warp * 16 + lane % 16) * kPitch + lane / 16 * 8;
  int place = 0;
  for (int column = 0; column < columns; column += kColumns, place ^= 1) {
    wait_copies<1>();
    __syncthreads();
    copy_keys(column + kColumns, place ^ 1);
    float c[4 * kBlocks] = {};
    T const* const key = keys + place * kColumns * kPitch + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      uint32_t a[4];
      load_matrices(a, own + 16 * s);
#pragma unroll
      for (int j = 0; j < kBlocks; j += 2) {
        uint32_t b[4];
        load_matrices(b, key + 8 * j * kPitch + 16 * s);
        multiply(T{}, reinterpret_cast<float(&)[4]>(c[4 * j]), a, b[0], b[1]);
        multiply(T{}, reinterpret_cast<float(&)[4]>(c[4 * j + 4]), a, b[2], b[3]);
      }
    }
    Corner const corner{row, column + lane % 4 * 2};
    bool const whole = column + kColumns <= work.key.count && (!Work::kCausal || column + kColumns <= first_row + 1);
    if (whole)
      make_scores<false, kBlocks>(work, position, corner, int(work.key.count), c);
    else
      make_scores<true, kBlocks>(work, position, corner, int(work.key.count), c);
    float rescale[2];
    make_weights<Work>(state, c, rescale);
#pragma unroll
    for (int i = 0; i < 4 * kResults; ++i) sum[i] *= rescale[i / 2 % 2];

    wait_copies<1>();
    __syncthreads();
    copy_values(column + kColumns, place ^ 1);
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
  wait_copies<0>();
  store_rows<kResults>(work, position, row, extents.of[Work::kRank - 2], work.pairs, state, sum);
}

}  // namespace mucc::attention
