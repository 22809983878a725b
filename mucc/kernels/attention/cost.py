"""Estimate the time of attention for a schedule, from rates of a multiprocessor and measured constants.

Constants were chosen for the 48 full and causal calls of `bench/results/h200/attention.json` (bf16, from a
cold L2; decision 69 says how well they fit). `pingpong` is what was measured: what other mainloops hide is
derived from how they wait.
"""

from __future__ import annotations

from math import ceil

from mucc.kernels.attention.schedule import WARPGROUP_LOOPS, Problem, Schedule, is_few
from mucc.kernels.attention.tiles import DECODE_ROWS
from mucc.kernels.workload import Estimate
from mucc.target.facts import Device, Facts

OPEN_LENGTH, OPEN_BATCH = 4096, 64
"""Extents that are taken where a dim is open."""

CLOCK = 1.55e9
"""Hz of an H200 that multiplies for long: the power that wgmma takes is what bounds it."""
LAUNCH = 2.5e-6
"""Seconds of a launch."""
FILL = 5600
"""Cycles until a block's first queries and keys are there (decision 48)."""
END = 3000
"""Cycles of a tile that nothing hides: its last weights and results, the queries of the next one."""
STEP = 150
"""Cycles of a step in which a warpgroup waits for its turn or for a barrier."""
INSTRUCTIONS = 4
"""Instructions on f32 for a score: difference, largest, sum, conversion; beside an exponential."""
COMPUTED = 6
"""Further ones where scores are more than scaled products."""
COMBINE = 8
"""Keys that could be read while the last block combines one part of the keys."""
START = 64
"""Keys that could be read while a block for few queries starts."""
AHEAD = 48 << 10
"""Bytes on their way to a multiprocessor with which it reads memory at full rate: 4.8 TB/s and 1.3 us."""


def estimate(problem: Problem, schedule: Schedule, facts: Facts, device: Device) -> Estimate:
    """Estimate the time of a schedule on a card, from a cold L2."""
    few = is_few(problem) or not problem.is_many
    return (_few if few else _many)(problem, schedule, facts, device)


def _bandwidth(facts: Facts, device: Device) -> float:
    return facts.cost.get("dram_share", 0.9) * device.datasheet["dram_bandwidth"]


def _extents(problem: Problem) -> tuple[int, int, int]:
    """Return the leading indices, queries and keys, those that are open as large ones."""
    batch = OPEN_BATCH if problem.batch is None else problem.batch
    rows = OPEN_LENGTH if problem.rows is None else problem.rows
    columns = OPEN_LENGTH if problem.columns is None else problem.columns
    return max(batch, 1), max(rows, 1), max(columns, 1)


def _flops(problem: Problem, rows: int, seen: float, batch: int) -> float:
    return 2.0 * batch * rows * seen * (problem.width + problem.result_width)


def _bytes(problem: Problem, batch: int, rows: int, columns: int) -> float:
    group = problem.group or 1
    own = batch * rows + batch / group * columns
    return problem.item * own * (problem.width + problem.result_width)


def _many(problem: Problem, schedule: Schedule, facts: Facts, device: Device) -> Estimate:
    """Estimate kernels whose blocks take tiles of many queries: products and weights take turns."""
    batch, rows, columns = _extents(problem)
    sm = facts.multiprocessor
    of_row = ceil(rows / schedule.rows)
    tiles = of_row * batch
    # Of causal attention a tile sees the keys up to its last row.
    seen = min(columns, (rows + schedule.rows) / 2) if problem.causal else columns
    steps = seen / schedule.columns
    # Steps on the diagonal are multiplied whole.
    steps = max(steps + 0.5, 1.0) if problem.causal else float(ceil(steps))
    on_wgmma = schedule.mainloop in WARPGROUP_LOOPS
    rate = sm.flops_per_cycle(problem.compute) * (1.0 if on_wgmma else sm.mma_sync_share)
    area = schedule.rows * schedule.columns
    products = 2.0 * area * (problem.depth + problem.result_depth) / rate
    instructions = INSTRUCTIONS + (0 if problem.plain else COMPUTED)
    weights = area * (1 / sm.special_per_cycle + instructions / sm.fp32_per_cycle)
    loads = schedule.columns * problem.item * (problem.width + problem.result_width) / sm.l2_bytes_per_cycle
    hidden = max(products, weights, loads)
    exposed = {"pingpong": 0.0, "cooperative": 0.25, "multistage": 0.5}[schedule.mainloop]
    # Scores of a step are awaited by nothing else where one warpgroup is alone.
    alone = schedule.rows == 64 and on_wgmma
    waits = min(products, weights) * (0.5 if alone else exposed) + STEP
    resident = device.multiprocessors * (1 if on_wgmma else 2)
    balanced = problem.causal or problem.ranged
    waves = tiles / resident
    rounds = max(waves + 0.5 if balanced else ceil(waves), 1.0)
    share = 1 if on_wgmma else 2  # blocks that share a multiprocessor
    cycles = rounds * share
    clock = min(CLOCK, facts.cost.get("clock", CLOCK)) if on_wgmma else device.clock(sm)
    moved = _bytes(problem, batch, rows, columns)
    parts = {
        "math": cycles * steps * products / clock,
        "softmax": cycles * steps * max(0.0, max(products, weights) - products + waits) / clock,
        "loads": cycles * steps * (hidden - max(products, weights)) / clock,
        "epilogue": cycles * END / clock,
        "fill": FILL / clock,
        "launch": LAUNCH,
    }
    least = moved / _bandwidth(facts, device) + parts["fill"] + LAUNCH
    parts["loads"] += max(0.0, least - sum(parts.values()))
    limit = max(("math", "softmax", "loads"), key=lambda name: parts[name])
    flops = _flops(problem, rows, min(columns, rows / 2) if problem.causal else columns, batch)
    return Estimate.of(parts, limit, waves, max(rounds, waves), resident, flops, moved)


def few_parts(units: int, columns: int, processors: int) -> int:
    """Return in how many parts a launch divides keys: the arithmetic of `mucc::attention::plan_decode`."""

    def cost(parts: int) -> int:
        rounds = ceil(units * parts / processors)
        return rounds * (ceil(columns / parts) + START) + (COMBINE * parts + START if parts > 1 else 0)

    return min((p for p in range(1, 65) if p == 1 or p * 128 <= columns), key=cost)


def _few(problem: Problem, schedule: Schedule, facts: Facts, device: Device) -> Estimate:
    """Estimate kernels for few queries: their time is that of reading keys and values."""
    batch, rows, columns = _extents(problem)
    group = min(problem.group or 1, batch)
    units = max(batch // group, 1) * ceil(rows * group / DECODE_ROWS)
    processors = device.multiprocessors
    parts = schedule.parts or few_parts(units, columns, processors)
    clock = device.clock(facts.multiprocessor)
    row = problem.item * (problem.width + problem.result_width)
    bandwidth = _bandwidth(facts, device)
    waves = units * parts / processors
    rounds = max(ceil(waves), 1) if waves < 4 else waves
    # Two blocks of a multiprocessor have so much on its way of what hides the latency of memory.
    ahead = min(1.0, 2.0 * (schedule.stages - 1) * schedule.columns * row / AHEAD)
    reading = rounds * ceil(columns / parts) * row / (bandwidth / processors) / max(ahead, 0.05)
    moved = _bytes(problem, batch, rows, columns)
    seconds = {
        "loads": max(reading, moved / bandwidth),
        "reduction": (COMBINE * parts + START if parts > 1 else 0) * row / (bandwidth / processors),
        "fill": FILL / clock,
        "launch": LAUNCH,
    }
    flops = _flops(problem, rows, columns, batch)
    return Estimate.of(seconds, "loads", waves, max(float(ceil(waves)), waves, 1.0), processors, flops, moved)
