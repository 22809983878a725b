// Attention by Hopper's warpgroups.
//
// One warpgroup fills shared memory by TMA: queries of a tile, then keys and values step by step. Each of the
// others has 64 queries. While the tensor cores multiply keys of one step and values of the step before, it computes the
// weights of neither: it waits for the keys' product alone, and makes weights of it while the values' product is under way.
// The warpgroups take turns at the tensor cores, so that one multiplies while another makes weights. Blocks stay for tile
// after tile, and the next tile is loaded while the results of one are written.
//
// Of `Work` it wants, besides what attention.cuh says, `multiply_keys` and `multiply_values`: single wgmma instructions.
#pragma once

#include <mucc/attention_decode.cuh>
#include <mucc/attention_transpose.cuh>

namespace mucc::attention {

// Whether warpgroups take turns at the tensor cores, so that one multiplies while another makes weights: where there are
// several, unless `Op::kTakesTurns` says otherwise. Turns order instructions only; no data waits for them.
template <class Op, class = void>
inline constexpr bool kTurns = Op::kGroups > 1;
template <class Op>
inline constexpr bool kTurns<Op, decltype(void(Op::kTakesTurns))> = Op::kGroups > 1 && Op::kTakesTurns;

// A warpgroup's turn at the tensor cores: barrier 1 + g is that of warpgroup g.
MUCC_DEVICE void await_turn(int group) { sync_groups(1 + group); }
MUCC_DEVICE void give_turn(int group) { arrive_groups(1 + group); }

// ---- tiles --------------------------------------------------------------------------------------------------

// The order of tiles: those of `section` leading indices, the longest first, then further ones.
// Such a section's keys and values stay in L2.
struct Order {
  unsigned tiles, batches, section;

  MUCC_DEVICE bool at(unsigned index, unsigned& tile, unsigned& batch) const {
    if (index >= tiles * batches) return false;
    unsigned const first = index / (section * tiles) * section, rest = index - first * tiles;
    unsigned const width = batches - first < section ? batches - first : section;
    tile = tiles - 1 - rest / width;
    batch = first + rest % width;
    return true;
  }
};

template <class Work>
MUCC_DEVICE Order order_of(Work const& work, Extents<Work::kRank> const& extents) {
  Order order{unsigned((extents.of[Work::kRank - 2] + Work::kTileRows - 1) / Work::kTileRows), 1, 1};
#pragma unroll
  for (int a = 0; a < Work::kBatch; ++a) order.batches *= unsigned(extents.of[a]);
  if (kTakesTiles<Work>) {
    int64_t const bytes = work.key.count * 2 * (Work::kWidth + Work::kResultWidth);
    int64_t const section = (int64_t(16) << 20) / bytes;
    order.section = section < 1 ? 1 : section > order.batches ? order.batches : unsigned(section);
  }
  return order;
}

// A tile as the loading thread describes it to those that multiply: its number, which gives the rows, and the leading indices.
// `tile` is kNoTile behind the last one.
struct TakenTile {
  unsigned tile;
  int leading[3];
  // Where columns have labels: those that the tile sees, and those of the warpgroup. They are read once, ahead.
  Columns any;
  Span own;
};
constexpr unsigned kNoTile = ~0u;

// Whether the loading thread does so. Otherwise each warp finds its tiles, which keeps more in registers of the warp: with 160
// registers each, three warpgroups have no others left.
template <class Op>
inline constexpr bool kDescribesTiles = kTakesTiles<Op> || Op::kGroups < 3;

// Barriers and tiles in shared memory, by address.
template <class Work>
struct Places {
  static constexpr int kStages = Work::kStages;
  static constexpr int kChunks = chunks_of<Work>(Work::kWidth);
  // Transposed values have chunks of 128 bytes of keys, and a row for each element of a result.
  static constexpr int kResultRows = kTransposes<Work> ? rounded(Work::kResultWidth, 16) : Work::kTileColumns;
  static constexpr int kQueryChunk = 64 * 128, kStepChunk = Work::kTileColumns * 128, kValueChunk = kResultRows * 128;
  static constexpr int kQueryBytes = Work::kGroups * kChunks * kQueryChunk;
  static constexpr int kKeyBytes = kChunks * kStepChunk, kValueBytes = value_bytes<Work>();
  static constexpr int kValueChunks = kValueBytes / kValueChunk;

  uint32_t base;

  MUCC_DEVICE Places() : base((shared_address(dynamic_shared()) + 1023) / 1024 * 1024) {}
  MUCC_DEVICE uint32_t barrier(int i) const { return base + 8 * i; }
  // Each warpgroup has queries of its own, so that one begins with the next tile while another ends with the last.
  MUCC_DEVICE uint32_t query_full(int group) const { return barrier(group); }
  MUCC_DEVICE uint32_t query_empty(int group) const { return barrier(Work::kGroups + group); }
  MUCC_DEVICE uint32_t step(int i) const { return barrier(2 * Work::kGroups + i); }
  MUCC_DEVICE uint32_t keys_full(int s) const { return step(s); }
  MUCC_DEVICE uint32_t keys_empty(int s) const { return step(kStages + s); }
  MUCC_DEVICE uint32_t values_full(int s) const { return step(2 * kStages + s); }
  MUCC_DEVICE uint32_t values_empty(int s) const { return step(3 * kStages + s); }
  // The tile whose queries are there.
  MUCC_DEVICE TakenTile* taken(int group) const {
    char* const at = dynamic_shared() + (base - shared_address(dynamic_shared())) + kBarrierBytes / 2;
    return reinterpret_cast<TakenTile*>(at) + group;
  }
  MUCC_DEVICE uint32_t query(int group) const { return base + kBarrierBytes + group * kChunks * kQueryChunk; }
  MUCC_DEVICE uint32_t keys(int s) const { return base + kBarrierBytes + kQueryBytes + s * kKeyBytes; }
  MUCC_DEVICE uint32_t values(int s) const {
    return base + kBarrierBytes + kQueryBytes + kStages * kKeyBytes + s * kValueBytes;
  }
};

// The tile of a block that follows the tile `index`. Where tiles take different times it is the first one that no block has
// taken; blocks begin with the tile of their own number. Nothing is ordered by these tickets, so the thread goes on until
// it uses the answer.
template <class Work>
MUCC_DEVICE unsigned next_tile(Tickets const& tickets, Order const& order, unsigned index) {
  if constexpr (kTakesTiles<Work>)
    return gridDim.x + claim_ticket<Work>(tickets, 0, order.tiles * order.batches - 1);
  else
    return index + gridDim.x;
}

template <class Work>
MUCC_DEVICE void load_tiles(Work const& work, Extents<Work::kRank> const& extents, Maps const& maps,
                            Tickets const& tickets, Places<Work> const& at) {
  using At = Places<Work>;
  Order const order = order_of(work, extents);
  constexpr int kRank = Work::kBatch + 2;
  Ring<Work::kStages> ring;
  unsigned tile, batch, next = blockIdx.x;
  for (int count = 0;; ++count) {
    unsigned const index = next;
    if (!order.at(index, tile, batch)) {
      for (int g = 0; kDescribesTiles<Work> && g < Work::kGroups; ++g) {
        await(at.query_empty(g), count & 1 ^ 1);
        at.taken(g)->tile = kNoTile;
        arrive(at.query_full(g));
      }
      break;
    }
    auto const position = leading_position<Work>(extents, batch);
    int const first_row = int(tile) * Work::kTileRows;
    Columns const any = span_of(work, position, first_row, Work::kTileRows).any;
    Steps const steps = steps_of<Work::kTileColumns>(any);
    // The rows where a step's keys and values lie: one for each copy.
    constexpr int kBox = step_rows<Work>(), kBoxes = Work::kTileColumns / kBox;
    int rows[kBoxes];
    auto copy_keys = [&](int column) {
#pragma unroll
      for (int b = 0; b < kBoxes; ++b) rows[b] = int(row_of_column(work, position, column + b * kBox));
      // The next tile's number comes while the last keys wait for their place. If it were asked for earlier, blocks that
      // end late would have tiles that others could begin.
      if (column == steps.first) next = next_tile<Work>(tickets, order, index);
      int const s = ring.place;
      int key[3] = {};
      leading_of(key, work.key, position);
      await(at.keys_empty(s), ring.parity ^ 1);
      arrive_and_expect(at.keys_full(s), At::kKeyBytes);
      for (int i = 0; i < At::kChunks; ++i)
#pragma unroll
        for (int b = 0; b < kBoxes; ++b)
          copy_tile<kRank>(at.keys(s) + i * At::kStepChunk + b * kBox * 128, maps.key, at.keys_full(s),
                           i * kMapChunk<typename Work::Element>, rows[b], key);
    };
    auto copy_values = [&] {
      int const s = ring.place;
      int value[3] = {};
      leading_of(value, work.value, position);
      await(at.values_empty(s), ring.parity ^ 1);
      arrive_and_expect(at.values_full(s), At::kValueBytes);
      if constexpr (kTransposes<Work>) {
        constexpr int kEach = kIsNarrow<Work> ? 2 : 1;  // elements of a row that one of the map has
        for (int i = 0; i < At::kValueChunks; ++i)
          copy_tile<kRank>(at.values(s) + i * At::kValueChunk, maps.value, at.values_full(s),
                           rows[0] / kEach + i * kMapChunk<typename Work::Element>, 0, value);
        return;
      }
      for (int i = 0; i < At::kValueChunks; ++i)
#pragma unroll
        for (int b = 0; b < kBoxes; ++b)
          copy_tile<kRank>(at.values(s) + i * At::kStepChunk + b * kBox * 128, maps.value, at.values_full(s), i * kChunk,
                           rows[b], value);
    };
    // There is a place for keys before there is one for queries.
    copy_keys(steps.last);
    int query[3] = {};
    leading_of(query, work.query, position);
#pragma unroll 1
    for (int g = 0; g < Work::kGroups; ++g) {
      await(at.query_empty(g), count & 1 ^ 1);
      if constexpr (kDescribesTiles<Work>) {
        TakenTile taken{tile, {}, any, {}};
        if constexpr (Work::kHasLabels) taken.own = span_of(work, position, first_row + 64 * g, 64);
#pragma unroll
        for (int a = 0; a < Work::kBatch; ++a) taken.leading[a] = position.at[a];
        *at.taken(g) = taken;
      }
      arrive_and_expect(at.query_full(g), At::kQueryBytes / Work::kGroups);
      for (int i = 0; i < At::kChunks; ++i)
        copy_tile<kRank>(at.query(g) + i * At::kQueryChunk, maps.query, at.query_full(g),
                         i * kMapChunk<typename Work::Element>, first_row + 64 * g, query);
    }
    copy_values();
    ring.advance();
#pragma unroll 1
    for (int column = steps.last - Work::kTileColumns; column >= steps.first; column -= Work::kTileColumns) {
      copy_keys(column);
      copy_values();
      ring.advance();
    }
  }
}

template <class Work>
MUCC_DEVICE void multiply_tiles(Work const& work, Extents<Work::kRank> const& extents, Places<Work> const& at, int group) {
  using At = Places<Work>;
  Order const order = order_of(work, extents);
  using T = typename Work::Element;
  // A product takes 32 bytes of a row.
  constexpr int kDepth = 32 / int(sizeof(T));
  constexpr int kColumns = Work::kTileColumns, kSteps = rounded(Work::kWidth, kDepth) / kDepth;
  constexpr int kResults = rounded(Work::kResultWidth, 16) / 8;
  constexpr bool kSkips = kTakesTiles<Work>;  // the rows of a warpgroup may see fewer columns than those of the tile
  int const thread = threadIdx.x % 128, lane = threadIdx.x % 32;
  auto release = [&](uint32_t barrier) {
    if (lane == 0) arrive(barrier);
  };
  // Tensor cores add products of 8 bits up with fewer bits than f32 has: each step has a sum of its own.
  constexpr bool kApart = kIsNarrow<Work> && Work::kResultWidth <= 128;
  float c[kColumns / 2], sum[4 * kResults], part[kApart ? 4 * kResults : 1];
  uint32_t weights[kColumns / kDepth][4];

  auto multiply_keys = [&](int s) {
    uint64_t const a = described(at.query(group), 16), b = described(at.keys(s), 16);
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      Work::multiply_keys(c, a + (i / 4 * At::kQueryChunk + i % 4 * 32) / 16, b + (i / 4 * At::kStepChunk + i % 4 * 32) / 16,
                          i > 0);
    end_products();
  };
  auto multiply_values = [&](int s, int keeps) {
    if constexpr (kTransposes<Work>) {
      uint64_t const b = described(at.values(s), 16);
#pragma unroll
      for (int i = 0; i < kColumns / kDepth; ++i)
        if constexpr (kApart)
          Work::multiply_values(part, weights[i], b + (i / 4 * At::kValueChunk + i % 4 * 32) / 16, i > 0);
        else
          Work::multiply_values(sum, weights[i], b + (i / 4 * At::kValueChunk + i % 4 * 32) / 16, i > 0 || keeps);
    } else {
      uint64_t const b = described(at.values(s), At::kStepChunk);
#pragma unroll
      for (int i = 0; i < kColumns / 16; ++i) Work::multiply_values(sum, weights[i], b + i * (16 * 128 / 16), i > 0 || keeps);
    }
    end_products();
  };
  auto pack = [&] {
#pragma unroll
    for (int s = 0; s < kColumns / kDepth; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kIsNarrow<Work>) {
          float const* const x = c + 16 * s + i / 2 * 8 + i % 2 * 2;
          weights[s][i] = packed(T{}, x[0], x[1], x[4], x[5]);
        } else if constexpr (sizeof(T) == 4) {
          weights[s][i] = to_tf32(c[4 * s + i % 2 * 2 + i / 2]);
        } else {
          weights[s][i] = packed(T{}, c[8 * s + 2 * i], c[8 * s + 2 * i + 1]);
        }
      }
  };

  if (kTurns<Work> && group == Work::kGroups - 1) give_turn(0);
  Ring<Work::kStages> ring;
  for (int count = 0;; ++count) {
    unsigned tile, batch;
    Position<Work::kRank, int> position{};
    Columns any{};
    Span span{};
    if constexpr (kDescribesTiles<Work>) {
      await(at.query_full(group), count & 1);
      TakenTile const taken = *at.taken(group);
      // All lanes have read it when the first one says that the place is free, which speaks for that one alone.
      __syncwarp();
      if (taken.tile == kNoTile) break;
      tile = taken.tile, any = taken.any, span = taken.own;
#pragma unroll
      for (int a = 0; a < Work::kBatch; ++a) position.at[a] = taken.leading[a];
    } else {
      if (!order.at(blockIdx.x + unsigned(count) * gridDim.x, tile, batch)) break;
      position = leading_position<Work>(extents, batch);
      await(at.query_full(group), count & 1);
    }
    int const first_row = int(tile) * Work::kTileRows, own_row = first_row + 64 * group;
    int const row = own_row + thread / 32 * 16 + lane / 4;
    if constexpr (!Work::kHasLabels) {
      any = span_of(work, position, first_row, Work::kTileRows).any;
      span = span_of(work, position, own_row, 64);
    }
    Steps const steps = steps_of<kColumns>(any);
    Steps mine = steps;
    if constexpr (kSkips) {
      mine = steps_of<kColumns>(span.any);
      // Where it has no rows, one step will do.
      if (own_row >= work.query.count || mine.first < steps.first) mine.first = steps.first;
      if (own_row >= work.query.count || mine.last < mine.first) mine.last = mine.first;
      if (mine.last > steps.last) mine.last = steps.last;
      if (mine.first > mine.last) mine.first = mine.last;
    }
    int column = steps.last;
    Rows<Work> state;
    float rescale[2], before[2] = {0.0f, 0.0f};
    // `before` scales the sum to the largest score that the weights of the last step are relative to.
    auto add_part = [&] {
#pragma unroll
      for (int i = 0; i < 4 * kResults; ++i) sum[i] = fmaf(sum[i], before[i / 2 % 2], part[i]);
    };
    if constexpr (kApart) {
#pragma unroll
      for (int i = 0; i < 4 * kResults; ++i) sum[i] = 0.0f;
    }
    auto weigh = [&] {
      Corner const corner{row, column + lane % 4 * 2};
      bool const whole = span.all.first <= column && column + kColumns <= span.all.end;
      if (whole)
        make_scores<false, kColumns / 8>(work, position, corner, c);
      else
        make_scores<true, kColumns / 8>(work, position, corner, c);
      make_weights<Work>(state, c, rescale);
    };

    auto skip = [&] {
      if (kTurns<Work> && column < steps.last) await_turn(group), give_turn((group + 1) % Work::kGroups);
      await(at.keys_full(ring.place), ring.parity);
      release(at.keys_empty(ring.place));
      await(at.values_full(ring.place), ring.parity);
      release(at.values_empty(ring.place));
      ring.advance();
    };

    if constexpr (kSkips) {
      for (; column > mine.last; column -= kColumns) skip();
    }
    bool const takes_turn = kSkips && kTurns<Work> && column < steps.last;
    await(at.keys_full(ring.place), ring.parity);
    if (takes_turn) await_turn(group);
    begin_products();
    multiply_keys(ring.place);
    if (takes_turn) give_turn((group + 1) % Work::kGroups);
    wait_products<0>();
    hold(c);
    release(at.keys_empty(ring.place));
    if (column == mine.first) release(at.query_empty(group));
    weigh();
    pack();
    int keeps = 0;
    while (column > mine.first) {
      Ring<Work::kStages> next = ring;
      next.advance();
      column -= kColumns;
      await(at.keys_full(next.place), next.parity);
      if (kTurns<Work>) await_turn(group);
      begin_products();
      multiply_keys(next.place);
      await(at.values_full(ring.place), ring.parity);
      begin_products();
      multiply_values(ring.place, keeps);
      if (kTurns<Work>) give_turn((group + 1) % Work::kGroups);
      wait_products<1>();
      hold(c);
      release(at.keys_empty(next.place));
      if (column == mine.first) release(at.query_empty(group));
      weigh();
      wait_products<0>();
      if constexpr (kApart) hold(part);
      else hold(sum);
      release(at.values_empty(ring.place));
      if constexpr (kApart) {
        add_part();
        before[0] = rescale[0], before[1] = rescale[1];
      } else {
#pragma unroll
        for (int i = 0; i < 4 * kResults; ++i) sum[i] *= rescale[i / 2 % 2];
      }
      pack();
      keeps = 1;
      ring = next;
    }
    await(at.values_full(ring.place), ring.parity);
    begin_products();
    multiply_values(ring.place, keeps);
    wait_products<0>();
    if constexpr (kApart) hold(part);
    else hold(sum);
    release(at.values_empty(ring.place));
    if constexpr (kApart) add_part();
    ring.advance();
    if constexpr (kSkips) {
      for (column -= kColumns; column >= steps.first; column -= kColumns) skip();
    }
    store_rows<kResults>(work, position, row, int(work.query.count), state, sum);
  }
}

template <class Work>
MUCC_DEVICE void run_tiles(Work const& work, Extents<Work::kRank> const& extents, Maps const& maps,
                           Tickets const& tickets) {
  Places<Work> const at;
  if (threadIdx.x == 0) {
    prefetch(maps.key), prefetch(maps.query), prefetch(maps.value);
    constexpr int kWarps = 4 * Work::kGroups;
    for (int g = 0; g < Work::kGroups; ++g) {
      start_barrier(at.query_full(g), 1);
      start_barrier(at.query_empty(g), 4);
    }
    for (int s = 0; s < Work::kStages; ++s) {
      start_barrier(at.keys_full(s), 1);
      start_barrier(at.keys_empty(s), kWarps);
      start_barrier(at.values_full(s), 1);
      start_barrier(at.values_empty(s), kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  int const group = int(threadIdx.x / 128) - 1;
  // All have 504 or 512 together, which is what the block is started with. To take tiles takes more than to count them.
  constexpr int kLoading = Work::kGroups > 2 ? 32 : Work::kHasLabels ? 56 : kTakesTiles<Work> ? 40 : 24;
  constexpr int kMultiplying = Work::kGroups > 2 ? 160 : Work::kHasLabels ? 224 : kTakesTiles<Work> ? 232 : 240;
  if (group < 0) {
    if constexpr (Work::kGroups > 1) leave_registers<kLoading>();
    if (threadIdx.x == 0) load_tiles(work, extents, maps, tickets, at);
  } else {
    if constexpr (Work::kGroups > 1) take_registers<kMultiplying>();
    multiply_tiles(work, extents, at, group);
  }
}

}  // namespace mucc::attention
