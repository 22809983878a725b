// Stores of results of attention: of 16-bit numbers by words that lanes exchange, so that each writes up to 16 bytes.
#pragma once

#include <mucc/attention.cuh>

namespace mucc::attention {

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
      write_words(reinterpret_cast<Pack<uint32_t, kWords>*>(place(view, position)), words);
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
    mucc::store(view, position, results);
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
MUCC_DEVICE void store_rows(Work const& work, P position, int row, int rows, Rows<Work> const& state,
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

}  // namespace mucc::attention
