"""Schedules of attention kernels: what a target's kernels can be built for, and what is built by default.

Pure arithmetic: `problem.py` describes a kernel's op, and `workload.py` ranks schedules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

from mucc.kernels.attention.tiles import (
    DECODE_ROWS,
    WARPGROUP_BYTES,
    Tile,
    decode_tile_of,
    f32_tile_of,
    narrow_tile_of,
    tile_of,
    warpgroup_tile_of,
)
from mucc.kernels.violation import Violation

WARPGROUP_LOOPS = ("pingpong", "cooperative")
"""Mainloops on wgmma: warpgroups take turns at the tensor cores, or do not."""

MOST_STAGES = 8
MOST_PARTS = 64
"""The most parts of the keys of few queries (`kMost` of `mucc::attention::plan_decode`)."""

ROWS = {
    "pingpong": (128, 192),
    "cooperative": (64, 128, 192),
    "multistage": (64, 128),
    "skinny": (DECODE_ROWS,),
}
"""Queries of a block by mainloop: 64 for each warpgroup, 16 for each warp of `multistage`."""

WIDEST = {"pingpong": 256, "cooperative": 256, "multistage": 128, "skinny": 128}
"""The most keys of a step. On wgmma that is the widest instruction."""

SKINNY_COLUMNS = (16, 32, 64, 128)
"""Keys of a step for few queries: 16 for each of 1, 2, 4 or 8 warps."""

ROOM = {"pingpong": 200, "cooperative": 200, "multistage": 160}
"""32-bit registers of a thread for scores, weights and results; the rest of 240 holds addresses and rows.

ptxas 13.0: 128 x 176 of 128 elements takes 196 and does not spill on wgmma.
"""

ROOM_OF_NARROW = 208
"""The same for e4m3 on wgmma. ptxas 13.0: 128 x 128 of 128 elements takes 208; causal, it spills 16 bytes."""

ROOM_OF_THREE = 128
"""The same with three warpgroups, which have 160 registers: 192 x 128 of 64 elements takes 128, 192 x 144
spills (decision 40)."""


class Problem(NamedTuple):
    """Attention as its schedule is chosen: `rows` queries and `columns` keys, None where an extent is open.

    `width` and `result_width` are the elements of a row of keys and of values. `group` is how many matrices
    of queries share keys and values, where that is known.
    """

    compute: str
    width: int
    result_width: int
    rows: int | None
    columns: int | None
    batch: int | None
    group: int | None
    causal: bool
    ranged: bool
    """Whether rows see some of the columns only, by their indices or labels."""
    plain: bool
    """Whether scores are positive multiples of products, and no labels are compared."""
    page: int
    """Keys of a page; 0 where keys do not lie in pages."""
    may_decode: bool
    """Whether there may be so few queries that keys are divided among blocks."""
    is_many: bool
    """Whether there may be so many that they have tiles of their own."""
    has_warpgroups: bool
    shared_memory: int
    """The most bytes of shared memory that a block of the target may have."""

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return {"tf32": 4, "e4m3": 1}.get(self.compute, 2)

    @property
    def is_narrow(self) -> bool:
        """Whether operands are e4m3, whose kernels on wgmma read values that are transposed in memory."""
        return self.compute == "e4m3"

    @property
    def in_shared(self) -> int:
        """Bytes of an element in shared memory of kernels on mma.sync, which multiply e4m3 as f16."""
        return max(self.item, 2)

    @property
    def depth(self) -> int:
        """Elements of a row of queries, rounded up to whole steps of the tensor cores."""
        return -(-self.width // self.step) * self.step

    @property
    def step(self) -> int:
        """Elements of a row that are multiplied at a time: 32 bytes of e4m3, else 16 elements."""
        return 32 if self.is_narrow else 16

    @property
    def result_depth(self) -> int:
        """Elements of a row of results, rounded up to steps of 16 of the tensor cores."""
        return -(-self.result_width // 16) * 16

    @property
    def mainloops(self) -> tuple[str, ...]:
        """The mainloops of the target's kernels for so many queries, the default first."""
        if not self.is_many:
            return ("skinny",)
        return (*WARPGROUP_LOOPS, "multistage") if self.has_warpgroups else ("multistage",)


@dataclass(frozen=True)
class Schedule:
    """How attention is computed: `rows` queries and `columns` keys at a time, of `depth` elements.

    `parts` divide the keys of few queries; None leaves that to the launch, which knows the processors.
    """

    rows: int
    columns: int
    depth: int
    mainloop: str
    stages: int
    parts: int | None = None

    @property
    def tile(self) -> Tile:
        """Return the tile in the terms of the kernels."""
        warps = self.columns // 16 if self.mainloop == "skinny" else self.rows // 16
        return Tile(self.rows, 16 if self.mainloop == "skinny" else self.columns, warps, self.stages)


def default_tile(problem: Problem, mainloop: str) -> Tile:
    """Return the tile that a mainloop has where none is pinned."""
    widths = (problem.width, problem.result_width)
    if mainloop == "multistage":
        return tile_of(*widths, problem.in_shared)
    if mainloop == "skinny":
        return decode_tile_of(
            *widths, few_bytes(problem), bytewise=problem.is_narrow and problem.has_warpgroups
        )
    if problem.item == 4:
        return f32_tile_of(*widths)
    if problem.is_narrow:
        return narrow_tile_of(*widths, plain=problem.plain)
    # Pages have a power of two of keys more often than a multiple of 11.
    short = problem.causal or problem.page > 0
    return warpgroup_tile_of(*widths, causal=short, plain=problem.plain)


def few_bytes(problem: Problem) -> int:
    """Return the shared memory of a block for few queries by default: two blocks fit a multiprocessor."""
    return 110 << 10 if problem.has_warpgroups else 99 << 10


def complete(problem: Problem, fixed: Mapping[str, Any]) -> Schedule:
    """Return the schedule of pinned fields (those of `Schedule`, and `tile`), the default for the rest."""
    rows, columns, depth = fixed.get("tile", (0, 0, problem.depth))
    mainloop: str = fixed.get("mainloop", problem.mainloops[0])
    if "mainloop" not in fixed and mainloop == "pingpong" and rows == 64:
        mainloop = "cooperative"  # turns take two warpgroups
    usual = default_tile(problem, mainloop)
    if not rows:
        rows, columns = usual.rows, 16 * usual.warps if mainloop == "skinny" else usual.columns
    made = Schedule(rows, columns, depth, mainloop, usual.stages, fixed.get("parts"))
    if "stages" in fixed:
        return replace(made, stages=fixed["stages"])
    return replace(made, stages=max(2, min(usual.stages, most_stages(problem, made))))


def stage_bytes(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Return the bytes of shared memory that queries take, and those of one stage of keys and values."""
    rows, columns, item = schedule.rows, schedule.columns, problem.in_shared
    chunks, result_chunks = (128 * -(-w * problem.item // 128) for w in (problem.width, problem.result_width))
    # Rows that threads copy are a piece of 16 bytes longer, so that eight of them lie in different banks.
    row, result_row = (item * w + 16 for w in (problem.depth, problem.result_depth))
    if schedule.mainloop in WARPGROUP_LOOPS and problem.item != 2:
        # Values are transposed: a row for each element of a result, in chunks of 128 bytes.
        keys = 128 * -(-columns * problem.item // 128)
        return rows * chunks, columns * chunks + keys * problem.result_depth
    if schedule.mainloop in WARPGROUP_LOOPS:
        return rows * chunks, columns * (chunks + result_chunks)
    if schedule.mainloop == "skinny":
        # The kernel is built for keys that TMA loads, and for those that threads do.
        return rows * row, columns * max(row + result_row, chunks + result_chunks)
    return rows * row, columns * (row + result_row)


def most_stages(problem: Problem, schedule: Schedule) -> int:
    """Return how many stages fit into shared memory, at most `MOST_STAGES`."""
    if schedule.mainloop == "multistage":
        room = problem.shared_memory
    else:
        room = WARPGROUP_BYTES if problem.has_warpgroups else problem.shared_memory
    queries, stage = stage_bytes(problem, schedule)
    fitting = (room - queries) // max(stage, 1)
    return min(fitting, 2 if schedule.mainloop == "multistage" else MOST_STAGES)


def registers(problem: Problem, schedule: Schedule) -> int:
    """Return the 32-bit registers of a thread for scores, weights of the operands' dtype and results."""
    weights = schedule.columns * problem.item // 8 if schedule.mainloop in WARPGROUP_LOOPS else 0
    # Sums of a step's products of 8 bits are apart from those of all steps, where there is room.
    sums = 2 if problem.is_narrow and problem.result_width <= 128 else 1
    return schedule.columns // 2 + weights + sums * problem.result_depth // 2


def violations(problem: Problem, schedule: Schedule) -> list[Violation]:
    """Return the rules that a schedule breaks; those of a tile only where its mainloop can be had."""
    loops = problem.mainloops
    if schedule.mainloop not in loops:
        few = f"; attention of up to {DECODE_ROWS} queries has `skinny` alone" if not problem.is_many else ""
        notes = (f"the target's kernels for these operands have {', '.join(loops)}{few}",)
        message = f"attention of {problem.compute} has no {schedule.mainloop} mainloop here"
        return [Violation("MU3087", "mainloop", message, notes, loops[0])]
    found = [*_tile_rules(problem, schedule)] or [*_stage_rules(problem, schedule)]
    return [*found, *_part_rules(problem, schedule)]


def is_legal(problem: Problem, schedule: Schedule) -> bool:
    """Whether the target has a kernel with the schedule."""
    return not violations(problem, schedule)


def _tile_rules(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    loop = schedule.mainloop
    usual = complete(problem, {"mainloop": loop})
    fix = f"{usual.rows}x{usual.columns}x{usual.depth}"

    def broken(message: str, *notes: str) -> Violation:
        return Violation("MU3086", "tile", message, notes, fix)

    if schedule.depth != problem.depth:
        yield broken(
            f"tile K of this attention is {problem.depth}, not {schedule.depth}",
            f"a block holds whole rows of queries and keys: {problem.width} elements, "
            f"in steps of {problem.step}",
        )
    if schedule.rows not in ROWS[loop]:
        listed = ", ".join(map(str, ROWS[loop]))
        yield broken(f"tile M of {loop} attention is one of {listed}, not {schedule.rows}")
        return
    columns = schedule.columns
    if loop == "skinny" and columns not in SKINNY_COLUMNS:
        listed = ", ".join(map(str, SKINNY_COLUMNS))
        yield broken(f"tile N of skinny attention is one of {listed}, not {columns}")
        return
    if columns % problem.step or columns > WIDEST[loop]:
        text = f"tile N of {loop} attention is a multiple of {problem.step}, {WIDEST[loop]} at most"
        yield broken(f"{text}, not {columns}")
        return
    if loop == "skinny":
        return
    if schedule.rows == 192 and not problem.plain:
        yield broken(
            "three warpgroups compute no scores",
            "their threads have 160 registers each, which products and softmax take; scores that are more "
            "than scaled products, and labels, need further ones",
        )
        return
    taken, room = registers(problem, schedule), _room(problem, schedule)
    if taken > room:
        yield broken(
            f"a tile of {schedule.rows}x{columns} takes too many registers",
            f"scores, weights and results take {taken} of a thread, for which there is room for {room}",
        )


def _room(problem: Problem, schedule: Schedule) -> int:
    """Return the registers of a thread that scores, weights and results may take."""
    if schedule.rows == 192:
        return ROOM_OF_THREE
    has_narrow_loop = problem.is_narrow and schedule.mainloop in WARPGROUP_LOOPS
    return ROOM_OF_NARROW if has_narrow_loop else ROOM[schedule.mainloop]


def _stage_rules(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    stages, most = schedule.stages, most_stages(problem, schedule)
    queries, stage = stage_bytes(problem, schedule)
    notes = (f"queries take {queries} bytes, a stage of keys and values {stage}",)
    if most < 2:
        usual = complete(problem, {"mainloop": schedule.mainloop})
        fix = f"{usual.rows}x{usual.columns}x{usual.depth}"
        message = "two stages of this tile do not fit into shared memory"
        yield Violation("MU3086", "tile", message, notes, fix)
    elif stages < 2:
        yield Violation("MU3017", "stages", "a pipeline has two stages at least", (), "2")
    elif stages > most and schedule.mainloop == "multistage":
        yield Violation("MU3004", "stages", "multistage attention has two stages", (), "2")
    elif stages > most:
        yield Violation("MU3004", "stages", f"at most {most} stages can be had", notes, str(most))


def _part_rules(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    parts = schedule.parts
    if parts is None or parts == 1:
        return
    if not problem.may_decode:
        note = "keys are divided among blocks where there are up to 64 queries, of 8 or 16 bits"
        yield Violation("MU3088", "scheduler", "these keys are not divided", (note,), "persistent")
        return
    most = MOST_PARTS
    if schedule.mainloop == "skinny":
        # The last block holds the largest scores and the sums of all parts where keys were: 128 bytes a part.
        # Keys that threads copy take the least room.
        rows = problem.item * (problem.depth + problem.result_depth) + 32
        most = min(most, schedule.columns * schedule.stages * rows // (8 * DECODE_ROWS))
    if parts > most:
        yield Violation(
            "MU3088", "scheduler", f"keys have {most} parts at most, not {parts}", (), f"split_k({most})"
        )


def proposals(problem: Problem, fixed: Mapping[str, Any]) -> Iterator[Schedule]:
    """Yield legal schedules worth trying that have the pinned fields, each once, the default first."""
    seen: set[Schedule] = set()
    for made in _proposals(problem, fixed):
        if made not in seen and is_legal(problem, made):
            seen.add(made)
            yield made


def _proposals(problem: Problem, fixed: Mapping[str, Any]) -> Iterator[Schedule]:
    yield (usual := complete(problem, fixed))
    parts = (None, 1, 2, 4, 8, 16, 32, 64) if is_few(problem) else (None,)
    for mainloop in problem.mainloops:
        columns = SKINNY_COLUMNS if mainloop == "skinny" else range(32, WIDEST[mainloop] + 1, 16)
        tiles = product(ROWS[mainloop], columns) if problem.is_many or mainloop == "skinny" else ()
        for rows, width in tiles:
            made = complete(problem, {"tile": (rows, width, problem.depth), "mainloop": mainloop, **fixed})
            counts = {made.stages, most_stages(problem, made)} if "stages" not in fixed else {made.stages}
            for stages in sorted(counts):
                yield from (replace(made, stages=stages, parts=fixed.get("parts", count)) for count in parts)
    yield from (replace(usual, parts=fixed.get("parts", count)) for count in parts)


def is_few(problem: Problem) -> bool:
    """Whether the kernels for few queries take the problem, as far as its extents are known."""
    few = 64 if problem.is_many else DECODE_ROWS
    return problem.may_decode and problem.rows is not None and problem.rows <= few


def neighbours(problem: Problem, schedule: Schedule) -> list[Schedule]:
    """Return legal schedules with somewhat more or fewer keys, queries, stages or parts, or another turn."""
    found: list[Schedule] = []
    if schedule.mainloop == "skinny":
        found += [
            replace(schedule, columns=schedule.columns * 2),
            replace(schedule, columns=schedule.columns // 2),
        ]
    else:
        found += [replace(schedule, columns=schedule.columns + by) for by in (-32, -16, 16, 32)]
        found += [replace(schedule, rows=schedule.rows + by) for by in (-64, 64)]
        found += [replace(schedule, mainloop=loop) for loop in problem.mainloops]
    found += [replace(schedule, stages=schedule.stages + by) for by in (-1, 1)]
    if schedule.parts is not None:
        found += [
            replace(schedule, parts=count) for count in (schedule.parts * 2, schedule.parts // 2) if count
        ]
    fitting = (replace(s, stages=min(s.stages, most_stages(problem, s))) for s in found if s.columns > 0)
    return [s for s in dict.fromkeys(fitting) if s != schedule and is_legal(problem, s)]
