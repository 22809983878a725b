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

// The most totals at once of a team: those of a phase, in the first one with count, mean and squares of its moments.
template <class Op>
inline constexpr int team_widest = Op::kMoments < 0 || Op::kWidest > Op::kFirst + 3 ? Op::kWidest : Op::kFirst + 3;

// The shared memory of a block for `widest` totals at once, besides steps of its row.
MUCC_BOTH constexpr int totals_bytes(int widest) { return 2 * widest * 32 * int(sizeof(float)); }

}  // namespace mucc
