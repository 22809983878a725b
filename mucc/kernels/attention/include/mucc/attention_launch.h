// The host side of attention: which of a stage's kernels runs.
#pragma once

#include <mucc/attention.h>
#include <mucc/pointwise.h>

namespace mucc::attention {

// Whether rows can be read in pieces of 16 bytes. The stride of an axis of one element does not count.
template <class T, int kBatch>
bool in_pieces(Operand<T, kBatch> const& operand, int width) {
  constexpr int kPiece = 16 / int(sizeof(T));
  bool fits = reinterpret_cast<uintptr_t>(operand.data) % 16 == 0 && width % kPiece == 0 &&
              (operand.step == 1 || width == 1) && (operand.count <= 1 || operand.row % kPiece == 0);
  if constexpr (kBatch > 0)
    for (Leading const& axis : operand.leading) fits = fits && (axis.extent <= 1 || axis.stride % kPiece == 0);
  return fits;
}

// Whether the copy engine takes the strides of an operand that can be read in pieces: tensor maps have none of 0.
template <class T, int kBatch>
bool in_tiles(Operand<T, kBatch> const& operand) {
  bool fits = operand.count <= 1 || operand.row > 0;
  if constexpr (kBatch > 0)
    for (Leading const& axis : operand.leading) fits = fits && (axis.extent <= 1 || axis.stride > 0);
  return fits;
}

// The map of an operand: elements, rows, leading axes; boxes of `rows` times 64 elements.
template <class T, int kBatch>
int make_map(Call const& c, TensorMap& map, Operand<T, kBatch> const& operand, int width, int rows) {
  int64_t extents[kBatch + 2] = {width, operand.count}, strides[kBatch + 2] = {1, operand.row};
  if constexpr (kBatch > 0)
    for (int a = 0; a < kBatch; ++a) {
      extents[2 + a] = operand.leading[a].extent;
      strides[2 + a] = operand.leading[a].stride;
    }
  // Where an axis has one element any stride will do that the copy engine takes.
  for (int a = 1; a < kBatch + 2; ++a)
    if (extents[a] == 1) strides[a] = rounded(width, 8);
  return map_tiles(c, &map, operand.data, mapped<T>, kBatch + 2, extents, strides, kChunk, rows);
}

// Runs `op`; its kernels are in the order of `Form`. `extents` are those of the results.
template <class Op>
int launch(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool pairs) {
  int64_t const rows = extents.of[Op::kRank - 2];
  int64_t batches = 1;
  for (int a = 0; a < Op::kBatch; ++a) batches *= extents.of[a];
  if (rows == 0 || batches == 0) return 0;
  op.pairs = pairs;
  bool const pieces = in_pieces(op.query, Op::kWidth) && in_pieces(op.key, Op::kWidth) && in_pieces(op.value, Op::kResultWidth);
  if (rows > INT32_MAX / 2 || op.key.count > INT32_MAX / 2)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  if constexpr (Op::kWarpgroups) {
    int64_t const tiles = blocks_of(rows, Op::kTileRows) * batches;
    bool const maps_fit = pieces && in_tiles(op.query) && in_tiles(op.key) && in_tiles(op.value);
    if (maps_fit && op.key.count > 0) {
      Maps maps;
      if (make_map(c, maps.query, op.query, Op::kWidth, 64) ||
          make_map(c, maps.key, op.key, Op::kWidth, Op::kTileColumns) ||
          make_map(c, maps.value, op.value, Op::kResultWidth, Op::kTileColumns))
        return 1;
      Geometry geometry{{unsigned(at_most(tiles, c.sm_count)), 1, 1}, unsigned(128 * (Op::kGroups + 1))};
      geometry.shared = unsigned(tile_bytes<Op>());
      void* parameters[] = {&op, &extents, &maps};
      return start(c, stage, codes[kTiles], geometry, parameters);
    }
  }
  int64_t const blocks = blocks_of(rows, Op::kRows) * batches;
  if (blocks > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  Geometry geometry{{unsigned(blocks), 1, 1}, unsigned(Op::kThreads)};
  geometry.shared = unsigned(shared_bytes<Op>());
  void* parameters[] = {&op, &extents};
  return start(c, stage, codes[pieces ? kPieces : kElements], geometry, parameters);
}

}  // namespace mucc::attention
