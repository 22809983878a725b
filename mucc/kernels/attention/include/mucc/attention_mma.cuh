// Attention by mma.sync, on all targets: each warp has 16 queries, and threads copy keys and values.
#pragma once

#include <mucc/attention_labels.cuh>
#include <mucc/attention_store.cuh>

namespace mucc::attention {

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

  Rows<Work> state;
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
