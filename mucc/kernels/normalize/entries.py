"""The entry functions of normalize kernels, one for each way of sharing a row (mucc/rows.cuh)."""

from __future__ import annotations

from mucc.codegen.texts import Entry

_GIVEN = "Work const op, mucc::Extents<Op::kRank> const extents, mucc::RowShape const shape"


def _taken(code: int) -> str:
    """Return whether a launch may take the kernel of a code, as C++."""
    return f"mucc::may_take<Op>({code})"


def row_entries(entry: str, has_teams: bool) -> list[Entry]:
    """Return the kernels of a row program; the place of one is the number that `row_code` gives it in C++."""
    most, many = "Op::kMostThreads", "Op::kManyThreads, Op::kManyBlocks"
    kernels = (
        ("short", "warp<1, Op::kFew>", "Op::kThreads"),
        ("block", "block<1, Op::kFew>", most),
        ("short_vector", "warp<Op::kVector, Op::kShort / Op::kVector>", "Op::kThreads"),
        ("warp_vector", "warp<Op::kVector, Op::kMany / Op::kVector>", "Op::kThreads"),
        ("block_vector", "block<Op::kVector, Op::kSome / Op::kVector>", most),
        ("long_vector", "block<Op::kVector, Op::kMany / Op::kVector>", many),
        ("lane_vector", "warp<Op::kVector, 1>", "Op::kThreads"),
    )
    entries = [
        Entry(f"{entry}_{name}", _GIVEN, f"mucc::rows_{function}(op, extents, shape)", bounds, _taken(code))
        for code, (name, function, bounds) in enumerate(kernels)
    ]
    if not has_teams:
        return entries
    given, bounds = _GIVEN.replace("RowShape", "RowTeams"), "mucc::kTeamThreads, mucc::kTeamBlocks"
    teams = (("teams", "1, Op::kTeamItems"), ("teams_vector", "Op::kVector, Op::kTeamVectors"))
    return entries + [
        Entry(
            f"{entry}_{name}", given, f"mucc::rows_teams<{sizes}>(op, extents, shape)", bounds, _taken(code)
        )
        for code, (name, sizes) in enumerate(teams, len(kernels))
    ]


def column_entries(entry: str, has_clusters: bool) -> list[Entry]:
    """Return the kernels that reduce columns, in the order of `mucc::column_code`."""
    once, again = "Op::kThreads, 2", "mucc::kThreadsAgain, 1"
    kernels = (
        ("columns", "1, 16, false", once),
        ("columns_again", "1, 16, true", again),
        ("columns_vector", "Op::kVector, Op::kColumnItems, false", once),
        ("columns_again_vector", "Op::kVector, (Op::kColumnItems + 1) / 2, true", again),
    )
    entries = [
        Entry(
            f"{entry}_{name}",
            _GIVEN,
            f"mucc::rows_columns<{given}>(op, extents, shape)",
            bounds,
            _taken(code),
        )
        for code, (name, given, bounds) in enumerate(kernels)
    ]
    if not has_clusters:
        return entries
    work = "mucc::rows_cluster<Op::kVector, Op::kColumnItems>(op, extents, shape)"
    bounds = "mucc::kClusterThreads, 1"
    return [
        *entries,
        Entry(f"{entry}_columns_cluster", _GIVEN, work, bounds, _taken(len(entries))),
    ]
