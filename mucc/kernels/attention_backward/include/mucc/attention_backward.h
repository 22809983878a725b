// What host and device know of kernels for gradients of attention.
#pragma once

#include <mucc/attention.h>

namespace mucc::attention_backward {

using attention::kChunk;
using attention::Operand;
using attention::rounded;

// Numbers of rows: `count` of them, `row` elements apart.
template <int kBatch>
using Numbers = Operand<float const, kBatch>;

// The keys of a block, and of each of its two warpgroups.
constexpr int kKeys = 128, kGroups = 2, kGroupKeys = kKeys / kGroups;

// The kernels of a stage: one that multiplies, one that stores the gradients of queries, and where columns have labels one
// before them that finds the rows with those.
enum Form { kMultiply, kFinish, kSpans };

struct Maps {
  TensorMap query, gradient, key, value;
};

// A step as the loading warp describes it to the warpgroups: its first query, kNoStep behind the last step; the number of its
// tile among all; the leading indices; and a bit for each warpgroup: whether all queries see all keys of the warpgroup.
struct Step {
  int row, tile, leading[3];
  unsigned whole;
};
constexpr int kNoStep = -1;

// The gradient of a tile of queries as it is added up: of each warpgroup 64 rows and kPartColumns columns, those of a thread
// together. Each warpgroup has half of the columns, or of 128 rows.
template <class Op>
inline constexpr int kPartColumns = Op::kTileRows == 128 ? 64 : rounded(Op::kWidth, kChunk) / kGroups;
template <class Op>
inline constexpr int kPartFloats = 64 * kPartColumns<Op>;
template <class Op>
inline constexpr int kTileFloats = kGroups * kPartFloats<Op>;

// Bytes of shared memory: barriers, keys and values, steps of queries and of gradients, two of the gradients of scores, what
// is added to the gradients of queries, and of each step two numbers of each row and a `Step`.
constexpr int kBarrierBytes = 1024;
template <class Op>
MUCC_BOTH constexpr int shared_bytes() {
  constexpr int kChunks = rounded(Op::kWidth, kChunk) / kChunk, kResultChunks = rounded(Op::kResultWidth, kChunk) / kChunk;
  constexpr int kRow = 128;
  return kBarrierBytes + kRow * kKeys * (kChunks + kResultChunks) +
         kRow * Op::kTileRows * (Op::kQueryStages * kChunks + Op::kGradientStages * kResultChunks) +
         2 * kRow * kKeys * (Op::kTileRows / kChunk) + 4 * kTileFloats<Op> +
         Op::kQueryStages * (8 * Op::kTileRows + int(sizeof(Step))) + 1024;
}

}  // namespace mucc::attention_backward
