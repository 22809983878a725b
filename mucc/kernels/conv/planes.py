"""Tiles of convolutions that warpgroups multiply from planes of x, and which is the best one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.patches import (
    Reach,
    box_shapes,
    has_windows,
    legal_columns,
    reaches_of,
    shortest_line,
    widened,
)
from mucc.kernels.conv.tiles import STAGE_ROW
from mucc.target.facts import Facts

GROUPS = 2
"""The warpgroups of a block that multiply: as many as PlaneTile of mucc/conv.h has."""

ROWS = (128, 256)
COLUMNS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
HELD = 8
"""Elements of x that a thread holds for each block of 64 rows and eight channels."""

HOLDS = (208, 96, 48, 32)
"""Sums and elements of x of a thread that leave registers for everything else, where a multiprocessor has one
block, and where it has two, three or four."""

WORD = 4
DEPTH = STAGE_ROW // WORD
"""Channels that are staged at a time."""

INSTRUCTION = 8
"""Channels that an instruction adds up."""

STAGES = 3
"""The fewest stages of weights."""

MOST_STAGES = 6
WIDEST_BOX = 256
"""The most elements along an axis that TMA copies at a time."""

ALIGNMENT = 1024
"""What the first stage of weights is aligned to."""

BARRIERS = 16
"""Bytes of the barriers of a stage."""

TAP = 8
"""Bytes that a block knows of a tap."""

LARGEST = 1023
"""The largest window along an axis."""

WAIT = 150
"""Cycles of a warpgroup between the products of two taps."""

OVERLAPPED = (1.0, 0.62, 0.5, 0.45)
"""The time of one to four blocks that share a multiprocessor, over their time one after the other: 0.56 to
0.63 for two on an H100."""

CLASSES = 1.4
"""How much longer blocks take that compute several classes of outputs, each of few taps: 0.92 of the time one
after the other, with two of them."""

MOST_LAST = 4
"""The most classes along the last axis whose sums a thread has at the same time."""


class PlaneTile(NamedTuple):
    """Outputs of a class along three axes and channels of the result that a block computes, and how."""

    places: tuple[int, int, int]
    columns: int
    deep: int
    """Channels of x in one pipeline stage."""
    box: tuple[int, int, int]
    """Elements of a channel that are staged, along three axes."""
    stages_x: int
    stages_w: int
    resident: int
    """Blocks to a multiprocessor."""

    @property
    def rows(self) -> int:
        return math.prod(self.places)

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage of x."""
        return math.prod(self.box) * self.deep * WORD

    @property
    def text(self) -> str:
        """Return `4x32 positions, 64 channels`."""
        places = "x".join(map(str, (p for p in self.places if p > 1))) or "1"
        return f"{places} positions, {self.columns} channels"


def _box(needed: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return the least box that has the elements needed, with channels 8 or 24 banks apart modulo 32."""
    found = [
        (needed[0] + d, needed[1] + h, math.ceil(needed[2] / 4) * 4 + w)
        for d, h, w in itertools.product((0, 1), (0, 1), (0, 4, 8, 12))
    ]
    legal = [box for box in found if math.prod(box) % 32 in (8, 24) and max(box) <= WIDEST_BOX]
    return min(legal, key=math.prod, default=None)


def _tile(
    layer: Layer, reaches: list[Reach], places: tuple[int, int, int], columns: int, facts: Facts
) -> PlaneTile | None:
    """Return the tile of this size with as many stages as there is room for; None where it does not fit."""
    rows, last = math.prod(places), len(reaches[2].taps)
    deep = min(DEPTH, _up(layer.channels, INSTRUCTION))
    holds = rows * columns * last // (128 * GROUPS) + HELD * deep // INSTRUCTION * rows // (64 * GROUPS)
    needed = tuple((p - 1) * r.step + r.highest - r.lowest + 1 for p, r in zip(places, reaches, strict=True))
    needed = (*needed[:2], needed[2] + reaches[2].lowest % 4)  # boxes begin at 16 bytes
    if (box := _box(needed)) is None:
        return None
    staged = _up(math.prod(box) * deep * WORD, 128)
    stages_x = min(2, math.ceil(layer.channels / DEPTH))
    taps = math.prod(w.size for w in layer.windows)
    spread = WORD * max(rows * last * (columns + 8), columns * (rows * last + 4))
    most = sum(holds <= limit for limit in HOLDS)
    for resident in range(most, 0, -1):
        room = facts.shared_memory_of_each(resident)
        room -= ALIGNMENT + 16 + TAP * taps
        left = room - stages_x * (staged + BARRIERS)
        stages_w = min(MOST_STAGES, left // (columns * STAGE_ROW + BARRIERS))
        if stages_w >= STAGES and spread + BARRIERS * (stages_x + stages_w) <= room:
            return PlaneTile(places, columns, deep, box, stages_x, stages_w, resident)
    return None


def _up(extent: int, multiple: int) -> int:
    return math.ceil(extent / multiple) * multiple


def plane_tiles(layer: Layer, facts: Facts) -> Iterator[PlaneTile]:
    """Yield all tiles for a layer."""
    reaches = reaches_of(layer)
    if len(reaches[2].taps) > MOST_LAST or any(w.size > LARGEST for w in layer.windows):
        return
    wanted = legal_columns(layer, COLUMNS)
    for rows, columns in itertools.product(ROWS, wanted):
        for places in box_shapes(rows, len(layer.windows), shortest_line(layer, reaches)):
            tile = _tile(layer, reaches, places, columns, facts)
            if tile is not None and has_windows(layer, places):
                yield tile


def plane_cycles(tile: PlaneTile, layer: Layer, facts: Facts) -> float:
    """Estimate the cycles that one multiprocessor would take alone for a layer, by tiles of this size."""
    cost, card, sm = facts.cost, facts.devices[0], facts.multiprocessor
    reaches = reaches_of(layer)
    last = len(reaches[2].taps)
    outs = [math.ceil(p / len(r.taps)) for p, r in zip(widened(layer.places), reaches, strict=True)]
    blocks = math.prod(math.ceil(o / t) for o, t in zip(outs, tile.places, strict=True))
    blocks *= math.ceil(layer.rows / math.prod(layer.places)) * math.ceil(layer.outputs / tile.columns)
    blocks *= layer.groups * layer.classes // last
    chunks, parts = math.ceil(layer.channels / DEPTH), math.ceil(layer.channels / INSTRUCTION)
    taps = layer.taps * last
    products = 2 * tile.rows * tile.columns * INSTRUCTION * parts * taps / sm.flops_per_cycle(layer.compute)
    meeting = 2 if reaches[2].step % 2 == 0 else 1
    read = taps * parts * 32 * (tile.rows // 64 * tile.columns + meeting * tile.rows)
    loaded = chunks * tile.stage_bytes + taps * chunks * tile.columns * STAGE_ROW
    bandwidth = min(cost["l2_bytes_per_cycle"], cost["l2_bandwidth"] / cost["clock"] / card.multiprocessors)
    shared = (read + loaded) / cost["smem_bytes_per_cycle"]
    busy = max(products, shared, loaded / bandwidth)
    busy = max(busy, busy / GROUPS + taps * chunks * WAIT)
    stored = tile.rows * tile.columns * last * layer.element_bytes
    seen = layer.channels * tile.rows * layer.element_bytes * math.prod(r.step for r in reaches)
    memory = (stored + seen) / (card.datasheet["dram_bandwidth"] / cost["clock"] / card.multiprocessors)
    around = (
        cost["fill"] * cost["clock"] + cost["epilogue_cycles"] + stored / cost["epilogue_bytes_per_cycle"]
    )
    one = (busy + memory + around) * OVERLAPPED[tile.resident - 1] * (CLASSES if layer.classes > 1 else 1)
    one = tile.resident * max(one, busy, memory)
    waves = math.ceil(blocks / (card.multiprocessors * tile.resident))
    return waves * one * card.multiprocessors


def best_plane(layer: Layer, facts: Facts) -> PlaneTile | None:
    """Return the tile that should be fastest; None where none fits."""
    tiles = list(plane_tiles(layer, facts))
    return min(tiles, key=lambda tile: plane_cycles(tile, layer, facts), default=None)
