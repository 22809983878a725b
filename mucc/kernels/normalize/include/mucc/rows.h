// How the rows of a kernel are divided: what the host decides and the kernels of rows.cuh follow.
#pragma once

#include <mucc/view.h>

namespace mucc {

// `rows` rows of `length` steps each. Where rows lie side by side, a step is one element of each of V rows, and `rows`
// counts groups of V rows. `lanes` threads share a row, or as many rows side by side are those of a warp's threads.
struct RowShape {
  uint32_t rows, length;
  int lanes, threads;
};

// The most lanes that share a row with one vector each.
constexpr int kMostLanes = 16;

// Where rows lie side by side and are loaded again: the threads of a block, and the most of them side by side, which load
// whole lines of memory.
constexpr int kThreadsAgain = 512;
MUCC_BOTH constexpr int lanes_again(int v) { return v > 1 ? 8 : 32; }

// Where they are loaded once: the fewest threads side by side, which load whole sectors of memory, and the steps of each.
MUCC_BOTH constexpr int least_lanes(int v) { return v > 1 ? 2 : 8; }
template <class Op>
MUCC_BOTH constexpr int column_items(int v) {
  return v > 1 ? Op::kColumnItems : 16;
}

// Where a cluster of blocks holds them: its blocks, the threads of each, and those side by side, which load 64 bytes.
constexpr int kClusterBlocks = 8, kClusterThreads = 512, kClusterLanes = 4;
enum : int { kClusterCode = 4 };

// Rows that are longer than what a block holds: each of `teams` teams of `parts` blocks works on one row after the other.
// A block has `chunk` steps of a row, and keeps the first `held` of them in shared memory. `slots` hold the totals
// that the blocks of a team exchange, 0 before the launch.
struct RowTeams {
  uint32_t rows, length, chunk, held;
  int teams, parts;
  uint64_t* slots;
};

// The threads of a block of a team, and how many blocks of teams a multiprocessor has at a time.
constexpr int kTeamThreads = 512, kTeamBlocks = 2;

// The totals of the first phase of a team: besides its own count, mean and squares of moments, or a sum of exponentials.
template <class Op>
inline constexpr int team_first = Op::kFirst + (Op::kMoments >= 0 ? 3 : Op::kExponentials >= 0 ? 1 : 0);

// The most totals at once of a team: those of a phase.
template <class Op>
inline constexpr int team_widest = Op::kWidest > team_first<Op> ? Op::kWidest : team_first<Op>;

// Whether a team reads its row once: all of its phases are found in one pass, and nothing of the row's shape is stored.
template <class Op>
inline constexpr bool team_reads_once =
    !Op::kFills && Op::kPhases == (Op::kMoments >= 0 || Op::kExponentials >= 0 ? 2 : 1);

// The code of rows with a vector for each lane, and the first of the codes of teams.
enum : int { kLaneCode = 6, kTeamCode = 7 };

// Which kernel takes rows of `length` steps of `v` elements that are neighbours. Codes are first those of single elements:
// lanes of a warp, a block; then of vectors: a few lanes, a warp, a block with a short and a long part of the row in each
// thread, as many lanes as vectors; then those of teams of blocks.
template <class Op>
MUCC_BOTH constexpr int row_code(int64_t length, int v) {
  bool const vector = v > 1;
  if (vector && length <= kMostLanes) return kLaneCode;
  int const few = vector ? Op::kShort / v : Op::kFew, some = Op::kSome / v, many = Op::kMany / v;
  if (length <= 32 * few || (vector && length <= 32 * some)) return vector ? 2 + (length > 32 * few) : 0;
  bool const is_long = vector && length > 256 * some;
  int64_t const most = int64_t(is_long ? many : vector ? some : few) * (is_long ? Op::kManyThreads : Op::kMostThreads);
  return length > most ? kTeamCode + vector : vector ? 4 + is_long : 1;
}

// The most steps of a thread by the kernel of a code that is none of teams.
template <class Op>
MUCC_BOTH constexpr int row_items(int code, int v) {
  switch (code) {
    case 0:
    case 1: return Op::kFew;
    case 2: return Op::kShort / v;
    case 4: return Op::kSome / v;
    case kLaneCode: return 1;
    default: return Op::kMany / v;
  }
}

// The lanes of a warp, a power of two, that share a row with up to `items` steps each.
MUCC_BOTH constexpr int warp_lanes(int64_t length, int items) {
  int lanes = 32;
  while (lanes > 1 && lanes / 2 * items >= length) lanes /= 2;
  return lanes;
}

// The threads of a block, whole warps, that share a row with up to `items` steps each.
MUCC_BOTH constexpr int64_t block_threads(int64_t length, int items) {
  return (length + 32 * items - 1) / (32 * items) * 32;
}

// The steps of each row that kernels are compiled for: 0 where the program does not know them. Long rows of bf16 that are
// reduced once take the launch's: without its comparisons ptxas makes f32 of all elements first, in 60 registers instead of
// 40, and a multiprocessor has two blocks instead of three.
template <class Op>
MUCC_BOTH constexpr int64_t known_steps(int v) {
  int64_t const length = known_product<Op>(Op::kKept, Op::kRank);
  if (Op::kPairs && Op::kPhases == 1 && length > 256 * Op::kSome) return 0;
  return Op::kInner && !Op::kShifted && length % v == 0 ? length / v : 0;
}

// The same of rows that lie side by side. Codes are those of single elements, then of vectors, where a thread has its part
// of a row in registers and where it loads again. Where a cluster may have a row in registers the launch decides.
template <class Op>
MUCC_BOTH constexpr int column_code(int64_t length, int v) {
  return (v > 1 ? 2 : 0) + (length > int64_t(column_items<Op>(v)) * (Op::kThreads / least_lanes(v)));
}

// The most steps that a cluster holds, and whether it may take a row: threads that hold less than half of what they could
// have too few loads in flight.
template <class Op>
MUCC_BOTH constexpr int64_t cluster_steps(int v) {
  return int64_t(column_items<Op>(v)) * (kClusterThreads / kClusterLanes) * kClusterBlocks;
}
template <class Op>
MUCC_BOTH constexpr bool cluster_may_take(int64_t length, int v) {
  bool const is_long = column_code<Op>(length, v) % 2 == 1;
  return v > 1 && Op::kClusters && is_long && length <= cluster_steps<Op>(v) && 2 * length >= cluster_steps<Op>(v);
}

// What the blocks of a cluster have in shared memory: the totals of their warps, and those of a block for the others.
template <int V, int kWidest>
struct ClusterTotals {
  static constexpr int kWarps = kClusterThreads / 32, kColumns = kClusterLanes * V;
  float warps[2][kWidest][kWarps][kColumns], own[2][kWidest][kColumns];
};

// The steps of a row of `length` elements.
template <class Op>
MUCC_BOTH constexpr int64_t steps_of(int64_t length, int v) {
  if (v == 1 || !Op::kInner) return length;
  return Op::kShifted ? (length + 2 * v - 2) / v : length / v;  // of shifted rows the most that one meets
}

// Whether a launch may take the kernel of a code.
template <class Op>
MUCC_BOTH constexpr bool may_take(int code) {
  int64_t const length = known_product<Op>(Op::kKept, Op::kRank);
  // A few vectors for each lane of a warp are all that a warp has, unless several values are loaded of each element.
  if (length == 0) return !(Op::kInner && code == 3 && Op::kShort >= Op::kSome);
  for (int is_vector = 0; is_vector < 2; ++is_vector) {
    int const v = is_vector ? Op::kVector : 1;
    bool const fits = !Op::kInner || Op::kShifted || length % v == 0;
    int64_t const steps = steps_of<Op>(length, v);
    if (fits && code == (Op::kInner ? row_code<Op>(steps, v) : column_code<Op>(steps, v))) return true;
    if (fits && !Op::kInner && code == kClusterCode && cluster_may_take<Op>(steps, v)) return true;
  }
  return false;
}

// The shared memory of a block for `widest` totals at once, besides steps of its row.
MUCC_BOTH constexpr int totals_bytes(int widest) { return 2 * widest * 32 * int(sizeof(float)); }

}  // namespace mucc
