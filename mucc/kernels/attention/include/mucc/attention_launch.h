// The host side of attention: which of a stage's kernels runs.
#pragma once

#include <mucc/attention.h>
#include <mucc/pointwise.h>
#include <mucc/tickets_launch.h>

namespace mucc::attention {

// Whether rows can be read in pieces of 16 bytes. The stride of an axis of one element does not count.
template <class T, int kBatch>
bool in_pieces(Operand<T, kBatch> const& operand, int width) {
  using Element = std::remove_const_t<T>;
  bool fits = reinterpret_cast<uintptr_t>(operand.data) % 16 == 0 && width % kPiece<Element> == 0 &&
              (operand.step == 1 || width == 1) && (operand.count <= 1 || operand.row % kPiece<Element> == 0);
  if constexpr (kBatch > 0)
    for (Leading const& axis : operand.leading) fits = fits && (axis.extent <= 1 || axis.stride % kPiece<Element> == 0);
  return fits;
}

// Whether TMA takes the strides of an operand that can be read in pieces: tensor maps have none of 0.
template <class T, int kBatch>
bool in_tiles(Operand<T, kBatch> const& operand) {
  bool fits = operand.count <= 1 || operand.row > 0;
  if constexpr (kBatch > 0)
    for (Leading const& axis : operand.leading) fits = fits && (axis.extent <= 1 || axis.stride > 0);
  return fits;
}

// The map of an operand: elements, rows, leading axes; boxes of `rows` times 128 bytes. It has pairs of e4m3 as one element.
template <class T, int kBatch>
int make_map(Call const& c, TensorMap& map, Operand<T, kBatch> const& operand, int width, int rows) {
  int64_t extents[kBatch + 2] = {width, operand.count}, strides[kBatch + 2] = {1, operand.row};
  if constexpr (kBatch > 0)
    for (int a = 0; a < kBatch; ++a) {
      extents[2 + a] = operand.leading[a].extent;
      strides[2 + a] = operand.leading[a].stride;
    }
  constexpr bool kPairs = sizeof(T) == 1;
  if constexpr (kPairs) {
    extents[0] = (width + 1) / 2;
    for (int a = 1; a < kBatch + 2; ++a) strides[a] /= 2;
  }
  // Where an axis has one element any stride will do that TMA takes.
  for (int a = 1; a < kBatch + 2; ++a)
    if (extents[a] == 1) strides[a] = rounded(width, 8);
  constexpr Mapped kElement = kPairs ? Mapped::kF16 : mapped<std::remove_const_t<T>>;
  return map_tiles(c, &map, operand.data, kElement, kBatch + 2, extents, strides, kMapChunk<T>, rows);
}

// How a few queries and many keys are divided.
struct DecodePlan {
  Split split;
  int64_t units = 0, words = 0;  // blocks without their parts; floats of all parts
  int64_t tickets() const { return split.tickets.parts > 1 ? units : 0; }
  int64_t bytes() const { return aligned(4 * tickets()) + aligned(4 * words); }
};

// In how many parts the schedule divides the keys of few queries; 0 where the number of processors decides.
template <class Op, class = void>
inline constexpr int kFixedParts = 0;
template <class Op>
inline constexpr int kFixedParts<Op, decltype(void(Op::kParts))> = Op::kParts;

// Divides them; no units where the kernels for many queries take them. `extents` are those of the results.
template <class Op>
DecodePlan plan_decode(Call const& c, Extents<Op::kRank> const& extents, int64_t keys) {
  DecodePlan plan;
  plan.split = {0, 0, {-1, 1, nullptr}, nullptr};
  if constexpr (Op::kDecodes) {
    int64_t const queries = extents.of[Op::kRank - 2], processors = at_least(1, c.sm_count);
    int64_t rows = queries, others = 1;
    for (int a = 0; a < Op::kBatch; ++a) (is_shared<Op>(a) ? rows : others) *= extents.of[a];
    // Reproducible sums divide keys by their number alone, and one kind of kernel serves any number of queries.
    constexpr bool kAlike = is_reproducible<Op>;
    bool const many = kAlike ? Op::kMany : queries > 64 || (queries > 16 && (keys < 1024 || 2 * rows / queries * others > processors));
    int64_t const tiles = blocks_of(rows, kDecodeRows);
    if (many || rows == 0 || rows > INT32_MAX / 2 || keys > INT32_MAX / 2) return plan;
    plan.split.rows = int(rows), plan.split.tiles = int(tiles);
    plan.units = others * tiles;
    // The time of the busiest processor, in keys that it reads: those of its blocks, what starting a block takes, and that
    // the last block combines the parts.
    constexpr int kStart = 64, kCombine = 8, kMost = 64, kLeast = 128;
    int64_t least = INT64_MAX;
    constexpr int kFixed = kFixedParts<Op>;
    static_assert(kFixed <= kMost);
    if (kFixed > 0) plan.split.tickets.parts = kFixed;
    for (int64_t parts = 1; kFixed == 0 && parts <= kMost && (parts == 1 || parts * kLeast <= keys); ++parts) {
      int64_t const cost = (kAlike ? 1 : blocks_of(plan.units * parts, processors)) * (blocks_of(keys, parts) + kStart) +
                           (parts > 1 ? kCombine * parts + kStart : 0);
      if (cost < least) least = cost, plan.split.tickets.parts = int(parts);
    }
    int64_t const parts = plan.split.tickets.parts;
    if (parts > 1) plan.words = plan.units * parts * (2 * kDecodeRows + decode_items<Op>() * (rows <= 8 ? 2 : 4));
  }
  return plan;
}

// Which matrices of spans of so many rows there are, where columns have labels; their place is not known yet.
template <class Op>
Spans<Op::kBatch> spans_of(Extents<Op::kRank> const& extents, int64_t rows, int64_t& matrices) {
  Spans<Op::kBatch> spans{nullptr, blocks_of(rows, kSpanRows), {}};
  matrices = 1;
  if constexpr (Op::kHasLabels && Op::kBatch > 0)
    for (int a = Op::kBatch - 1; a >= 0; --a)
      if (Op::kLabelAxes >> a & 1) {
        spans.strides[a] = matrices * spans.count;
        matrices *= extents.of[a];
      }
  return spans;
}

// Bytes of all spans of so many rows; 0 where columns have no labels.
template <class Op>
int64_t span_bytes(Extents<Op::kRank> const& extents, int64_t rows) {
  int64_t matrices;
  int64_t const count = spans_of<Op>(extents, rows, matrices).count;
  return Op::kHasLabels ? aligned(int64_t(sizeof(Span)) * matrices * count) : 0;
}

// Transposed values: the keys of an element, with those of padding, and the bytes of all matrices.
struct Turned {
  int64_t pitch, matrices, bytes;
};
template <class Op>
Turned turned_of(Extents<Op::kRank> const& extents, int64_t keys) {
  Turned turned{blocks_of(keys, kTurnedKeys) * kTurnedKeys, 1, 0};
  if constexpr (kTransposes<Op> && Op::kWarpgroups) {
    for (int a = 0; a < Op::kBatch; ++a)
      if (!(Op::kSharedValues >> a & 1)) turned.matrices *= extents.of[a];
    turned.bytes = aligned(turned.matrices * turned.pitch * Op::kResultWidth * int64_t(sizeof(typename Op::Element)));
  }
  return turned;
}

// Scratch memory of a stage, for so many keys.
template <class Op>
int64_t scratch(Call const& c, Extents<Op::kRank> const& extents, int64_t keys) {
  int64_t many = Op::kMany && Op::kWarpgroups && kTakesTiles<Op> ? aligned(4) : 0;
  many += turned_of<Op>(extents, keys).bytes;
  if constexpr (Op::kMany) many += span_bytes<Op>(extents, extents.of[Op::kRank - 2]);
  return at_least(plan_decode<Op>(c, extents, keys).bytes(), many);
}

// Finds which columns have the labels of so many rows, or which rows those of columns, before other kernels.
template <class Op>
int find_spans(Call const& c, char const* stage, Code& code, Op& op, Extents<Op::kRank>& extents, int64_t rows, void* to) {
  int64_t matrices;
  op.spans = spans_of<Op>(extents, rows, matrices);
  op.spans.data = static_cast<Span*>(to);
  int64_t const blocks = op.spans.count * matrices;
  if (blocks == 0) return 0;
  if (blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  Geometry geometry{{unsigned(blocks), 1, 1}, kSpanThreads};
  geometry.shared = kSpanThreads;
  void* parameters[] = {&op, &extents};
  return start(c, stage, code, geometry, parameters);
}

// Launches the kernel that transposes the values, and maps its result for the kernels behind it.
template <class Op>
int turn_values(Call const& c, char const* stage, Code& code, Op& op, Extents<Op::kRank> const& extents, int64_t keys, void* to,
                TensorMap& map) {
  Turned const turned = turned_of<Op>(extents, keys);
  auto values = op.value;
  values.data = static_cast<std::remove_const_t<decltype(values.data)>>(to);
  values.row = turned.pitch, values.step = 1, values.count = Op::kResultWidth;
  int64_t matrices = 1;
  if constexpr (Op::kBatch > 0)
    for (int a = Op::kBatch - 1; a >= 0; --a) {
      values.leading[a].stride = matrices * Op::kResultWidth * turned.pitch;
      matrices *= values.leading[a].extent;
    }
  int64_t pitch = turned.pitch;
  int64_t const blocks = matrices * (pitch / kTurnedKeys);
  if (blocks > INT32_MAX) return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  Geometry geometry{{unsigned(blocks), 1, 1}, kTurnThreads};
  using T = typename Op::Element;
  geometry.shared = unsigned(sizeof(T)) * kTurnPitch<T> * Op::kResultWidth;
  void* parameters[] = {&op, &to, &pitch};
  if (start(c, stage, code, geometry, parameters)) return 1;
  return make_map(c, map, values, int(pitch), rounded(Op::kResultWidth, 16));
}

// From how many keys on kernels on wgmma are worth the kernel that transposes values before them; 0 where the schedule names
// its mainloop, or nothing is transposed. With fewer keys, or fewer tiles than processors, those on mma.sync are faster.
template <class Op, class = void>
inline constexpr int kLeastKeys = 0;
template <class Op>
inline constexpr int kLeastKeys<Op, decltype(void(Op::kLeastKeys))> = Op::kLeastKeys;
template <class Op>
bool repays_turning(Call const& c, int64_t tiles, int64_t keys) {
  return kLeastKeys<Op> == 0 || (keys >= kLeastKeys<Op> && tiles >= c.sm_count);
}

// Runs `op`; its kernels are in the order of `Form`, and those for few queries, by elements and by pieces, come behind.
// `extents` are those of the results.
template <class Op>
int launch(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool packs, int64_t keys,
           void* scratch) {
  int64_t const rows = extents.of[Op::kRank - 2];
  int64_t batches = 1;
  for (int a = 0; a < Op::kBatch; ++a) batches *= extents.of[a];
  if (rows == 0 || batches == 0) return 0;
  op.packs = packs && Op::kResultWidth % Op::kVector == 0;
  bool const pieces = in_pieces(op.query, Op::kWidth) && in_pieces(op.key, Op::kWidth) && in_pieces(op.value, Op::kResultWidth);
  if (rows > INT32_MAX / 2 || op.key.count > INT32_MAX / 2 || keys > INT32_MAX / 2)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  if constexpr (Op::kDecodes) {
    DecodePlan plan = plan_decode<Op>(c, extents, keys);
    if (plan.units > 0) {
      int64_t const blocks = plan.units * plan.split.tickets.parts;
      if (blocks > INT32_MAX)
        return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
      int64_t const tickets = plan.tickets();
      if (tickets && hand_out<Op>(c, plan.split.tickets, tickets, scratch)) return 1;
      plan.split.partials = reinterpret_cast<float*>(static_cast<char*>(scratch) + aligned(4 * tickets));
      Code* const forms = codes + (Op::kMany ? (Op::kWarpgroups ? kTiles : kPieces) + 1 : 0);
      Geometry geometry{{unsigned(blocks), 1, 1}, unsigned(32 * Op::kDecodeWarps)};
      if constexpr (Op::kWarpgroups) {
        if (pieces && in_tiles(op.key) && in_tiles(op.value) && op.key.count > 0) {
          Maps maps;
          constexpr int kKeys = box_rows<Op>();
          if (make_map(c, maps.key, op.key, Op::kWidth, kKeys) || make_map(c, maps.value, op.value, Op::kResultWidth, kKeys))
            return 1;
          geometry.shared = unsigned(decode_bytes<Op, true>());
          void* parameters[] = {&op, &extents, &plan.split, &maps};
          return start(c, stage, forms[kTiles], geometry, parameters);
        }
      }
      geometry.shared = unsigned(decode_bytes<Op>());
      void* parameters[] = {&op, &extents, &plan.split};
      return start(c, stage, forms[pieces], geometry, parameters);
    }
  }
  if constexpr (Op::kMany) {
    if constexpr (Op::kHasLabels) {
      constexpr int kForms = (Op::kWarpgroups ? kTiles : kPieces) + 1;
      Code& code = codes[kForms * (Op::kDecodes ? 2 : 1)];
      char* const to = static_cast<char*>(scratch) + (Op::kWarpgroups ? aligned(4) : 0);
      if (find_spans(c, stage, code, op, extents, rows, to)) return 1;
    }
    if constexpr (Op::kWarpgroups) {
      int64_t const tiles = blocks_of(rows, Op::kTileRows) * batches;
      // Values are read element by element when they are transposed.
      bool const rows_fit = pieces || (kTransposes<Op> && in_pieces(op.query, Op::kWidth) && in_pieces(op.key, Op::kWidth));
      bool const maps_fit = rows_fit && in_tiles(op.query) && in_tiles(op.key) && (kTransposes<Op> || in_tiles(op.value));
      if (maps_fit && op.key.count > 0 && (!pieces || repays_turning<Op>(c, tiles, keys))) {
        Maps maps;
        if (make_map(c, maps.query, op.query, Op::kWidth, 64) || make_map(c, maps.key, op.key, Op::kWidth, step_rows<Op>()))
          return 1;
        if constexpr (kTransposes<Op>) {
          Code& code = codes[(kTiles + 1) * (Op::kDecodes ? 2 : 1) + Op::kHasLabels];
          char* const to = static_cast<char*>(scratch) + (kTakesTiles<Op> ? aligned(4) : 0) + span_bytes<Op>(extents, rows);
          if (turn_values(c, stage, code, op, extents, keys, to, maps.value)) return 1;
        } else if (make_map(c, maps.value, op.value, Op::kResultWidth, step_rows<Op>())) {
          return 1;
        }
        Geometry geometry{{unsigned(at_most(tiles, c.sm_count)), 1, 1}, unsigned(128 * (Op::kGroups + 1))};
        geometry.shared = unsigned(tile_bytes<Op>());
        Tickets tickets{-1, 1, nullptr};
        if (tiles > INT32_MAX)
          return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
        if (kTakesTiles<Op> && hand_out<Op>(c, tickets, 1, scratch)) return 1;
        void* parameters[] = {&op, &extents, &maps, &tickets};
        return start(c, stage, codes[kTiles], geometry, parameters);
      }
    }
    int64_t const blocks = blocks_of(rows, Op::kRows) * batches;
    if (blocks > INT32_MAX)
      return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
    Geometry geometry{{unsigned(blocks), 1, 1}, unsigned(Op::kThreads)};
    geometry.shared = unsigned(shared_bytes<Op>());
    void* parameters[] = {&op, &extents};
    return start(c, stage, codes[pieces && !kIsNarrow<Op> ? kPieces : kElements], geometry, parameters);
  } else {
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  }
}

}  // namespace mucc::attention
