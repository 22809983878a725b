// The host side of normalize kernels: which of a stage's kernels runs, and how many threads share a row.
#pragma once

#include <mucc/pointwise.h>
#include <mucc/rows.h>

namespace mucc {

struct RowPlan {
  RowShape shape;
  int64_t blocks;
  int code;
};

// Rows whose elements are neighbours.
template <class Op>
RowPlan plan_rows(Call const& c, int64_t rows, int64_t length, int v) {
  int const code = row_code<Op>(length, v), items = row_items<Op>(code, v);
  RowPlan plan{{uint32_t(rows), uint32_t(length), 32, Op::kThreads}, rows, code};
  auto& shape = plan.shape;
  if (code == 0 || code == 2 || code == 3 || code == kLaneCode) {
    shape.lanes = warp_lanes(length, items);
    plan.blocks = blocks_of(rows, shape.threads / shape.lanes);
    return plan;
  }
  // Few rows that are reduced once: more threads, each with less of a row. Further phases wait longer for more threads.
  bool const is_few = !is_reproducible<Op> && rows * blocks_of(length, items) < 1024 * int64_t(c.sm_count);
  bool const is_halved = code == 4 && known_steps<Op>(v) == 0 && Op::kPhases == 1 && items >= 4 && is_few;
  shape.lanes = shape.threads = int(at_most(block_threads(length, is_halved ? items / 2 : items), INT32_MAX));
  return plan;
}

// The shared memory of a block of a team.
inline int64_t team_bytes(Call const& c) { return c.sm_shared / kTeamBlocks - 1024; }  // 1 KB is the system's

// Divides rows among teams of as many blocks as hold one, or of more where there are few rows; each thread has a round of
// loads at least.
template <class Op>
RowTeams plan_teams(Call const& c, int64_t rows, int64_t length, int v, int items) {
  int64_t const blocks = at_least(1, c.sm_count) * kTeamBlocks;
  int64_t const room = at_least(0, team_bytes(c) - totals_bytes(team_widest<Op>));
  int64_t held = Op::kLoads ? room / (Op::kLoads * v * int64_t(sizeof(float))) / kTeamThreads * kTeamThreads : length;
  if (team_reads_once<Op>) held = 0;
  int64_t const needed = team_reads_once<Op> ? 1 : held > 0 ? blocks_of(length, held) : blocks, most = blocks_of(length, items * kTeamThreads);
  int64_t teams = at_least(1, blocks / at_most(needed, blocks));
  // One more of few teams, where each holds most of its row: more of them have loads in flight while another one waits.
  if (teams > 1 && teams < 4 && 7 * (teams + 1) * needed <= 8 * blocks) ++teams;
  // Teams in turn: while one waits for its blocks, another one loads or stores.
  if (teams == 1 && 5 * needed <= 4 * blocks) teams = 2;
  if (!is_reproducible<Op>) teams = at_most(teams, rows);
  int64_t const parts = at_most(blocks / teams, most), chunk = blocks_of(blocks_of(length, parts), 32) * 32;
  return {uint32_t(rows),
          uint32_t(length),
          uint32_t(chunk),
          uint32_t(at_most(held, chunk)),
          int(at_most(blocks / blocks_of(length, chunk), rows)),
          int(blocks_of(length, chunk)),
          nullptr};
}

template <class Op>
int64_t slots_of(RowTeams const& teams) {
  return teams.parts == 1 ? 0 : int64_t(teams.teams) * 2 * team_widest<Op> * teams.parts;
}

template <class Op>
RowTeams plan_teams(Call const& c, int64_t rows, int64_t length, int v) {
  return plan_teams<Op>(c, rows, length, v, v > 1 ? Op::kTeamVectors : Op::kTeamItems);
}

// Rows that lie side by side.
template <class Op>
RowPlan plan_columns(Call const& c, int64_t rows, int64_t length, int v) {
  RowPlan plan{{uint32_t(rows), uint32_t(length), 32, Op::kThreads}, 0, column_code<Op>(length, v)};
  auto& shape = plan.shape;
  auto const holds = [&] { return length <= int64_t(column_items<Op>(v)) * (shape.threads / shape.lanes); };
  auto const is_few = [&] { return !is_reproducible<Op> && blocks_of(rows, shape.lanes) < int64_t(c.sm_count); };
  // Clusters read rows once, other blocks twice, the second time in part from L2. Once takes less time where rows are long, or so
  // few that three quarters of the multiprocessors would have none (decision 75).
  bool const is_idle = 4 * blocks_of(rows, lanes_again(v)) <= int64_t(c.sm_count);
  bool const is_long = 4 * length > 3 * cluster_steps<Op>(v);
  if (cluster_may_take<Op>(length, v) && !is_reproducible<Op> && (is_idle || is_long)) {
    plan.code = kClusterCode;
    shape.lanes = kClusterLanes, shape.threads = kClusterThreads;
    plan.blocks = blocks_of(rows, shape.lanes) * kClusterBlocks;
    return plan;
  }
  if (plan.code % 2 == 0) {
    while (shape.lanes > least_lanes(v) && (!holds() || is_few())) shape.lanes /= 2;
  } else {
    shape.lanes = lanes_again(v), shape.threads = kThreadsAgain;
    while (shape.lanes > 8 && is_few()) shape.lanes /= 2;
  }
  plan.blocks = blocks_of(rows, shape.lanes);
  return plan;
}

// The extents of a launch: of the rows, and of one, in steps of `v` elements.
template <class Op>
struct RowCounts {
  int64_t rows = 1, length = 1;

  RowCounts(Extents<Op::kRank> const& extents, int v) {
    for (int a = 0; a < Op::kRank; ++a) (a < Op::kKept ? rows : length) *= extents.of[a];
    length = steps_of<Op>(length, v);
    if (!Op::kInner) rows /= v;
  }
};

// Returns the bytes of memory for totals that blocks exchange, if there may be teams.
template <class Op>
int64_t rows_scratch(Call const& c, Extents<Op::kRank> const& extents) {
  int64_t slots = 0;
  for (int v : {1, Op::kVector}) {
    RowCounts<Op> const n(extents, v);
    if (n.rows == 0 || n.length == 0 || plan_rows<Op>(c, n.rows, n.length, v).code < kTeamCode) continue;
    slots = at_least(slots, slots_of<Op>(plan_teams<Op>(c, n.rows, n.length, v)));
  }
  return slots * int64_t(sizeof(uint64_t));
}

template <class Op>
int launch_teams(Call const& c, char const* stage, Code& code, Op& op, Extents<Op::kRank>& extents, RowTeams shape,
                 void* scratch) {
  shape.slots = static_cast<uint64_t*>(scratch);
  int64_t const words = 2 * slots_of<Op>(shape);
  if (words && fill(c, static_cast<float*>(scratch), 0.0f, words)) return 1;
  void* parameters[] = {&op, &extents, &shape};
  Geometry geometry{{unsigned(shape.teams * shape.parts), 1, 1}, unsigned(kTeamThreads)};
  geometry.shared = unsigned(team_bytes(c));
  geometry.together = shape.parts > 1;
  return start(c, stage, code, geometry, parameters);
}

// Runs over a space whose last axes are reduced.
template <class Op>
int launch_rows(Call const& c, char const* stage, Code* codes, Op op, Extents<Op::kRank> extents, bool vector,
                void* scratch = nullptr) {
  constexpr int kFast = Op::kInner ? Op::kRank - 1 : Op::kKept - 1;
  // Whether rows of odd lengths are read by vectors, and where one begins within a vector, depends on how many there are.
  if (is_reproducible<Op> && (!Op::kInner || Op::kShifted)) vector = false;
  // All that is read of a vector at the end of shifted rows is memory of the tensor.
  vector = vector && (Op::kShifted ? product(extents) : extents.of[kFast]) % Op::kVector == 0;
  int const v = vector ? Op::kVector : 1;
  RowCounts<Op> const n(extents, v);
  if (!Op::kShifted) extents.of[kFast] /= v;
  if (n.rows == 0) return 0;
  if (n.length == 0) return fail("MU6007", "%s, stage %s: rows without elements", c.kernel->name, stage);
  RowPlan const plan = Op::kInner ? plan_rows<Op>(c, n.rows, n.length, v) : plan_columns<Op>(c, n.rows, n.length, v);
  if (plan.blocks > INT32_MAX || n.rows > UINT32_MAX || n.length > INT32_MAX)
    return fail("MU6007", "%s, stage %s: too many results for one launch", c.kernel->name, stage);
  if constexpr (Op::kTeams) {
    if (plan.code >= kTeamCode)
      return launch_teams<Op>(c, stage, codes[plan.code], op, extents, plan_teams<Op>(c, n.rows, n.length, v), scratch);
  }
  void* parameters[] = {&op, &extents, const_cast<RowShape*>(&plan.shape)};
  Geometry geometry{{unsigned(plan.blocks), 1, 1}, unsigned(plan.shape.threads)};
  if constexpr (!Op::kInner) {
    if (plan.code == kClusterCode) {
      geometry.cluster[0] = kClusterBlocks, geometry.cluster[1] = geometry.cluster[2] = 1;
      geometry.shared = sizeof(ClusterTotals<Op::kVector, Op::kWidest>);
    }
  }
  return start(c, stage, codes[plan.code], geometry, parameters);
}

}  // namespace mucc
