// The host side of skinny contractions: which of a stage's kernels runs, on how many blocks.
#pragma once

#include <mucc/call.h>
#include <mucc/pointwise.h>
#include <mucc/problem.h>
#include <mucc/skinny.h>

namespace mucc::skinny {

// How the work is divided: blocks along the weights, `splits` for each tile, and the warps of a block.
struct Plan {
  int64_t tiles;
  int splits, warps;
};

// Tiles are given to blocks, and where they are too few to keep a GPU of `sm_count` multiprocessors busy, so are parts of
// K; but a warp keeps a few steps to make. `splits` of 0 leaves the number of parts open, up to `most`.
// A reproducible contraction divides K as if the small operand had one tile.
inline Plan plan(Extents const& e, int tile_few, int tile_many, int step, int splits, int most, int sm_count, bool alike = false) {
  int64_t const tiles = blocks_of(e.many, tile_many);
  int64_t const all = alike ? tiles : tiles * blocks_of(e.few, tile_few) * e.batch;
  int64_t const steps = blocks_of(e.k, step);
  if (splits == 0) {
    splits = 1;
    while (2 * splits <= most && all * splits <= sm_count && steps >= 4 * kWarps * splits) splits *= 2;
  }
  return {tiles, splits, int(at_most(blocks_of(steps, splits), kWarps))};
}

// Whether an operand can be read in pieces of `bytes` along the axis of which `unit` is the extent.
template <class T>
bool in_pieces(Operand const& m, int64_t other, int64_t unit, int bytes) {
  constexpr int kBits = bits_of<T>;
  return reinterpret_cast<uintptr_t>(m.data) % bytes == 0 && other * kBits / 8 % bytes == 0 &&
         m.batch * kBits / 8 % bytes == 0 && unit * kBits / 8 % bytes == 0;
}

template <class Op>
Access access(Op const& op, Extents const& e) {
  using T = typename Op::Element;
  using Unit = Atom<T, Op::kAlongK>;
  bool const weights = Op::kAlongK ? in_pieces<T>(op.weights, op.weights.row, e.k, 16)
                                   : in_pieces<T>(op.weights, op.weights.k, e.many, 16);
  using Few = typename Op::FewElement;
  constexpr int kFewBytes = Unit::kLaneK * int(sizeof(Few));
  bool const few = op.few.k == 1 && in_pieces<Few>(op.few, op.few.row, e.k, kFewBytes < 16 ? kFewBytes : 16);
  return !weights ? kElements : !few ? kPiecesOfWeights : kPieces;
}

// Runs `op`; its kernels are in the order of `Access`.
template <class Op>
int launch(Call const& c, char const* stage, Code* codes, Op op, Extents e) {
  constexpr int kAlongY = 65535;  // blocks; those of further tiles are taken by the same ones
  Plan const p = plan(e, Op::kFew, Op::kMany, Op::kStep, Op::kSplits, Op::kMostSplits, c.sm_count, is_reproducible<Op>);
  if (check_blocks(c, stage, p.tiles * p.splits)) return 1;
  Geometry geometry{{unsigned(p.tiles * p.splits), unsigned(at_most(blocks_of(e.few, Op::kFew), kAlongY)),
                     unsigned(at_most(e.batch, kAlongY))},
                    unsigned(32 * p.warps)};
  // Shared memory is reserved once, for as many warps as there can be.
  using Memory = Shared<Op, step_bytes<Op>()>;
  Code& code = codes[access(op, e)];
  geometry.shared = unsigned(Memory::bytes(kWarps));
  if (!load(code, c.device, geometry)) return 1;
  geometry.shared = unsigned(Memory::bytes(p.warps));
  if (p.splits > 1) geometry.cluster[0] = unsigned(p.splits), geometry.cluster[1] = geometry.cluster[2] = 1;
  int splits = p.splits;
  void* parameters[] = {&op, &e, &splits};
  return start(c, stage, code, geometry, parameters);
}

}  // namespace mucc::skinny
