// Contractions with few rows or columns: what both the host and the device know of them.
//
// The large operand, the weights, is `many` rows of K elements; the small one is `few` rows of K. The result has an
// element for each pair of them. Which of the program's operands is which is up to the compiler.
#pragma once

#include <mucc/view.h>

namespace mucc::skinny {

// A matrix of `rows` by K in each batch; strides in elements.
struct Operand {
  void const* data;
  int64_t row, k, batch;
};

struct Extents {
  int few, many, k, batch;
};

// How operands are read: in pieces of 16 bytes (8 of the small one where the weights do not lie along K), or element by
// element, which any address and any extent allow. Kernels come in this order.
enum Access : int { kPieces, kPiecesOfWeights, kElements };

inline constexpr int kWarps = 8;      // of a block, at most
inline constexpr int kMaxSplits = 8;  // blocks that share the K of a tile: a cluster that every GPU with clusters has

// Bits of an element in memory.
template <class T>
inline constexpr int bits_of = 8 * int(sizeof(T));
template <>
inline constexpr int bits_of<s4> = 4;
template <>
inline constexpr int bits_of<u4> = 4;

// Scales, or zeros, of groups along K: one for each row of the weights and each group. None where T is void.
template <class T>
struct PerGroup {
  T const* data;
  int64_t row, group;  // strides
};
template <>
struct PerGroup<void> {};

// The shape of a tile: what one step of a warp covers. `Op` has the tile's extents: kFew, kMany, kStep.
template <class T, bool kAlongK>
struct Atom {
  static constexpr int kPiece = 128 / bits_of<T>;                                    // elements of 16 bytes
  static constexpr int kMany = kAlongK ? 16 : 8 * kPiece;                            // rows of weights
  static constexpr int kLaneK = kAlongK ? kPiece : kPiece / 2;                       // along K, of a lane
  static constexpr int kK = 4 * kLaneK;
};

// The shared memory of a block: the rings of its warps, of steps of `kStep` bytes, and in their place later the warps'
// shares of eight columns of the tile; then the tile.
template <class Op, int kStep>
struct Shared {
  static constexpr int kPitch = Op::kMany + 4;  // floats of a column: few lanes meet in a bank
  static constexpr int kPart = 8 * kPitch;
  static constexpr int kTotal = (Op::kFew + 7) / 8 * 8 * Op::kMany * int(sizeof(float));

  MUCC_BOTH static constexpr int reused(int warps) {
    return warps * (Op::kStages * kStep > kPart * int(sizeof(float)) ? Op::kStages * kStep : kPart * int(sizeof(float)));
  }
  MUCC_BOTH static constexpr int bytes(int warps) { return reused(warps) + kTotal; }
};

// The bytes of a step: both operands.
template <class Op>
MUCC_BOTH constexpr int step_bytes() {
  return (Op::kMany * bits_of<typename Op::Element> + (Op::kFew + 7) / 8 * 8 * bits_of<typename Op::FewElement>) *
         Op::kStep / 8;
}

}  // namespace mucc::skinny
