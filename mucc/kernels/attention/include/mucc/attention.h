// What host and device know of attention kernels.
#pragma once

#include <mucc/tensor_map.h>
#include <mucc/tickets.h>

namespace mucc::attention {

// A leading axis of an operand: its extent, 1 where the operand is the same along the axis, and its stride.
struct Leading {
  int64_t extent, stride;
};

// Queries, keys or values: `count` rows, `row` elements apart, whose elements are `step` apart.
template <class T, int kBatch>
struct Operand {
  T* data;
  int64_t row, step, count;
  Leading leading[kBatch];
};
template <class T>
struct Operand<T, 0> {
  T* data;
  int64_t row, step, count;
  struct {
  } leading;
};

// Where keys and values lie in pages: row j of a sequence is row j % Op::kPage of the page that its table has for
// j / Op::kPage. There are `count` pages, `apart` rows from one to the next.
template <int kBatch>
struct Pages {
  Operand<int32_t const, kBatch> table;
  int64_t count, apart;
};

// The kernels of a stage: operands are read element by element, in pieces of 16 bytes, or as tiles by TMA.
// Those for few queries come behind, or are all.
enum Form { kElements, kPieces, kTiles };

// Whether tiles take different times, so that blocks take one after the other as they end.
template <class Op>
inline constexpr bool kTakesTiles = Op::kCausal || Op::kHasFirst || Op::kHasLast || Op::kHasLabels;

// Columns from `first` to before `end`.
struct Columns {
  int first, end;
};

// The columns that some of several rows see, and those that all of them see.
struct Span {
  Columns any, all;
};

// Where rows see columns with their own label: of each `kSpanRows` rows, the columns between which they are; in kernels for
// gradients of each `kSpanRows` columns the rows. One matrix for all leading indices along which labels are the same.
constexpr int kSpanRows = 64, kSpanThreads = 128;
template <int kBatch>
struct Spans {
  Span* data;
  int64_t count, strides[kBatch + 1];
};

// How queries and keys are divided where there are few queries: `rows` of them share keys, in `tiles`.
struct Split {
  int rows, tiles;
  Tickets tickets;
  float* partials;
};

// Rows of a tile, and keys of a warp's step, where there are few queries.
constexpr int kDecodeRows = 16, kDecodeKeys = 16;

// Whether keys and values are the same along a leading axis.
template <class Op>
MUCC_BOTH constexpr bool is_shared(int axis) {
  return Op::kShared >> axis & 1;
}

struct Maps {
  TensorMap query, key, value;
};

MUCC_BOTH constexpr int rounded(int x, int to) { return (x + to - 1) / to * to; }

// Whether operands are e4m3. Kernels on mma.sync multiply them as f16, in which they lie in shared memory.
template <class Op>
inline constexpr bool kIsNarrow = sizeof(typename Op::Element) == 1;
template <class T>
struct InShared {
  using Type = T;
};
template <>
struct InShared<e4m3> {
  using Type = f16;
};

// The binary logarithm of the largest weight, that of `NARROW_WEIGHT` in the interpreter: small numbers of e4m3 have few bits.
template <class Op>
inline constexpr int kRaise = kIsNarrow<Op> ? 8 : 0;

// The elements of a piece of 16 bytes, and how far rows of shared memory lie apart.
template <class T>
inline constexpr int kPiece = 16 / int(sizeof(T));
template <class T>
MUCC_BOTH constexpr int pitch(int width) {
  return rounded(width, 16) + kPiece<T>;
}

// Bytes of shared memory of the kernels that use mma.sync: rows are 16 bytes longer than they need be, so that eight of
// them lie in different banks.
template <class Op>
MUCC_BOTH constexpr int shared_bytes() {
  using T = typename InShared<typename Op::Element>::Type;
  constexpr int kPitch = pitch<T>(Op::kWidth), kResultPitch = pitch<T>(Op::kResultWidth);
  return int(sizeof(T)) * (Op::kRows * kPitch + 2 * Op::kColumns * (kPitch + kResultPitch));
}

// Groups of four results of 16 rows.
template <class Op>
MUCC_BOTH constexpr int decode_items() {
  return rounded(Op::kResultWidth, 16) / 8 * 32;
}

// Rows lie in shared memory in chunks of 128 bytes, as wgmma reads them. A chunk has 64 elements of a tensor map: elements of
// 16 bits, or pairs of e4m3; of f32 it has 32.
constexpr int kChunk = 64, kBarrierBytes = 1024;
template <class T>
inline constexpr int kMapChunk = sizeof(T) == 4 ? 32 : kChunk;
template <class Op>
MUCC_BOTH constexpr int chunks_of(int width) {
  return rounded(width * int(sizeof(typename Op::Element)), 128) / 128;
}

// Values of e4m3 and f32 are transposed in memory before wgmma multiplies them, since it reads operands of 8 and 32 bits with
// K innermost only: for each element of a row of results all keys follow each other. A block transposes `kTurnedKeys` keys.
// Among 16 keys of e4m3 those whose weights are in one thread's registers follow each other: 2 t, 2 t + 1, 2 t + 8 and
// 2 t + 9; of 8 keys of f32 the even ones come first, as a thread has the weights of 2 t and 2 t + 1 where K is t and t + 4.
constexpr int kTurnedKeys = 128, kTurnThreads = 128;
template <class T>
inline constexpr int kTurnPitch = kTurnedKeys + (sizeof(T) == 1 ? 4 : 1);
template <class Op>
inline constexpr bool kTransposes = sizeof(typename Op::Element) != 2;

// Bytes of a step's values in shared memory: chunks of their rows, or of transposed ones.
template <class Op>
MUCC_BOTH constexpr int value_bytes() {
  return kTransposes<Op> ? rounded(Op::kTileColumns * int(sizeof(typename Op::Element)), 128) * rounded(Op::kResultWidth, 16)
                         : 128 * Op::kTileColumns * chunks_of<Op>(Op::kResultWidth);
}

// Bytes of shared memory of the kernels that use wgmma: chunks of each row, and barriers.
template <class Op>
MUCC_BOTH constexpr int tile_bytes() {
  constexpr int kChunks = chunks_of<Op>(Op::kWidth);
  return kBarrierBytes + 128 * kChunks * (Op::kTileRows + Op::kStages * Op::kTileColumns) + Op::kStages * value_bytes<Op>() +
         1024;
}

// Rows that TMA loads at a time where there are few queries: those of a step, or of a warp if pages are small.
template <class Op>
MUCC_BOTH constexpr int box_rows() {
  constexpr int kRows = kDecodeKeys * Op::kDecodeWarps;
  return Op::kPage == 0 || Op::kPage % kRows == 0 ? kRows : kDecodeKeys;
}

// Rows that it loads at a time where there are many: those of a step, or as many of them as lie in one page.
template <class Op>
MUCC_BOTH constexpr int step_rows() {
  int rows = Op::kTileColumns;
  for (int other = Op::kPage; other > 0;) {  // the greatest common divisor
    int const rest = rows % other;
    rows = other, other = rest;
  }
  return rows;
}

// Bytes of shared memory of the kernels for few queries. Steps that TMA loads leave their place to what warps have
// of the results: 16 bytes for each item, and two numbers of each row.
template <class Op>
MUCC_BOTH constexpr int step_bytes() {
  constexpr int kChunks = chunks_of<Op>(Op::kWidth) + chunks_of<Op>(Op::kResultWidth);
  constexpr int kSteps = 128 * Op::kDecodeWarps * Op::kDecodeStages * kDecodeKeys * kChunks;
  constexpr int kResults = Op::kDecodeWarps * (16 * decode_items<Op>() + 8 * kDecodeRows);
  return kSteps > kResults ? kSteps : rounded(kResults, 16);
}
template <class Op, bool kTiled = false>
MUCC_BOTH constexpr int decode_bytes() {
  constexpr int kPitch = rounded(Op::kWidth, 16) + 8, kResultPitch = rounded(Op::kResultWidth, 16) + 8;
  constexpr int kKeys = Op::kDecodeWarps * Op::kDecodeStages * kDecodeKeys;
  return 2 * kDecodeRows * kPitch +
         (kTiled ? 1024 + 16 * Op::kDecodeStages + step_bytes<Op>() : 2 * kKeys * (kPitch + kResultPitch));
}

}  // namespace mucc::attention
