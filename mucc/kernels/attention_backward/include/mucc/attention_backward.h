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

// The kernels of a stage: one that multiplies, those that store the gradients of queries and, where heads share keys, of keys
// and values, and where columns have labels one before them that finds the rows with those.
enum Form { kMultiply, kFinish, kFinishKeys };
template <class Op>
inline constexpr int kSpans = Op::kShared ? kFinishKeys + 1 : kFinishKeys;

// How the heads that share keys are divided among blocks. With several parts the gradients of keys and values are added up in
// memory: `sums` has of each tile of keys what each thread has, four numbers at a time.
struct Division {
  int parts;
  float* sums;
};
template <class Op>
inline constexpr int kSumFloats = 8 * (rounded(Op::kWidth, 16) + rounded(Op::kResultWidth, 16)) / 16;
template <class Op>
inline constexpr int64_t kKeyFloats = int64_t(kSumFloats<Op>) * 128 * kGroups;

struct Maps {
  TensorMap query, gradient, key, value;
};

// The gradient of a tile of queries as it is added up: of each warpgroup 64 rows and so many columns, those of a thread
// together. With 128 queries a step a warpgroup has half of the rows, else half of the columns.
template <class Op>
inline constexpr int kPartColumns = Op::kTileRows == 64 && Op::kWidth <= 64 ? 32 : 64;
template <class Op>
inline constexpr int kPartFloats = 64 * kPartColumns<Op>;
template <class Op>
inline constexpr int kTileFloats = kGroups * kPartFloats<Op>;

// Bytes of shared memory: barriers, keys and values, steps of queries and of gradients, two of the gradients of scores, what
// is added to the gradients of queries, and two numbers of each row of a step.
constexpr int kBarrierBytes = 1024;
template <class Op>
MUCC_BOTH constexpr int shared_bytes() {
  constexpr int kChunks = rounded(Op::kWidth, kChunk) / kChunk, kResultChunks = rounded(Op::kResultWidth, kChunk) / kChunk;
  constexpr int kRow = 128;
  return kBarrierBytes + kRow * kKeys * (kChunks + kResultChunks) +
         kRow * Op::kTileRows * (Op::kQueryStages * kChunks + Op::kGradientStages * kResultChunks) +
         2 * kRow * kKeys * (Op::kTileRows / kChunk) + 4 * kTileFloats<Op> + 8 * Op::kQueryStages * Op::kTileRows + 1024;
}

}  // namespace mucc::attention_backward
