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

// Rows that are longer than what a block holds: each of `teams` teams of `parts` blocks works on one row after the other.
// A block has `chunk` steps of a row, and keeps the first `held` of them in shared memory. `slots` are what the blocks of
// a team tell each other, 0 before the launch.
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

// The shared memory of a block for `widest` totals at once, besides steps of its row.
MUCC_BOTH constexpr int totals_bytes(int widest) { return 2 * widest * 32 * int(sizeof(float)); }

}  // namespace mucc
