"""Legality rules of epilogues of sm_90a: epilogue tiles, reductions of rows, results of 8 bits."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.kernels.gemm.scheduling import rules
from mucc.kernels.gemm.scheduling import sm90_memory as memory
from mucc.kernels.gemm.scheduling.config import GemmConfig
from mucc.kernels.gemm.scheduling.rules import Broken, Fix, Fixes

ROWS = {"cooperative": 128, "pingpong": 64, "warpspecialized": 64}
"""Rows that the consumers of a mainloop share: 64 for each warp group that works on one tile."""


def _pieces(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    """Pieces that divide the tile, the closest in width first; then what CUTLASS takes."""
    schedule = config.schedule
    wanted = schedule.epilogue_tile[1] if schedule.epilogue_tile else 32
    rows, columns = ROWS.get(schedule.mainloop, 64), (16, 32, 48, 64, 96, 128)
    for n in sorted(columns, key=lambda n: abs(n - wanted)):
        yield Fix(f"{rows}x{n}", config.having(epilogue_tile=(rows, n)), stages)
    yield Fix("auto", config.having(epilogue_tile=None), stages)


def piece(config: GemmConfig) -> Iterator[Broken]:
    """Check the setting `epilogue`: the rows and columns of an epilogue tile."""
    schedule = config.schedule
    if schedule.epilogue_tile is None or config.problem.is_grouped:
        yield from rules.pieces(config)
        return
    m, n = schedule.epilogue_tile
    rows = ROWS.get(schedule.mainloop, 64)
    if config.problem.rights == 2:
        message = f"the pieces of two right operands have one size, and cannot be {m}x{n}"
        note = "their columns alternate between the operands"
    elif config.problem.epilogue.group:
        message = f"the pieces of a kernel that reduces groups of columns cannot be {m}x{n}"
        note = "they have one size, and are stored after their groups are reduced"
    elif config.problem.epilogue.ranges:
        message = f"the pieces of a kernel that stores ranges of columns cannot be {m}x{n}"
        note = "they have one size, and each goes to the matrix of its columns"
    elif m != rows:
        message = f"the epilogue of the {schedule.mainloop} mainloop works on {rows} rows at a time, not {m}"
        note = f"its warp groups hold {rows} rows of accumulators side by side"
    elif n < 16 or n % 16 or schedule.tile[1] % n:
        message = (
            f"epilogue pieces of {n} columns do not divide tile N = {schedule.tile[1]} into multiples of 16"
        )
        note = "each piece is staged in shared memory 16 columns at a time"
    else:
        return
    yield Broken("MU3074", "epilogue", message, (note,), _pieces)


def row_reduction(config: GemmConfig, fixes: Fixes) -> Iterator[Broken]:
    """Check that one stage of D's buffer holds a row reduction: a partial row for each warp, of 16 rows."""
    rows, columns = memory.epilogue_tile(config)
    buffer = rows * columns * memory.staged_bytes(config)
    needed = rows // 16 * config.schedule.tile[1] * 4
    if config.problem.epilogue.row_reductions and needed > buffer:
        yield Broken(
            "MU3015",
            "tile",
            f"reducing rows of a tile with N = {config.schedule.tile[1]} needs a buffer of {needed} bytes, "
            f"but the epilogue has {buffer}",
            (f"the epilogue works on {rows}x{columns} elements at a time, 32 columns if they divide N",),
            fixes,
        )


def narrow_pieces(config: GemmConfig, fixes: Fixes) -> Iterator[Broken]:
    """TMA stores no piece of 16 columns of bytes that lie column by column.

    On an H200 kernels that try end in an illegal instruction; pieces of 32 columns are right.
    """
    problem = config.problem
    epilogue, (_, columns) = problem.epilogue, memory.epilogue_tile(config)
    bytes_ = 1 in (epilogue.destination, *epilogue.aux_stores)
    plain = problem.rights == 1 and not problem.is_grouped
    if plain and bytes_ and epilogue.destination_is_col_major and columns < 32:
        message = f"results of 8 bits cannot be stored column by column, {columns} columns at a time"
        note = "columns are contiguous in the kernel's result, as they are where operands are exchanged"
        setting = "tile" if config.schedule.epilogue_tile is None else "epilogue"
        yield Broken("MU3019", setting, message, (note,), fixes if setting == "tile" else _pieces)
