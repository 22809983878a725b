// Attention of a few queries with many keys, whose time is that of reading keys and values.
//
// Heads that share keys are rows of one tile of 16 queries. `parts` blocks divide the keys that a tile sees. Each warp of a
// block has steps of 16 keys of its own, and multiplies them with all queries of the tile. Steps come to shared memory some
// steps ahead: by threads of the warp that multiplies them, or (`kTiles`) those of all warps together by TMA.
// Warps combine what they have at the end; where blocks share a tile each writes its part, and the last one combines the
// parts, in the order of their numbers.
//
// Operands of e4m3 are multiplied as f16, which holds all their numbers: threads that copy them convert them on the way to
// shared memory; what TMA loads is converted in registers, so that half the bytes are read.
#pragma once

#include <mucc/attention_decode_steps.cuh>
#include <mucc/tickets.cuh>

namespace mucc::attention {

template <Form kForm, class Work>
MUCC_DEVICE void decode(Work const& work, Extents<Work::kRank> const& extents, Split const& split,
                        Maps const* maps = nullptr) {
  using From = typename Work::Element;
  using T = typename InShared<From>::Type;
  constexpr bool kTiled = kForm == kTiles, kWhole = kForm != kElements && !kIsNarrow<Work>;
  // Whether bytes of e4m3 lie in shared memory. A lane has then four neighbouring elements of 16, of queries and keys as of
  // results, where it has two and two of 16 bits.
  constexpr bool kBytewise = kTiled && kIsNarrow<Work>;
  constexpr int kWarps = Work::kDecodeWarps, kThreads = 32 * kWarps, kStages = Work::kDecodeStages;
  constexpr int kKeys = kDecodeKeys, kRows = kDecodeRows;
  constexpr int kSteps = rounded(Work::kWidth, 16) / 16, kPitch = 16 * kSteps + 8;
  constexpr int kBlocks = kKeys / 8, kResults = rounded(Work::kResultWidth, 16) / 8, kResultPitch = 8 * kResults + 8;
  constexpr int kPlace = kKeys * (kPitch + kResultPitch), kItems = decode_items<Work>();
  constexpr int kRow = Work::kRank - 2, kColumn = Work::kRank - 1;
  // Queries stay in registers where there is room.
  constexpr bool kHeld = Work::kWidth <= 128;
  DecodeSteps<Work> const steps;
  T* const query = reinterpret_cast<T*>(kTiled ? steps.behind() : dynamic_shared());
  T* const places = kTiled ? reinterpret_cast<T*>(steps.base) : query + kRows * kPitch;
  // The barriers of places that are full, then of those that are empty.
  uint32_t const barriers = shared_address(query + kRows * kPitch);

  int const thread = threadIdx.x, lane = thread % 32, warp = thread / 32, parts = split.tickets.parts;
  unsigned index = blockIdx.x;
  int const tile = int(index % unsigned(split.tiles));
  index /= unsigned(split.tiles);
  int const part = int(index % unsigned(parts));
  index /= unsigned(parts);
  int64_t const unit = int64_t(index) * split.tiles + tile;
  int const first_row = tile * kRows;
  int const rows = split.rows - first_row < kRows ? split.rows - first_row : kRows;
  auto const at_keys = position_of_keys<Work>(extents, index);
  auto position_of = [&](int row) {
    auto p = at_keys;
    set_row<Work>(p, extents, first_row + (row < rows ? row : rows - 1));
    return p;
  };

  // The keys that any of the rows sees, and this block's.
  int all_first = 0, all_end = int(columns_of(work));
  if constexpr (kTakesTiles<Work>) {
    Columns const seen = columns_of_row(work, position_of(lane % kRows));
    all_first = seen.first, all_end = seen.end;
#pragma unroll
    for (int bits = 1; bits < kRows; bits *= 2) {
      int const first = __shfl_xor_sync(~0u, all_first, bits), end = __shfl_xor_sync(~0u, all_end, bits);
      all_first = first < all_first ? first : all_first;
      all_end = end > all_end ? end : all_end;
    }
  }
  // The keys of a warp's step, and of a box of TMA, lie in one page.
  if constexpr (Work::kPage > 0) {
    constexpr int kTogether = kTiled && box_rows<Work>() > kKeys ? box_rows<Work>() : kKeys;
    all_first = all_first / kTogether * kTogether;
  }
  int const chunk = all_end > all_first ? rounded((all_end - all_first + parts - 1) / parts, kKeys * kWarps) : 0;
  int64_t const begin = all_first + int64_t(part) * chunk;
  int const end = begin + chunk < all_end ? int(begin + chunk) : all_end;
  From const* const key_rows = matrix_of(work.key, at_keys);
  From const* const value_rows = matrix_of(work.value, at_keys);

  auto copy_step = [&](int64_t column, int place) {
    if (column < end) {
      T* const keys = places + (warp * kStages + place) * kPlace;
      int64_t const row = row_of_column(work, at_keys, column);
      copy_keys<kWhole, Work::kWidth>(keys, key_rows + row * work.key.row, work.key.row, work.key.step, int(end - column));
      copy_keys<kWhole, Work::kResultWidth>(keys + kKeys * kPitch, value_rows + row * work.value.row, work.value.row,
                                            work.value.step, int(end - column));
    }
  };
  int64_t column = begin + warp * kKeys;
  constexpr int kStride = kKeys * kWarps;
  // Loads all warps' keys from `first` on, by one thread.
  auto load_step = [&](int64_t first, int place) {
    using At = DecodeSteps<Work>;
    uint32_t const full = barriers + 8 * place;
    int key[3] = {}, value[3] = {};
    leading_of(key, work.key, at_keys), leading_of(value, work.value, at_keys);
    arrive_and_expect(full, At::kBytes);
    constexpr int kBox = box_rows<Work>();
#pragma unroll
    for (int r = 0; r < At::kRows; r += kBox) {
      int const row = int(row_of_column(work, at_keys, first + r));
#pragma unroll
      for (int i = 0; i < At::kChunks; ++i)
        copy_tile<Work::kRank>(shared_address(steps.keys(place)) + i * At::kChunkBytes + r * 128, maps->key, full, i * kChunk,
                               row, key);
#pragma unroll
      for (int i = 0; i < At::kResultChunks; ++i)
        copy_tile<Work::kRank>(shared_address(steps.values(place)) + i * At::kChunkBytes + r * 128, maps->value, full,
                               i * kChunk, row, value);
    }
  };
  if constexpr (kTiled) {
    if (thread == 0) {
      for (int s = 0; s < kStages; ++s) {
        start_barrier(barriers + 8 * s, 1);
        start_barrier(barriers + 8 * (kStages + s), kWarps);
      }
      publish_barriers();
      for (int s = 0; s < kStages - 1; ++s)
        if (begin + s * kStride < end) load_step(begin + s * kStride, s);
    }
  } else {
    copy_step(column, 0);
  }
  // Queries come with the keys of the first step.
  constexpr int kPieces = 2 * kSteps;
  for (int i = thread; i < kRows * kPieces; i += kThreads) {
    int const r = i / kPieces, e = i % kPieces * 8;
    auto const p = position_of(r);
    From const* const from = matrix_of(work.query, p) + p.at[kRow] * work.query.row;
    copy_row_piece<kWhole, Work::kWidth>(query + r * kPitch + e, from, work.query.step, e, r < rows);
  }
  commit_copies();
  if constexpr (kTiled) {
    wait_copies<0>();
  } else {
#pragma unroll
    for (int s = 1; s < kStages - 1; ++s) {
      copy_step(column + s * kStride, s);
      commit_copies();
    }
    wait_copies<kStages - 2>();
  }
  __syncthreads();

  T const* const own = query + (kBytewise ? lane / 4 * kPitch + lane % 4 * 4 : lane % 16 * kPitch + lane / 16 * 8);
  // Elements 16 * s to 16 * s + 15 of the queries as a left operand.
  auto load_queries = [&](uint32_t(&a)[4], int s) {
    if constexpr (kBytewise) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        auto const four = *reinterpret_cast<Pack<uint32_t, 2> const*>(own + 8 * h * kPitch + 16 * s);
        a[h] = four.of[0], a[2 + h] = four.of[1];
      }
    } else {
      load_matrices(a, own + 16 * s);
    }
  };
  uint32_t held[kHeld ? kSteps : 1][4];
  if constexpr (kHeld) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) load_queries(held[s], s);
  }
  Position<Work::kRank, int> positions[2];
  Columns columns[2];
  int labels[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    int const row = lane / 4 + 8 * h;
    positions[h] = position_of(row);
    columns[h] = columns_of_row(work, positions[h]);
    if (row >= rows) columns[h].end = 0;
    if (columns[h].end > end) columns[h].end = end;
    if constexpr (Work::kHasLabels) labels[h] = work.row_label(positions[h]);
  }

  Rows<Work> state;
  float sum[4 * kResults] = {};
  int turn = 0;  // the warp that loads the next step by TMA
  for (int place = 0, parity = 0; column - (kTiled ? warp * kKeys : 0) < end; column += kStride) {
    T const *key, *value;
    int pieces[2][4] = {};  // how far the pieces of a chunk lie from `key` and `value`
    if constexpr (kTiled) {
      await(barriers + 8 * place, parity);
      int64_t const next = column - warp * kKeys + (kStages - 1) * kStride;
      if (lane == 0 && warp == turn && next < end) {
        // The place of the step before: once all warps have read it.
        int const free = place == 0 ? kStages - 1 : place - 1;
        if (next - begin >= kStages * kStride) await(barriers + 8 * (kStages + free), place == 0 ? parity ^ 1 : parity);
        load_step(next, free);
      }
      turn = turn + 1 == kWarps ? 0 : turn + 1;
      __syncwarp();
      int const row = warp * kKeys + lane / 16 * 8 + lane % 8, value_row = warp * kKeys + lane % 16;
      key = reinterpret_cast<T const*>(steps.keys(place) + row * 128);
      value = reinterpret_cast<T const*>(steps.values(place) + value_row * 128);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        pieces[0][i] = (2 * i + lane / 8 % 2 ^ lane % 8) * 8;
        pieces[1][i] = (2 * i + lane / 16 ^ lane % 8) * 8;
      }
      if (column + kKeys > end) {
        // Rows that are not this block's may hold anything, also what 0 times is no 0.
        for (int i = lane; i < kKeys * 8; i += 32)
          if (column + i / 8 >= end)
            for (int k = 0; k < DecodeSteps<Work>::kResultChunks; ++k)
              *reinterpret_cast<Pack<uint32_t, 4>*>(steps.values(place) + k * DecodeSteps<Work>::kChunkBytes +
                                                    (warp * kKeys + i / 8) * 128 + i % 8 * 16) = {};
        __syncwarp();
      }
    } else {
      wait_copies<kStages - 2>();
      __syncwarp();
      copy_step(column + (kStages - 1) * kStride, place == 0 ? kStages - 1 : place - 1);
      commit_copies();
      T const* const keys = places + (warp * kStages + place) * kPlace;
      key = keys + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8;
      value = keys + kKeys * kPitch + lane % 16 * kResultPitch + lane / 16 * 8;
    }
    float c[4 * kBlocks] = {};
    uint32_t bytes[4];
    if constexpr (kBytewise) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        uint32_t a[4];
        if constexpr (!kHeld) load_queries(a, s);
        // Of 8 keys each 32 elements: those of this step, and of the next.
        if (s % 2 == 0) load_matrices(bytes, key + s / 8 * (DecodeSteps<Work>::kChunkBytes / 2) + pieces[0][s / 2 % 4]);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          uint32_t const four = bytes[2 * n + s % 2];
          multiply(T{}, reinterpret_cast<float(&)[4]>(c[4 * n]), kHeld ? held[kHeld ? s : 0] : a, to_halves(four),
                   to_halves(four >> 16));
        }
      }
    }
#pragma unroll
    for (int s = 0; s < (kBytewise ? 0 : kSteps); ++s) {
      uint32_t a[4];
      if constexpr (!kHeld) load_queries(a, s);
#pragma unroll
      for (int n = 0; n < kBlocks; n += 2) {
        uint32_t b[4];
        load_matrices(b, kTiled ? key + s / 4 * (DecodeSteps<Work>::kChunkBytes / 2) + pieces[0][s % 4]
                                : key + 8 * n * kPitch + 16 * s);
        multiply(T{}, reinterpret_cast<float(&)[4]>(c[4 * n]), kHeld ? held[kHeld ? s : 0] : a, b[0], b[1]);
        multiply(T{}, reinterpret_cast<float(&)[4]>(c[4 * n + 4]), kHeld ? held[kHeld ? s : 0] : a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4 * kBlocks; ++i) {
      int const h = i / 2 % 2, at = int(column) + i / 4 * 8 + lane % 4 * 2 + i % 2;
      bool is_seen = columns[h].first <= at && at < columns[h].end;
      positions[h].at[kColumn] = at < end ? at : end - 1;  // nothing is read where there is no column
      // Scores of columns that are not seen are computed, too: LLVM is not to make a branch for each.
      if constexpr (!Work::kPlain) c[i] = work.template score<true>(positions[h], c[i]);
      if constexpr (Work::kHasLabels) is_seen = is_seen & (work.column_label(positions[h]) == labels[h]);
      c[i] = is_seen ? c[i] : Work::kSoftmax ? -INFINITY : 0.0f;
    }
    float rescale[2];
    make_weights<Work>(state, c, rescale);
#pragma unroll
    for (int i = 0; i < 4 * kResults; ++i) sum[i] *= rescale[i / 2 % 2];
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      uint32_t a[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = packed(T{}, c[4 * n + 2 * i], c[4 * n + 2 * i + 1]);
      if constexpr (kBytewise) {
        // Of 16 elements of a result the even ones make a block, and the odd ones.
#pragma unroll
        for (int j = 0; j < kResults; j += 2) {
          if (j % 4 == 0) load_turned(bytes, value + j / 16 * (DecodeSteps<Work>::kChunkBytes / 2) + pieces[1][j % 16 / 4]);
          uint32_t b[2][2];
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            uint32_t const x = bytes[j % 4 + k];
            b[0][k] = to_halves((x & 0xff) | (x >> 8 & 0xff00)), b[1][k] = to_halves((x >> 8 & 0xff) | (x >> 16 & 0xff00));
          }
          multiply(T{}, reinterpret_cast<float(&)[4]>(sum[4 * j]), a, b[0][0], b[0][1]);
          multiply(T{}, reinterpret_cast<float(&)[4]>(sum[4 * j + 4]), a, b[1][0], b[1][1]);
        }
      }
#pragma unroll
      for (int j = 0; j < (kBytewise ? 0 : kResults); j += 2) {
        uint32_t b[4];
        load_turned(b, kTiled ? value + j / 8 * (DecodeSteps<Work>::kChunkBytes / 2) + pieces[1][j % 8 / 2]
                              : value + 8 * n * kResultPitch + 8 * j);
        multiply(T{}, reinterpret_cast<float(&)[4]>(sum[4 * j]), a, b[0], b[1]);
        multiply(T{}, reinterpret_cast<float(&)[4]>(sum[4 * j + 4]), a, b[2], b[3]);
      }
    }
    if constexpr (kTiled) {
      __syncwarp();
      if (lane == 0) arrive(barriers + 8 * (kStages + place));
    }
    if (++place == kStages) place = 0, parity ^= 1;
  }
  wait_copies<0>();
  __syncthreads();

  // Between warps: the largest scores and the sums of the rows, then what each has of the results, four numbers an item.
  // Item (h * kResults / 2 + j) * 32 + lane is of row lane / 4 + 8 * h and of columns 16 * j + lane % 4 * 2 and, behind
  // their neighbours, those 8 further on; bytewise of the columns from 16 * j + lane % 4 * 4 on.
  using Four = Pack<float, 4>;
  float* const most = reinterpret_cast<float*>(places);
  float* const total = most + kWarps * kRows;
  Four* const items = reinterpret_cast<Four*>(total + kWarps * kRows);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float const all = sum_of_four_lanes(state.sum[h]);
    if (lane % 4 == 0) {
      most[warp * kRows + lane / 4 + 8 * h] = state.most[h];
      total[warp * kRows + lane / 4 + 8 * h] = all;
    }
  }
  __syncthreads();
  auto most_of = [&](int row) {
    float x = most[row];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) x = fmaxf(x, most[w * kRows + row]);
    return x;
  };
  auto total_of = [&](int row, float largest) {
    float x = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) x += total[w * kRows + row] * relative<Work>(most[w * kRows + row], largest);
    return x;
  };
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float const share = relative<Work>(state.most[h], most_of(lane / 4 + 8 * h));
#pragma unroll
    for (int j = 0; j < kResults / 2; ++j) {
      Four four;
#pragma unroll
      for (int i = 0; i < 4; ++i)
        four.of[i] = sum[8 * j + 2 * h + (kBytewise ? i % 2 * 4 + i / 2 : i / 2 * 4 + i % 2)] * share;
      items[warp * kItems + (h * kResults / 2 + j) * 32 + lane] = four;
    }
  }
  __syncthreads();
  auto row_of = [&](int item) { return item % 32 / 4 + item / (kItems / 2) * 8; };
  auto finish = [&](int item, Four const& four) {
    auto p = position_of(row_of(item));
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      float const pair[2] = {four.of[2 * b], four.of[2 * b + 1]};
      int const column = kBytewise ? item % 4 * 4 + b * 2 : b * 8 + item % 4 * 2;
      store_pair(work, p, item % (kItems / 2) / 32 * 16 + column, pair);
    }
  };
  int const taken = rows <= 8 ? kItems / 2 : kItems;  // the others are of no row
  if constexpr (Work::kStoresSum) {
    if (parts == 1 && thread < rows)
      store_sum_of(work, position_of(thread), most_of(thread), total_of(thread, most_of(thread)));
  }
  int64_t const words = 2 * kRows + 4 * (split.rows <= 8 ? kItems / 2 : kItems);
  float* const own_part = split.partials + (unit * parts + part) * words;
  for (int i = thread; i < taken; i += kThreads) {
    int const row = row_of(i);
    if (row >= rows) continue;
    Four four = items[i];
#pragma unroll
    for (int w = 1; w < kWarps; ++w)
#pragma unroll
      for (int k = 0; k < 4; ++k) four.of[k] += items[w * kItems + i].of[k];
    if (parts > 1) {
      *reinterpret_cast<Four*>(own_part + 2 * kRows + 4 * i) = four;
    } else {
      float const share = share_of(work, position_of(row), most_of(row), total_of(row, most_of(row)));
#pragma unroll
      for (int k = 0; k < 4; ++k) four.of[k] *= share;
      finish(i, four);
    }
  }
  if (parts == 1) return;
  if (thread < kRows) {
    own_part[thread] = most_of(thread);
    own_part[kRows + thread] = total_of(thread, most_of(thread));
  }
  if (!ends_last<Work>(split.tickets, unsigned(unit))) return;

  // Between blocks: the largest scores and sums of all parts, of which their weights are made.
  float const* const all_parts = split.partials + unit * parts * words;
  float* const known = reinterpret_cast<float*>(places);
  for (int i = thread; i < parts * kRows / 2; i += kThreads) {
    Four const four = read_part(all_parts + i / (kRows / 2) * words + i % (kRows / 2) * 4);
    *reinterpret_cast<Four*>(known + 4 * i) = four;
  }
  __syncthreads();
  for (int row = thread / 8; row < kRows; row += kThreads / 8) {
    float largest = -kLargest<Work>, sums = 0.0f;
    for (int k = thread % 8; k < parts; k += 8) largest = fmaxf(largest, known[k * 2 * kRows + row]);
#pragma unroll
    for (int bits = 1; bits < 8; bits *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, bits));
    for (int k = thread % 8; k < parts; k += 8)
      sums += known[k * 2 * kRows + kRows + row] * relative<Work>(known[k * 2 * kRows + row], largest);
#pragma unroll
    for (int bits = 1; bits < 8; bits *= 2) sums += __shfl_xor_sync(~0u, sums, bits);
    float const share = share_of(work, position_of(row), largest, sums);
    if constexpr (Work::kStoresSum) {
      if (thread % 8 == 0 && row < rows) store_sum_of(work, position_of(row), largest, sums);
    }
    for (int k = thread % 8; k < parts; k += 8)
      known[k * 2 * kRows + row] = relative<Work>(known[k * 2 * kRows + row], largest) * share;
  }
  __syncthreads();
  for (int i = thread; i < taken; i += kThreads) {
    int const row = row_of(i);
    if (row >= rows) continue;
    constexpr int kAtOnce = 8;
    Four four{};
    for (int k = 0; k < parts; k += kAtOnce) {
      Four others[kAtOnce];
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        others[n] = read_part(all_parts + (k + n < parts ? k + n : k) * words + 2 * kRows + 4 * i);
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (k + n < parts) four.of[e] += known[(k + n) * 2 * kRows + row] * others[n].of[e];
    }
    finish(i, four);
  }
}

}  // namespace mucc::attention
