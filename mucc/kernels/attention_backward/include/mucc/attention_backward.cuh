// Gradients of attention's queries, keys and values, and of what is added to its scores, of the gradient of its result.
//
// A block has 128 keys, and passes over the queries that see any of them. Scores are computed with keys as rows, so that
// the weights and the gradients of scores of a warpgroup's 64 keys are, in its registers, left operands of the products
// that add up to the gradients of values and keys. The gradients of queries are products of those of scores, from shared
// memory, with keys: each block adds its own to f32 in memory, in no fixed order, and a further kernel stores the sums.
//
// The warps of one warpgroup fill shared memory (attention_backward_load.cuh). While the tensor cores multiply, the two others
// compute weights: products of the next queries with keys begin before the last ones of these queries have ended.
//
// Of `Work` it wants what attention.cuh says of scores, and single wgmma instructions: `multiply_rows` (scores, and products
// of gradients with values), `add_keys` and `add_values` (gradients), `multiply_changes` (those of queries).
#pragma once

#include <mucc/attention_backward_load.cuh>

namespace mucc::attention_backward {

// ---- multiplying --------------------------------------------------------------------------------------------

// Replaces products by weights. Element 4 * j + 2 * h + e is that of key `key + 8 * h` and query `row + 8 * j + e`.
template <bool kMasked, int kCount, class Work, class P>
MUCC_DEVICE void make_weights(Work const& work, P const& position, int row, int key, float const* numbers,
                              float (&c)[kCount]) {
  constexpr int kRow = Work::kRank - 2, kColumn = Work::kRank - 1;
  constexpr float kBy = attention::kFactor<Work>;
  int const rows = int(work.query.count), columns = int(work.key.count);
  P at = position;
  int labels[2];
  if constexpr (kMasked && Work::kHasLabels) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      at.at[kColumn] = key + 8 * h < columns ? key + 8 * h : columns - 1;
      labels[h] = work.column_label(at);
    }
  }
#pragma unroll
  for (int j = 0; j < kCount / 4; ++j) {
    auto const shifts = *reinterpret_cast<Pack<float, 2> const*>(numbers + 8 * j);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      int const query = row + 8 * j + e;
      at.at[kRow] = query < rows ? query : rows - 1;
      Columns seen{};
      if constexpr (kMasked) seen = attention::columns_of_row(work, at);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int const column = key + 8 * h;
        float& x = c[4 * j + 2 * h + e];
        if constexpr (Work::kPlain) {
          x = attention::power_of_two(fmaf(x, kBy, -shifts.of[e]));
        } else {
          at.at[kColumn] = !kMasked || column < columns ? column : columns - 1;
          x = attention::power_of_two((work.score(at, x) - shifts.of[e]) * kBy);
        }
        if constexpr (kMasked) {
          bool is_seen = seen.first <= column && column < seen.end;
          if constexpr (Work::kHasLabels) is_seen = is_seen & (work.row_label(at) == labels[h]);
          x = is_seen ? x : 0.0f;
        }
      }
    }
  }
}

// Stores zeros as the gradients of scores of a block's keys with the queries of tiles that see none of them.
template <class Work>
MUCC_DEVICE void store_unseen(Work const& work, Extents<Work::kRank> const& extents, Division const& division) {
  constexpr int kRow = Work::kRank - 2, kColumn = Work::kRank - 1, kThreads = 128 * kGroups;
  Walk<Work> walk(work, extents, division);
  int const rows = int(work.query.count), columns = int(work.key.count);
  int const column = walk.first_key + threadIdx.x % kKeys;
  for (int head = walk.head + 1; head < walk.heads; ++head) {
    walk.begin_head(work, extents, head);
    auto at = walk.position;
    at.at[kColumn] = column;
    bool const any = walk.tile < walk.end;
    int const first = any ? walk.tile * Work::kTileRows : rows, end = any ? walk.end * Work::kTileRows : rows;
    for (int row = int(threadIdx.x - 128) / kKeys; row < rows && column < columns; row += kThreads / kKeys) {
      if (first <= row && row < end) continue;
      at.at[kRow] = row;
      work.store_change(at, 0.0f);
    }
  }
}

// Stores 64 rows of a gradient, from `row` on, times `by`.
template <int kBlocks, class T, int kBatch, class P>
MUCC_DEVICE void store_gradient(Operand<T, kBatch> const& result, P const& position, int row, int width, bool packs, float by,
                                float const (&x)[4 * kBlocks]) {
  constexpr int kTogether = kBlocks % 4 == 0 ? 4 : 2;
  int const lane = threadIdx.x % 32, own_column = 8 * (lane % kTogether) + lane % 4 / kTogether * 4;
  T* const matrix = attention::matrix_of(result, position);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    bool const exists = row + 8 * h < result.count;
    T* const to = matrix + (row + 8 * h) * result.row;
#pragma unroll
    for (int n = 0; n < kBlocks / kTogether; ++n) {
      uint32_t words[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        int const i = 4 * (n * kTogether + k) + 2 * h;
        words[k] = attention::packed(T{}, x[i] * by, x[i + 1] * by);
      }
      auto const pack = attention::gather_words<kTogether>(words);
      int const column = own_column + 8 * kTogether * n;
      if (!exists || column >= width) continue;
      if (packs) {
        write_words(reinterpret_cast<Pack<uint32_t, kTogether>*>(to + column), pack);
      } else {
        auto const elements = __builtin_bit_cast(Pack<T, 2 * kTogether>, pack);
#pragma unroll
        for (int v = 0; v < 2 * kTogether; ++v)
          if (column + v < width) to[(column + v) * result.step] = elements.of[v];
      }
    }
  }
}

// The numbers that are the halves of a word.
template <class T>
MUCC_DEVICE void unpack(T, uint32_t word, float (&x)[2]) {
  x[0] = widen(T{uint16_t(word)}), x[1] = widen(T{uint16_t(word >> 16)});
}

// Where the gradients of a tile's keys and values are added up.
template <class Work>
MUCC_DEVICE float* sums_of_keys(Extents<Work::kRank> const& extents, KeyTile const& own, Division const& division) {
  int64_t const tiles = (extents.of[Work::kRank - 1] + kKeys - 1) / kKeys;
  return division.sums + (own.batch * tiles + own.tile) * kKeyFloats<Work>;
}

// Adds what a thread of a warpgroup has of the gradients of keys and values.
template <class Work, int kCount, int kResultCount>
MUCC_DEVICE void add_sums(float* to, float const (&keys)[kCount], float const (&values)[kResultCount]) {
  static_assert(kCount + kResultCount == kSumFloats<Work>);
  to += threadIdx.x % 128 * 4;
#pragma unroll
  for (int i = 0; i < kCount; i += 4) add_four(to + i * 128, keys + i);
#pragma unroll
  for (int i = 0; i < kResultCount; i += 4) add_four(to + (kCount + i) * 128, values + i);
}

template <class Work>
MUCC_DEVICE void multiply_steps(Work const& work, Extents<Work::kRank> const& extents, Places<Work> const& at, int group,
                                float* partials, Division const& division) {
  using At = Places<Work>;
  using T = typename Work::Element;
  constexpr int kRows = At::kRows, kSteps = rounded(Work::kWidth, 16) / 16;
  constexpr int kResultSteps = rounded(Work::kResultWidth, 16) / 16;
  // With 128 queries a step there is no room for weights in f32 beside products.
  constexpr bool kKeepsWeights = kRows == 64;
  // Where there are registers for the gradients of scores, they are added to those of keys while the warpgroups meet.
  constexpr bool kKeepsChanges = Work::kKeepsChanges;
  constexpr bool kByRows = kRows == 128;  // each warpgroup has half of the rows of queries' gradients, else of their columns
  int const thread = threadIdx.x % 128, lane = threadIdx.x % 32, own_row = thread / 32 * 16 + lane / 4;
  auto release = [&](uint32_t barrier) {
    if (lane == 0) arrive(barrier);
  };
  float c[kRows / 2], d[kRows / 2], keys[8 * kSteps], values[8 * kResultSteps], queries[kPartColumns<Work> / 2];
  uint32_t weights[kRows / 16][4], changes[kKeepsChanges ? kRows / 16 : 1][4];

  auto multiply_keys = [&](int s) {
    uint64_t const a = described(at.keys() + group * kGroupKeys * 128, 16), b = described(at.query(s), 16);
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      Work::multiply_rows(c, a + (i / 4 * At::kKeyChunk + i % 4 * 32) / 16, b + (i / 4 * At::kRowChunk + i % 4 * 32) / 16, i > 0);
    end_products();
  };
  // Products of gradients with values, from which the sums of their rows are taken: those are where they start. So nothing is
  // read from shared memory between the stores of the gradients of scores, which would wait for each other.
  auto start_values = [&](float const* numbers) {
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      auto const sums = *reinterpret_cast<Pack<float, 2> const*>(numbers + kRows + 8 * j);
#pragma unroll
      for (int i = 0; i < 4; ++i) d[4 * j + i] = sums.of[i % 2];
    }
  };
  auto multiply_values = [&](int s) {
    uint64_t const a = described(at.values() + group * kGroupKeys * 128, 16), b = described(at.gradient(s), 16);
#pragma unroll
    for (int i = 0; i < kResultSteps; ++i)
      Work::multiply_rows(d, a + (i / 4 * At::kKeyChunk + i % 4 * 32) / 16, b + (i / 4 * At::kRowChunk + i % 4 * 32) / 16, 1);
    end_products();
  };
  auto add_values = [&](int s, int keeps) {
    uint64_t const b = described(at.gradient(s), At::kRowChunk);
#pragma unroll
    for (int i = 0; i < kRows / 16; ++i) Work::add_values(values, weights[i], b + i * (16 * 128 / 16), i > 0 || keeps);
    end_products();
  };
  auto add_keys = [&](int s, int place, int keeps) {
    uint64_t const a = described(at.changes(place) + group * kGroupKeys * 128, 16);
    uint64_t const b = described(at.query(s), At::kRowChunk);
#pragma unroll
    for (int i = 0; i < kRows / 16; ++i) {
      if constexpr (kKeepsChanges)
        Work::add_keys(keys, changes[i], b + i * (16 * 128 / 16), i > 0 || keeps);
      else
        Work::add_keys(keys, a + (i / 4 * At::kKeyChunk + i % 4 * 32) / 16, b + i * (16 * 128 / 16), i > 0 || keeps);
    }
    end_products();
  };
  auto multiply_changes = [&](int s) {
    uint64_t const a = described(at.changes(s) + (kByRows ? group * At::kKeyChunk : 0), At::kKeyChunk);
    // A warpgroup's columns are a chunk, or half of one.
    constexpr int kColumns = kPartColumns<Work>;
    int const chunk = kByRows ? 0 : group * kColumns / kChunk, half = kByRows ? 0 : group * kColumns % kChunk * 2;
    uint64_t const b = described(at.keys() + chunk * At::kKeyChunk + half, At::kKeyChunk);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      Work::multiply_changes(queries, a + i * (16 * 128 / 16), b + i * (16 * 128 / 16), i > 0);
    end_products();
  };

  Walk<Work> walk(work, extents, division);
  int const key = walk.first_key + group * kGroupKeys + own_row;
  Ring<At::kQueryStages> query;
  Ring<At::kGradientStages> gradient;
  bool more = walk.advance(work, extents);
  int keeps = 0, place = 0, last = 0;
  await(at.keys_full(), 0);
  if (more) {
    await(at.query_full(0), 0);
    begin_products();
    multiply_keys(0);
    if constexpr (!kKeepsChanges) {
      wait_products<0>();
      hold(c);
    }
  }
  while (more) {
    int const s = query.place, g = gradient.place, row = walk.tile * kRows;
    float const* const numbers = at.numbers(s) + lane % 4 * 2;
    start_values(numbers);
    await(at.gradient_full(g), gradient.parity);
    begin_products();
    multiply_values(g);
    if constexpr (kKeepsChanges) {
      wait_products<1>();  // products of these queries with keys
      hold(c);
    }
    if (walk.is_whole(work, group))
      make_weights<false>(work, walk.position, row + lane % 4 * 2, key, numbers, c);
    else
      make_weights<true>(work, walk.position, row + lane % 4 * 2, key, numbers, c);
#pragma unroll
    for (int t = 0; t < kRows / 16; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[t][i] = attention::packed(T{}, c[8 * t + 2 * i], c[8 * t + 2 * i + 1]);
    begin_products();
    add_values(g, keeps);
    wait_products<1>();  // products with values, and what the last step added to the gradients of keys
    hold(d);
    if (!kKeepsChanges && keeps) release(at.query_empty(last));
    // Pieces of 16 bytes are swizzled as those that TMA writes.
    char* const own = at.at(at.changes(place)) + (group * kGroupKeys + own_row) * 128 + lane % 4 * 4;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      char* const to = own + j / 8 * At::kKeyChunk + (j % 8 ^ lane / 4) * 16;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float x[2] = {c[4 * j + 2 * h], c[4 * j + 2 * h + 1]};
        if constexpr (!kKeepsWeights) unpack(T{}, weights[j / 2][j % 2 * 2 + h], x);
#pragma unroll
        for (int e = 0; e < 2; ++e) x[e] *= d[4 * j + 2 * h + e];
        if constexpr (kStoresChanges<Work>) {
          auto at_score = walk.position;
          at_score.at[Work::kRank - 1] = key + 8 * h;
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            int const query = row + lane % 4 * 2 + 8 * j + e;
            at_score.at[Work::kRank - 2] = query;
            if (query < work.query.count && key + 8 * h < work.key.count) work.store_change(at_score, x[e]);
          }
        }
        uint32_t const word = attention::packed(T{}, x[0], x[1]);
        if constexpr (kKeepsChanges) changes[j / 2][j % 2 * 2 + h] = word;
        *reinterpret_cast<uint32_t*>(to + h * 8 * 128) = word;
      }
    }
    if constexpr (kKeepsChanges) {
      begin_products();
      add_keys(s, place, keeps);
      publish_shared();
    }
    int64_t const tile = tile_of(extents, walk);
    query.advance(), gradient.advance();
    more = walk.advance(work, extents);
    if (more && !kKeepsChanges) await(at.query_full(query.place), query.parity);
    if constexpr (kKeepsChanges) {
      sync_groups(1);
      wait_products<1>();  // what was added to the gradients of values
      hold(values);
      release(at.gradient_empty(g));
      begin_products();
      multiply_changes(place);
      // The products of the next queries with keys, which are under way when the next step begins; behind the last ones any
      // will do.
      if (more) await(at.query_full(query.place), query.parity);
      multiply_keys(more ? query.place : s);
      wait_products<1>();
      hold(keys), hold(queries);
      release(at.query_empty(s));
    } else {
      // They begin before the warpgroups meet.
      begin_products();
      multiply_keys(more ? query.place : s);
      publish_shared();
      sync_groups(1);
      wait_products<1>();
      hold(values);
      release(at.gradient_empty(g));
      begin_products();
      multiply_changes(place);
      add_keys(s, place, keeps);
      wait_products<1>();
      hold(c), hold(queries);
    }
    if (partials) {
      float* const to = partials + (tile * kGroups + group) * kPartFloats<Work>;
      if constexpr (kAddsByEngine) {
        await_part(kPartIsRead, group);
        auto* const part = reinterpret_cast<Pack<float, 4>*>(at.at(at.part(group))) + thread;
#pragma unroll
        for (int j = 0; j < kPartColumns<Work> / 8; ++j)
          part[j * 128] = {queries[4 * j], queries[4 * j + 1], queries[4 * j + 2], queries[4 * j + 3]};
        if (thread == 0) *at.part_place(group) = to;
        publish_shared();
        announce_part(kPartIsThere, group);
      } else {
#pragma unroll
        for (int j = 0; j < kPartColumns<Work> / 8; ++j) add_four(to + j * 512 + thread * 4, queries + 4 * j);
      }
    }
    keeps = 1, place ^= 1, last = s;
  }
  if (kAddsByEngine && partials) {
    await_part(kPartIsRead, group);
    if (thread == 0) *at.part_place(group) = nullptr;
    announce_part(kPartIsThere, group);
  }
  wait_products<0>();
  hold(keys), hold(values);
  if (!keeps) {
#pragma unroll
    for (int i = 0; i < 8 * kSteps; ++i) keys[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 8 * kResultSteps; ++i) values[i] = 0.0f;
  }
  KeyTile const own_keys = key_tile<Work>(extents, division);
  if constexpr (Work::kShared != 0) {
    if (division.parts > 1) {
      if (keeps) add_sums<Work>(sums_of_keys<Work>(extents, own_keys, division) + group * 128 * kSumFloats<Work>, keys, values);
      return;
    }
  }
  auto const position = attention::position_of_keys<Work>(extents, own_keys.batch);
  if (work.key_gradient.data)
    store_gradient<2 * kSteps>(work.key_gradient, position, key, Work::kWidth, work.packs, Work::kScale, keys);
  if (work.value_gradient.data)
    store_gradient<2 * kResultSteps>(work.value_gradient, position, key, Work::kResultWidth, work.packs, 1.0f, values);
}

template <class Work>
MUCC_DEVICE void multiply(Work const& work, Extents<Work::kRank> const& extents, Maps const& maps, float* partials,
                          Division const& division) {
  using At = Places<Work>;
  At const at;
  if (threadIdx.x == 0) {
    prefetch(maps.key), prefetch(maps.query), prefetch(maps.value), prefetch(maps.gradient);
    constexpr int kWarps = 4 * kGroups;
    start_barrier(at.keys_full(), 1);
    for (int s = 0; s < At::kQueryStages; ++s) {
      start_barrier(at.query_full(s), 33);  // the copy, and each lane's numbers
      start_barrier(at.query_empty(s), kWarps);
    }
    for (int s = 0; s < At::kGradientStages; ++s) {
      start_barrier(at.gradient_full(s), 1);
      start_barrier(at.gradient_empty(s), kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  // Taken from one lane, since the compiler then knows that it is the same in all of a warp.
  int const group = __shfl_sync(~0u, int(threadIdx.x / 128), 0) - 1;
  if (group < 0) {
    leave_registers<24>();
    int const warp = int(threadIdx.x / 32);
    if (warp == 0) load_steps(work, extents, maps, division, at);
    if (warp == 1) load_numbers(work, extents, division, at);
    if (kAddsByEngine && partials && warp > 1) add_parts(at, warp - 2);
  } else {
    take_registers<240>();
    if constexpr (kStoresChanges<Work> && kIsRanged<Work>) store_unseen(work, extents, division);
    multiply_steps(work, extents, at, group, partials, division);
  }
}

// Stores the gradients of a tile of queries.
template <class Work>
MUCC_DEVICE void finish(Work const& work, Extents<Work::kRank> const& extents, float const* partials) {
  constexpr bool kByRows = Work::kTileRows == 128;
  unsigned const tiles = unsigned((extents.of[Work::kRank - 2] + Work::kTileRows - 1) / Work::kTileRows);
  auto const position = attention::leading_position<Work>(extents, blockIdx.x / tiles);
  int const group = threadIdx.x / 128, thread = threadIdx.x % 128, lane = threadIdx.x % 32;
  float const* const from = partials + (int64_t(blockIdx.x) * kGroups + group) * kPartFloats<Work> + thread * 4;
  constexpr int kColumns = kPartColumns<Work>;
  float x[kColumns / 2];
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    auto const four = *reinterpret_cast<Pack<float, 4> const*>(from + j * 512);
#pragma unroll
    for (int i = 0; i < 4; ++i) x[4 * j + i] = four.of[i];
  }
  int const row = int(blockIdx.x % tiles) * Work::kTileRows + (kByRows ? 64 * group : 0) + thread / 32 * 16 + lane / 4;
  auto result = work.query_gradient;
  int const first = kByRows ? 0 : kColumns * group;
  result.data += first * result.step;
  store_gradient<kColumns / 8>(result, position, row, Work::kWidth - first, work.packs, Work::kScale, x);
}

// Stores the gradients of a tile of keys and values that several blocks have added up.
template <class Work>
MUCC_DEVICE void finish_keys(Work const& work, Extents<Work::kRank> const& extents, Division const& division) {
  constexpr int kSteps = rounded(Work::kWidth, 16) / 16, kResultSteps = rounded(Work::kResultWidth, 16) / 16;
  unsigned const tiles = unsigned((extents.of[Work::kRank - 1] + kKeys - 1) / kKeys);
  KeyTile const own{blockIdx.x % tiles, blockIdx.x / tiles, 0};
  int const group = threadIdx.x / 128, thread = threadIdx.x % 128, lane = threadIdx.x % 32;
  float const* const from = sums_of_keys<Work>(extents, own, division) + group * 128 * kSumFloats<Work> + thread * 4;
  float keys[8 * kSteps], values[8 * kResultSteps];
  auto read = [&](float* x, int first, int count) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      auto const four = *reinterpret_cast<Pack<float, 4> const*>(from + (first + i) * 128);
#pragma unroll
      for (int k = 0; k < 4; ++k) x[i + k] = four.of[k];
    }
  };
  read(keys, 0, 8 * kSteps), read(values, 8 * kSteps, 8 * kResultSteps);
  int const key = int(own.tile) * kKeys + group * kGroupKeys + thread / 32 * 16 + lane / 4;
  auto const position = attention::position_of_keys<Work>(extents, own.batch);
  if (work.key_gradient.data)
    store_gradient<2 * kSteps>(work.key_gradient, position, key, Work::kWidth, work.packs, Work::kScale, keys);
  if (work.value_gradient.data)
    store_gradient<2 * kResultSteps>(work.value_gradient, position, key, Work::kResultWidth, work.packs, 1.0f, values);
}

}  // namespace mucc::attention_backward
