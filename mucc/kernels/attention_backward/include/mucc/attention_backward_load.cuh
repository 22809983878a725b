// Gradients of attention: the tiles of queries that a block passes over, the warps that load them into shared memory, and the
// warps that add parts of the gradients of queries from there to global memory.
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

// Whether TMA adds to the gradients of queries; otherwise threads do.
inline constexpr bool kAddsByEngine = on_device();

// Has TMA add `kCount` floats of shared memory to global memory; called by one thread.
template <int kCount>
MUCC_DEVICE void add_part(float* to, uint32_t from) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;\n"
               "cp.async.bulk.commit_group;" ::"l"(to),
               "r"(from), "r"(4 * kCount)
               : "memory");
#endif
}
// Waits until TMA has read the floats of this thread's calls of `add_part`.
MUCC_DEVICE void await_parts() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

// Named barriers between a warpgroup and the warp that adds its parts of the gradients of queries, two a step: the part is in
// shared memory, and it has been read. The side that announces does not wait (bar.arrive). 160 threads: a warpgroup and a warp.
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
  // A warpgroup's part of the gradients of queries, and the address that it is added to: null behind the last step.
  MUCC_DEVICE uint32_t part(int group) const { return changes(2) + group * 4 * kPartFloats<Work>; }
  MUCC_DEVICE float** part_place(int group) const { return reinterpret_cast<float**>(at(base + kBarrierBytes / 2)) + group; }
  // The log-sum-exp of each row, then the negated sum of gradients times results of each row.
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

// Loads the log-sum-exp and the sum of each row. A warp of its own does it, since each load waits for memory.
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
      // Rows that see no key, and rows beyond the last, have weights of 0.
      numbers[32 * i] = log[i] == -INFINITY ? INFINITY : Work::kPlain ? log[i] * kLog2E : log[i];
      numbers[At::kRows + 32 * i] = -sum[i];
    }
    arrive(at.query_full(s));
    queries.advance();
  }
}

// Has TMA add a warpgroup's parts of the gradients of queries; a warp of its own runs this.
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

}  // namespace mucc::attention_backward
