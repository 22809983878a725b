"""Tiles of convolutions that read taps from a patch of x in shared memory, and which is the best one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.layer import Layer
from mucc.target.facts import Facts

THREADS = 256
SHORTEST = 32
"""The least extent of tiles along the last axis where results are long enough; lines of 8 take longer."""

ROWS = (128, 256)
COLUMNS = (8, 16, 32, 64, 96, 128)
SUMS = 64
"""Sums of a thread that leave registers for everything else, where a multiprocessor has two blocks."""

PANEL = 64
"""Places along K whose weights are staged at a time, where not all fit."""

RESIDENT = 48 * 1024
"""The most bytes of weights that a block keeps."""

STAGED = 56 * 1024
"""The most bytes of x that a block stages at a time."""

WORD = 4
MOST_CLASSES = 32
"""The most classes of outputs of a transposed convolution that a block computes."""

AXES = 3

# Costs of an element in instructions of a thread: fitted to layers measured on an H200.
LOADED, LOADED_VECTOR, LOADED_WEIGHT = 60, 7, 12
STORED, STORED_VECTOR = 40, 6
LATENCY = 1600
"""Cycles in which what a block stages arrives."""
ALONE = 1.5
"""How much longer a block takes that nothing else of its multiprocessor computes beside."""
SHARE = 0.33
"""What blocks reach of the rate of mma.sync (likewise)."""


class Reach(NamedTuple):
    """What the outputs of a class read along one axis: see PatchShape in mucc/conv.h."""

    lowest: int
    highest: int
    step: int
    taps: tuple[int, ...]
    """Taps of each class."""


def reach(window: Window, transposed: bool) -> Reach:
    """Return what outputs read along an axis, from the first one's position on."""
    if not transposed:
        reads = [i * window.dilation - window.pad for i in range(window.size)]
        return Reach(reads[0], reads[-1], window.stride, (window.size,))
    counts, all_reads = list[int](), list[int]()
    for residue in range(window.stride):
        at = [residue + window.pad - i * window.dilation for i in range(window.size)]
        reads = [i // window.stride for i in at if i % window.stride == 0]
        counts.append(len(reads))
        all_reads += reads
    return Reach(min(all_reads), max(all_reads), 1, tuple(counts))


class PatchTile(NamedTuple):
    """Outputs of a class along three axes and channels of the result that a block computes, and how."""

    places: tuple[int, int, int]
    columns: int
    warps: int
    """Warps next to each other along columns."""
    chunk: int
    """Channels of x that are staged at a time."""
    panel: int
    is_resident: bool
    is_whole: bool
    """Whether all channels of a group are one chunk."""
    shared: int
    """Bytes of shared memory."""
    together: int
    """Blocks to a multiprocessor."""
    pooled: int = 0
    """Bytes of shared memory for windows of a pool, of which classes are computed one after the other."""

    @property
    def rows(self) -> int:
        return math.prod(self.places)

    @property
    def text(self) -> str:
        """Return `4x32 positions, 64 channels`."""
        places = "x".join(map(str, (p for p in self.places if p > 1))) or "1"
        return f"{places} positions, {self.columns} channels"


def _pitch(extent: int) -> int:
    """Round up to a pitch whose rows are eight banks apart."""
    return (extent + 23) // 32 * 32 + 8


def _up(extent: int, multiple: int) -> int:
    return math.ceil(extent / multiple) * multiple


def widened(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return a number for each of the kernels' axes; those that a program lacks are of extent 1."""
    return (1,) * (AXES - len(numbers)) + numbers


def reaches_of(layer: Layer) -> list[Reach]:
    """Return what outputs read along each of the kernels' axes."""
    lacking = [Window(1)] * (AXES - len(layer.windows))
    return [reach(w, layer.transposed) for w in (*lacking, *layer.windows)]


def _tile(
    layer: Layer, reaches: list[Reach], places: tuple[int, int, int], columns: int, facts: Facts, along: bool
) -> PatchTile | None:
    """Return the tile of this size with as much staged as there is room for; None where it does not fit."""
    rows, last = math.prod(places), len(reaches[2].taps)
    if rows * columns * last > SUMS * THREADS:
        return None
    warps = _warps(rows, columns)
    lines = [(p - 1) * r.step + r.highest - r.lowest + 1 for p, r in zip(places, reaches, strict=True)]
    pitch = _pitch(lines[0] * lines[1] * _up(lines[2] + reaches[2].lowest % 4, 4))
    chunk = min(layer.channels, STAGED // (WORD * pitch))
    if chunk < 1:
        return None
    taps = [math.prod(c) for c in itertools.product(*(r.taps for r in reaches))]
    chunk = math.ceil(layer.channels / math.ceil(layer.channels / chunk))
    is_whole = layer.channels_known and chunk == layer.channels
    depths = sum(_up(t * chunk, 8) for t in taps)
    width = WORD * _pitch(columns)
    is_resident = is_whole and depths * width <= RESIDENT
    panel = min(PANEL, _up(max(taps) * chunk, 8))
    out = (rows * last * (columns + 8) if along else columns * (rows * last + 4)) * WORD
    front = _up(max(chunk * pitch * WORD, out), 128)
    pooled = _pooled_bytes(layer, rows * last, columns)
    shared = front + (depths if is_resident else panel) * width + 8 * (depths + len(taps)) + pooled
    room = facts.multiprocessor.blocks_with(shared)
    few = rows * columns * last <= SUMS // 2 * THREADS
    together = min(room, 3 if few else 2)
    if shared > facts.limits.shared_memory or together < 1:
        return None
    return PatchTile(places, columns, warps, chunk, panel, is_resident, is_whole, shared, together, pooled)


def _warps(rows: int, columns: int) -> int:
    """Return the warps along columns with which the least is read from shared memory."""
    count = THREADS // 32
    legal = [n for n in (1, 2, 4, 8) if columns % (8 * n) == 0 and rows % (16 * (count // n)) == 0]
    return min(legal, key=lambda n: 4 * (rows * n / count / 16) + 2 * (columns / n / 8))


def box_shapes(rows: int, axes: int, shortest: int) -> Iterator[tuple[int, int, int]]:
    """Yield extents along three axes whose product is `rows`, the last one no less than `shortest`."""
    powers = [2**i for i in range(rows.bit_length())]
    for d, h in itertools.product(powers if axes > 2 else [1], powers if axes > 1 else [1]):
        if d * h * shortest <= rows:
            yield d, h, rows // (d * h)


def shortest_line(layer: Layer, reaches: list[Reach]) -> int:
    """Return the least extent of tiles along the last axis."""
    last = math.ceil((layer.places or (1,))[-1] / len(reaches[2].taps))
    return next((n for n in (8, 16) if last <= n), SHORTEST)


def has_windows(layer: Layer, places: Sequence[int]) -> bool:
    """Whether a tile of outputs has whole windows of the pool behind a layer."""
    parts, last = class_windows(layer), len(reaches_of(layer)[2].taps)
    extents = (places[0], places[1], places[2] * last)
    return all(part > 0 and extent % part == 0 for part, extent in zip(parts, extents, strict=True))


def class_windows(layer: Layer) -> tuple[int, ...]:
    """Return how much of a pool's window is one class of outputs, along three axes: 0 where classes differ.

    All classes along the last axis count as one.
    """
    sizes = widened(layer.pooled) if layer.pooled else (1,) * AXES
    if not layer.pooled or not layer.transposed:
        return sizes
    strides = widened(tuple(w.stride for w in layer.windows))
    strides = (*strides[:2], 1)
    return tuple(0 if size % step else size // step for size, step in zip(sizes, strides, strict=True))


def _pooled_bytes(layer: Layer, places: int, columns: int) -> int:
    """Return the bytes of pooled values of a tile that are kept from one class of outputs to the next."""
    parts = class_windows(layer)
    if not layer.pooled or math.prod(widened(layer.pooled)) == math.prod(parts) or 0 in parts:
        return 0
    return places // math.prod(parts) * columns * WORD


def legal_columns(layer: Layer, columns: Sequence[int]) -> list[int]:
    """Return the columns of tiles that suit a layer; where channels are reduced those that have all."""
    least = layer.outputs if layer.reduced else 1
    return [n for n in columns if least <= n <= _up(max(1, layer.outputs), 32)]


def patch_tiles(layer: Layer, facts: Facts, along: bool) -> Iterator[PatchTile]:
    """Yield all tiles for a layer; `along` says that results are adjacent along their channels."""
    if layer.classes > MOST_CLASSES:
        return
    reaches = reaches_of(layer)
    shortest = shortest_line(layer, reaches)
    wanted = legal_columns(layer, COLUMNS)
    for rows, columns in itertools.product(ROWS, wanted):
        for places in box_shapes(rows, len(layer.windows), shortest):
            tile = _tile(layer, reaches, places, columns, facts, along)
            if tile is not None and has_windows(layer, places):
                yield tile


def patch_cycles(tile: PatchTile, layer: Layer, facts: Facts) -> float:
    """Estimate the cycles that one multiprocessor would take alone for a layer, by tiles of this size."""
    sm, reaches = facts.multiprocessor, reaches_of(layer)
    outs = [math.ceil(p / len(r.taps)) for p, r in zip(widened(layer.places), reaches, strict=True)]
    tiles = math.prod(math.ceil(o / t) for o, t in zip(outs, tile.places, strict=True))
    tiles *= math.ceil(layer.rows / math.prod(layer.places))
    columns = math.ceil(layer.outputs / tile.columns)
    blocks = tiles * columns * layer.groups
    lines = [(p - 1) * r.step + r.highest - r.lowest + 1 for p, r in zip(tile.places, reaches, strict=True)]
    depth = sum(_up(math.prod(c) * tile.chunk, 8) for c in itertools.product(*(r.taps for r in reaches)))
    chunks = math.ceil(layer.channels / tile.chunk)
    rate = sm.flops_per_cycle("tf32") * sm.mma_sync_share * SHARE
    products = 2 * tile.rows * tile.columns * depth * chunks / rate
    vectors = layer.vectors
    rounds = len(reaches[0].taps) * len(reaches[1].taps)
    loads = math.prod(lines) * layer.channels * rounds * (LOADED_VECTOR if vectors else LOADED)
    if not tile.is_resident:
        loads += depth * chunks * tile.columns * LOADED_WEIGHT
    stores = tile.rows * tile.columns * layer.classes
    stores *= STORED_VECTOR if layer.places[-1] % 4 == 0 else STORED
    one = products + (loads + stores) / LANES + LATENCY * (1 + chunks * rounds) / tile.together
    if tile.together == 1:
        one *= ALONE
    waves = math.ceil(blocks / (facts.devices[0].multiprocessors * tile.together)) * tile.together
    return waves * one * facts.devices[0].multiprocessors


LANES = 128
"""Instructions of threads that a multiprocessor issues in a cycle."""


def best_patch(layer: Layer, facts: Facts, *, along: bool) -> PatchTile | None:
    """Return the tile that should be fastest; None where none fits."""
    tiles = list(patch_tiles(layer, facts, along))
    return min(tiles, key=lambda tile: patch_cycles(tile, layer, facts), default=None)
