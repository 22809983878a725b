// Gradients of attention's queries, keys and values, and of what is added to its scores, of the gradient of its result.
//
// A block has 128 keys, and passes over the queries that see any of them. Scores are computed with keys as rows, so that
// the weights and the gradients of scores of a warpgroup's 64 keys are, in its registers, left operands of the products
// that add up to the gradients of values and keys. The gradients of queries are products of those of scores, from shared
// memory, with keys: each block adds its own to f32 in memory, in no fixed order, and a further kernel stores the sums.
//
// One warp fills shared memory by the copy engine. While the tensor cores multiply, the two other warpgroups compute weights:
// products of the next queries with keys begin before the last ones of these queries have ended.
//
// Of `Work` it wants what attention.cuh says of scores, and single wgmma instructions: `multiply_rows` (scores, and products
// of gradients with values), `add_keys` and `add_values` (gradients), `multiply_changes` (those of queries).
#pragma once

#include <mucc/attention_backward.h>
#include <mucc/attention_decode.cuh>

namespace mucc::attention_backward {

using attention::Columns;
using attention::kLog2E;

// Makes what threads have written to shared memory visible to the tensor cores.
MUCC_DEVICE void publish_shared() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

MUCC_BOTH constexpr bool on_device() {
#if defined(__CUDA_ARCH__)
  return true;
#else
  return false;
#endif
}

MUCC_DEVICE void add_four(float* to, float const* x) {
#if defined(__CUDA_ARCH__)
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
#else
  for (int i = 0; i < 4; ++i) to[i] += x[i];
#endif
}

// Whether the gradients of scores are stored, which are those of a mask with all axes: a member function
// `store_change(position, change)` of `Work` does it.
template <class Work, class = void>
inline constexpr bool kStoresChanges = false;
template <class Work>
inline constexpr bool kStoresChanges<Work, decltype(void(Work::kStoresChanges))> = Work::kStoresChanges;

// Whether the copy engine adds to the gradients of queries; otherwise threads do.
inline constexpr bool kAddsByEngine = on_device();

// Adds so many numbers in shared memory to memory, by one thread: the copy engine does it.
template <int kCount>
MUCC_DEVICE void add_part(float* to, uint32_t from) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
               "cp.async.bulk.commit_group;" ::"l"(to),
               "r"(from), "r"(4 * kCount)
               : "memory");
#endif
}
// Waits until the copy engine has read what this thread had it add.
MUCC_DEVICE void await_parts() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// A warpgroup and the warp that adds its parts of the gradients of queries meet twice a step: the part is in shared memory,
// and it has been read. Who arrives does not wait.
enum Part { kPartIsThere = 2, kPartIsRead = kPartIsThere + kGroups };
MUCC_DEVICE void await_part(Part what, int group) {
#if defined(__CUDA_ARCH__)
  asm volatile("bar.sync %0, 160;" ::"r"(what + group) : "memory");
#endif
}
MUCC_DEVICE void announce_part(Part what, int group) {
#if defined(__CUDA_ARCH__)
  asm volatile("bar.arrive %0, 160;" ::"r"(what + group) : "memory");
#endif
}

// Barriers, tiles and numbers in shared memory, by address.
template <class Work>
struct Places {
  static constexpr int kRows = Work::kTileRows, kRowChunks = kRows / kChunk;
  static constexpr int kQueryStages = Work::kQueryStages, kGradientStages = Work::kGradientStages;
  static constexpr int kChunks = rounded(Work::kWidth, kChunk) / kChunk;
  static constexpr int kResultChunks = rounded(Work::kResultWidth, kChunk) / kChunk;
  static constexpr int kKeyChunk = kKeys * 128, kRowChunk = kRows * 128;
  static constexpr int kKeyBytes = kChunks * kKeyChunk, kValueBytes = kResultChunks * kKeyChunk;
  static constexpr int kQueryBytes = kChunks * kRowChunk, kGradientBytes = kResultChunks * kRowChunk;
  static constexpr int kChangeBytes = kRowChunks * kKeyChunk;

  uint32_t base;

  MUCC_DEVICE Places() : base((shared_address(dynamic_shared()) + 1023) / 1024 * 1024) {}
  MUCC_DEVICE uint32_t keys_full() const { return base; }
  MUCC_DEVICE uint32_t query_full(int s) const { return base + 8 + 8 * s; }
  MUCC_DEVICE uint32_t query_empty(int s) const { return query_full(kQueryStages + s); }
  MUCC_DEVICE uint32_t gradient_full(int s) const { return query_full(2 * kQueryStages + s); }
  MUCC_DEVICE uint32_t gradient_empty(int s) const { return gradient_full(kGradientStages + s); }
  MUCC_DEVICE uint32_t keys() const { return base + kBarrierBytes; }
  MUCC_DEVICE uint32_t values() const { return keys() + kKeyBytes; }
  MUCC_DEVICE uint32_t query(int s) const { return values() + kValueBytes + s * kQueryBytes; }
  MUCC_DEVICE uint32_t gradient(int s) const { return query(kQueryStages) + s * kGradientBytes; }
  MUCC_DEVICE uint32_t changes(int s) const { return gradient(kGradientStages) + s * kChangeBytes; }
  MUCC_DEVICE char* at(uint32_t address) const { return dynamic_shared() + (address - shared_address(dynamic_shared())); }
  // What a warpgroup adds to the gradients of queries, and where: nowhere behind the last step.
  MUCC_DEVICE uint32_t part(int group) const { return changes(2) + group * 4 * kPartFloats<Work>; }
  MUCC_DEVICE float** part_place(int group) const { return reinterpret_cast<float**>(at(base + kBarrierBytes / 2)) + group; }
  // Of each row its log-sum-exp, then of each row the sum of gradients times results with its sign changed.
  MUCC_DEVICE float* numbers(int s) const { return reinterpret_cast<float*>(at(part(kGroups))) + s * 2 * kRows; }
};

// Whether blocks see different numbers of queries.
template <class Work>
inline constexpr bool kIsRanged = attention::kTakesTiles<Work>;

// A block's keys: their tile, the number of the leading indices along which keys differ, and its part of the heads that share
// them.
struct KeyTile {
  unsigned tile, batch, part;
};

// All tiles of one head come before those of the next, so that what they read stays in L2. Where blocks see different numbers
// of queries, the first keys of all of the last heads come first: if attention is causal most queries see them.
template <class Work>
MUCC_DEVICE KeyTile tile_of_block(Extents<Work::kRank> const& extents) {
  constexpr unsigned kLast = 512;
  unsigned const tiles = unsigned((extents.of[Work::kRank - 1] + kKeys - 1) / kKeys), block = blockIdx.x;
  if (!kIsRanged<Work>) return {block % tiles, block / tiles, 0};
  unsigned const batches = gridDim.x / tiles, most = kLast / tiles < 1 ? 1 : kLast / tiles;
  unsigned const last = most < batches ? most : batches, first = (batches - last) * tiles;
  if (block < first) return {block % tiles, block / tiles, 0};
  return {(block - first) / last, batches - last + (block - first) % last, 0};
}
// Parts of heads that share keys count as heads with keys of their own.
template <class Work>
MUCC_DEVICE KeyTile key_tile(Extents<Work::kRank> const& extents, Division const& division) {
  KeyTile own = tile_of_block<Work>(extents);
  if constexpr (Work::kShared != 0) own.part = own.batch % division.parts, own.batch /= division.parts;
  return own;
}

// The tiles of queries that see some of a block's keys, of one head after the other. Where all blocks see all queries each
// begins with another tile, so that they add to different ones at a time.
template <class Work>
struct Walk {
  using At = Position<Work::kRank, int>;

  At position;
  int head = -1, heads = 1, tile = 0, end = 0, left = 0;
  int first_key;
  Columns labelled[kGroups];  // the rows that all have the label of a warpgroup's keys

  MUCC_DEVICE Walk(Work const& work, Extents<Work::kRank> const& extents, Division const& division) {
    KeyTile const own = key_tile<Work>(extents, division);
    first_key = int(own.tile) * kKeys;
    position = attention::position_of_keys<Work>(extents, own.batch);
#pragma unroll
    for (int a = 0; a < Work::kBatch; ++a)
      if (attention::is_shared<Work>(a)) heads *= int(extents.of[a]);
    if constexpr (Work::kShared != 0) {
      heads /= division.parts;
      head = int(own.part) * heads - 1, heads += head + 1;
    }
  }

  // Sets the leading indices, and the tiles that see some of the keys.
  MUCC_DEVICE void begin_head(Work const& work, Extents<Work::kRank> const& extents, int number) {
    head = number;
    int rest = head;
#pragma unroll
    for (int a = Work::kBatch - 1; a >= 0; --a) {
      if (!attention::is_shared<Work>(a)) continue;
      int const extent = int(extents.of[a]), left = rest / extent;
      position.at[a] = rest - left * extent;
      rest = left;
    }
    find(work);
  }

  MUCC_DEVICE bool advance(Work const& work, Extents<Work::kRank> const& extents) {
    ++tile, --left;
    if (!kIsRanged<Work> && tile == end) tile = 0;
    while (left <= 0) {
      if (head + 1 >= heads) return false;
      begin_head(work, extents, head + 1);
      left = end - tile;
      if constexpr (!kIsRanged<Work>) {
        int64_t const tiles = (extents.of[Work::kRank - 1] + kKeys - 1) / kKeys;
        tile = int(int64_t(end) * (first_key / kKeys) / tiles);
      }
    }
    return true;
  }

  // The first tile with a row that ends behind the first key, and the first one all of whose rows begin behind the last
  // key: rows see ranges of columns that do not go back.
  MUCC_DEVICE void find(Work const& work) {
    int const all = int((work.query.count + Work::kTileRows - 1) / Work::kTileRows);
    tile = 0, end = all;
    if constexpr (Work::kCausal || Work::kHasLast) {
      for (int high = all; tile < high;) {
        int const middle = (tile + high) / 2;
        if (span(work, middle).any.end > first_key)
          high = middle;
        else
          tile = middle + 1;
      }
    }
    if constexpr (Work::kHasFirst) {
      for (int low = tile; low < end;) {
        int const middle = (low + end) / 2;
        if (span(work, middle).any.first >= first_key + kKeys)
          end = middle;
        else
          low = middle + 1;
      }
    }
    if constexpr (Work::kHasLabels) {
      attention::Span const rows = attention::labelled(work, position, first_key, kKeys);
      int const first = rows.any.first / Work::kTileRows, behind = (rows.any.end - 1) / Work::kTileRows + 1;
      tile = first > tile ? first : tile, end = rows.any.end == 0 ? tile : behind < end ? behind : end;
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
        labelled[g] = attention::labelled(work, position, first_key + g * kGroupKeys, kGroupKeys).all;
    }
  }
  // Whether all rows of the tile see all keys of a warpgroup.
  MUCC_DEVICE bool is_whole(Work const& work, int group) const {
    Columns const all = span(work, tile).all;
    int const first = first_key + group * kGroupKeys, row = tile * Work::kTileRows;
    bool const is_seen = all.first <= first && first + kGroupKeys <= all.end;
    return is_seen && (!Work::kHasLabels || (labelled[group].first <= row && row + Work::kTileRows <= labelled[group].end));
  }
  MUCC_DEVICE attention::Span span(Work const& work, int of) const {
    return attention::range_of(work, position, int64_t(of) * Work::kTileRows, Work::kTileRows);
  }
};

// The number of a tile of queries among all.
template <class Work>
MUCC_DEVICE int64_t tile_of(Extents<Work::kRank> const& extents, Walk<Work> const& walk) {
  int64_t number = 0;
#pragma unroll
  for (int a = 0; a < Work::kBatch; ++a) number = number * extents.of[a] + walk.position.at[a];
  return number * ((extents.of[Work::kRank - 2] + Work::kTileRows - 1) / Work::kTileRows) + walk.tile;
}

// ---- loading ------------------------------------------------------------------------------------------------

template <class Work>
MUCC_DEVICE void load_steps(Work const& work, Extents<Work::kRank> const& extents, Maps const& maps,
                            Division const& division, Places<Work> const& at) {
  using At = Places<Work>;
  constexpr int kRank = Work::kBatch + 2;
  int const lane = threadIdx.x;
  Walk<Work> walk(work, extents, division);
  if (lane == 0) {
    int key[3] = {}, value[3] = {};
    attention::leading_of(key, work.key, walk.position), attention::leading_of(value, work.value, walk.position);
    arrive_and_expect(at.keys_full(), At::kKeyBytes + At::kValueBytes);
    for (int i = 0; i < At::kChunks; ++i)
      copy_tile<kRank>(at.keys() + i * At::kKeyChunk, maps.key, at.keys_full(), i * kChunk, walk.first_key, key);
    for (int i = 0; i < At::kResultChunks; ++i)
      copy_tile<kRank>(at.values() + i * At::kKeyChunk, maps.value, at.keys_full(), i * kChunk, walk.first_key, value);
  }
  Ring<At::kQueryStages> queries;
  Ring<At::kGradientStages> gradients;
#pragma unroll 1
  while (walk.advance(work, extents)) {
    int const first_row = walk.tile * At::kRows, s = queries.place, g = gradients.place;
    await(at.query_empty(s), queries.parity ^ 1);
    if (lane == 0) {
      int query[3] = {};
      attention::leading_of(query, work.query, walk.position);
      arrive_and_expect(at.query_full(s), At::kQueryBytes);
      for (int i = 0; i < At::kChunks; ++i)
        copy_tile<kRank>(at.query(s) + i * At::kRowChunk, maps.query, at.query_full(s), i * kChunk, first_row, query);
      int gradient[3] = {};
      attention::leading_of(gradient, work.gradient, walk.position);
      await(at.gradient_empty(g), gradients.parity ^ 1);
      arrive_and_expect(at.gradient_full(g), At::kGradientBytes);
      for (int i = 0; i < At::kResultChunks; ++i)
        copy_tile<kRank>(at.gradient(g) + i * At::kRowChunk, maps.gradient, at.gradient_full(g), i * kChunk, first_row,
                         gradient);
    }
    queries.advance(), gradients.advance();
  }
}

// Loads what there is of each row: by a warp of its own, as it waits for memory each time.
template <class Work>
MUCC_DEVICE void load_numbers(Work const& work, Extents<Work::kRank> const& extents, Division const& division,
                              Places<Work> const& at) {
  using At = Places<Work>;
  constexpr int kCount = At::kRows / 32;
  int const lane = threadIdx.x % 32;
  Walk<Work> walk(work, extents, division);
  Ring<At::kQueryStages> queries;
#pragma unroll 1
  while (walk.advance(work, extents)) {
    int const first_row = walk.tile * At::kRows + lane, s = queries.place;
    float const* const logs = attention::matrix_of(work.logsumexp, walk.position);
    float const* const sums = attention::matrix_of(work.sums, walk.position);
    float log[kCount], sum[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      int64_t const row = first_row + 32 * i;
      bool const exists = row < work.query.count;
      log[i] = exists ? logs[row * work.logsumexp.row] : INFINITY;
      sum[i] = exists ? sums[row * work.sums.row] : 0.0f;
    }
    await(at.query_empty(s), queries.parity ^ 1);
    float* const numbers = at.numbers(s) + lane;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      // Rows that see no key have weights of 0, as do those that there are not.
      numbers[32 * i] = log[i] == -INFINITY ? INFINITY : Work::kPlain ? log[i] * kLog2E : log[i];
      numbers[At::kRows + 32 * i] = -sum[i];
    }
    arrive(at.query_full(s));
    queries.advance();
  }
}

// Has the copy engine add a warpgroup's parts of the gradients of queries, by a warp of its own.
template <class Work>
MUCC_DEVICE void add_parts(Places<Work> const& at, int group) {
  announce_part(kPartIsRead, group);
#pragma unroll 1
  while (true) {
    await_part(kPartIsThere, group);
    float* const to = *at.part_place(group);
    if (!to) return;
    if (threadIdx.x % 32 == 0) add_part<kPartFloats<Work>>(to, at.part(group)), await_parts();
    __syncwarp();
    announce_part(kPartIsRead, group);
  }
}

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
        attention::write_words(to + column, pack);
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
    // Pieces of 16 bytes are swizzled as those that the copy engine writes.
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
