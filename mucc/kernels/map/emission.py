"""C++ of pointwise kernels: they compute (map.cuh, map_tiles.cuh, map_planes.cuh) or only move."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

from xdsl.ir import Operation

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places, Product, product
from mucc.codegen.names import words
from mucc.codegen.pointwise import THREADS, Operand, Parts, Pointwise
from mucc.codegen.texts import INDICES, Entry, Texts
from mucc.dialects.mu.types import PACKED, dtype_bytes
from mucc.kernels.map.nodes import ScatterStoreOp
from mucc.kernels.map.op import MapOp
from mucc.kernels.map.packing import Move, pack_texts, planes_of
from mucc.kernels.map.tiles import TurnedTile, is_worth, turned_tile

MOST_SHARED = 40 << 10
"""Bytes of tiles of a block, of the 48 KiB that every kernel may have."""


MOST_PIXELS = 96
"""Bytes of pixels that a thread keeps in registers, of all operands."""


class Tiling(NamedTuple):
    """How a pointwise kernel reads operands that are contiguous along another axis than its last one.

    It has that axis, the operands, and the tiles in shared memory by which they are turned. With `planes` the
    axis has so few places that threads keep all of them in registers, without tiles, also those of `results`.
    """

    axis: int
    operands: tuple[Operand, ...]
    tile: TurnedTile
    planes: int = 0
    results: tuple[Operand, ...] = ()

    @property
    def form(self) -> str:
        return "map_planes" if self.planes else "map_tiles"


class MapWork(Pointwise):
    """The text of a kernel of mucc/map.cuh, or of mucc/map_tiles.cuh."""

    members = words("Tiles tiles space kTurned kDown kAcross kPlanes")

    def node(self, node: Operation) -> None:
        if isinstance(node, ScatterStoreOp):
            self.store(node, self.scattered_output(node))
        else:
            super().node(node)

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        return [range(len(self.space))]

    def merged(self) -> list[list[list[int]]]:
        """Return the merged axes, pixels last where threads compute whole pixels of results."""
        (axes,) = super().merged()
        if (pixels := self._pixels_of_results(axes)) is None:
            return [axes]
        return [[*(run for run in axes[:-1] if run is not axes[pixels]), axes[-1], axes[pixels]]]

    def _pixels_of_results(self, axes: Sequence[Sequence[int]]) -> int | None:
        """Return the axis along which all results have pixels of few elements, and some operand planes."""
        planes = product([self.extents[a] for a in axes[-1]])
        if planes.names or planes.is_one or planes.factor % self.widest == 0:
            return None
        if not self._are_plain(self.loads):
            return None
        strides = {o.member: self._merged_strides(o, axes) for o in (*self.loads, *self.outputs)}

        def is_whole(operand: Operand, axis: int) -> bool:
            of = strides[operand.member]
            return of[-1].is_one and of[axis] == planes

        for axis, run in enumerate(axes[:-1]):
            if any(o.rows or o.memory.type.dtype in PACKED or not is_whole(o, axis) for o in self.outputs):
                continue
            whole = [o for o in self.loads if is_whole(o, axis)]
            rest = [strides[o.member][axis] for o in self.loads if o not in whole]
            if not any(s.is_one for s in rest) or not all(s.is_one or s.is_zero for s in rest):
                continue
            room = planes.factor * self.widest * sum(map(_bytes, (*whole, *self.outputs)))
            rows = product([self.extents[a] for a in run])
            tile = turned_tile(rows, planes, {_bytes(o) for o in self.outputs})
            return axis if room <= MOST_PIXELS and is_worth(tile, rows, planes) else None
        return None

    def _are_plain(self, operands: Sequence[Operand]) -> bool:
        """Whether operands are read at each place, and neither count nor name rows."""
        loaded = {statement.partition(" = ")[2] for statement in self.statements}
        return all(
            f"mucc::load<V>({o.member}, p);" in loaded
            and not (o.bounds or o.is_single or o.memory.type.dtype in PACKED)
            for o in operands
        )

    @cached_property
    def tiling(self) -> Tiling | None:
        """The operands that go by tiles: of those contiguous along another axis than the last, most bytes."""
        axes = [run for group in self.merged() for run in group]
        if axes and axes[-1] != super().merged()[0][-1]:
            planes = product([self.extents[a] for a in axes[-2]])
            whole = tuple(o for o in self.loads if self._merged_strides(o, axes)[-1] == planes)
            tile = turned_tile(planes, planes, {_bytes(o) for o in self.outputs})
            return Tiling(len(axes) - 2, whole, tile, planes.factor, tuple(self.outputs))
        loaded = {statement.partition(" = ")[2] for statement in self.statements}
        paired = {member for pair in _pairs(self, self.loads, axes) for member in pair}
        found: dict[int, list[Operand]] = {}
        for operand in self.loads:
            if operand.member in paired or f"mucc::load<V>({operand.member}, p);" not in loaded:
                continue  # it counts, or names rows
            if (axis := self._turned_axis(operand, axes)) is not None:
                found.setdefault(axis, []).append(operand)
        if not found:
            return None
        axis, operands = max(found.items(), key=lambda item: sum(map(_bytes, item[1])))
        sides = [product([self.extents[a] for a in axes[i]]) for i in (axis, -1)]
        tile = turned_tile(sides[0], sides[1], {_bytes(operand) for operand in operands})
        if not is_worth(tile, sides[0], sides[1]):
            return None
        if self._are_pixels(operands, axes, sides[0]):
            return Tiling(axis, tuple(operands), tile, sides[0].factor)
        room = itertools.accumulate(tile.bytes_of(_bytes(operand)) for operand in operands)
        fitting = [operand for operand, used in zip(operands, room, strict=True) if used <= MOST_SHARED]
        return Tiling(axis, tuple(fitting), tile)

    def _are_pixels(
        self, operands: Sequence[Operand], axes: Sequence[Sequence[int]], planes: Product
    ) -> bool:
        """Whether operands that are contiguous along the planes have pixel after pixel."""
        if planes.names or any(self._merged_strides(o, axes)[-1] != planes for o in operands):
            return False
        return planes.factor * self.widest * sum(map(_bytes, operands)) <= MOST_PIXELS

    def _turned_axis(self, operand: Operand, axes: Sequence[Sequence[int]]) -> int | None:
        """Return the axis along which an operand is contiguous if it is not the last one."""
        strides = self._merged_strides(operand, axes)
        if operand.bounds or operand.is_single or operand.memory.type.dtype in PACKED:
            return None
        if strides[-1].is_one or strides[-1].is_zero or any(stride.factor < 0 for stride in strides):
            return None
        return next((axis for axis, stride in enumerate(strides) if stride.is_one), None)

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        axes = [run for group in self.merged() for run in group]
        rank = len(axes)
        tiling = self.tiling
        statements = self._paired_loads(axes)
        if tiling is not None:
            members = "|".join(operand.member for operand in tiling.operands)
            load = re.compile(rf"mucc::load<V>\(({members}), p\)")
            statements = [load.sub(r"p.tiles->\1.template load<V>(p)", s) for s in statements]
        stores: list[str] = []
        results = {o.member: result for o, result in zip(self.outputs, self.results, strict=True)}
        for first, second in _pairs(self, self.outputs, axes):
            self.pairs[first] = second
            stores.append(f"    mucc::store_two({first}, p, {results[first]}, {results[second]});")
        stored = {*self.pairs, *self.pairs.values()}
        for o, result in zip(self.outputs, self.results, strict=True):
            if o.member in stored:
                continue
            if tiling is not None and o in tiling.results:
                stores.append(f"    p.tiles->{o.member}.keep(p, {result});")
                continue
            how = f"_rows({o.member}, {o.rows.index}" if o.rows else f"({o.member}"
            stores.append(f"    mucc::store{how}, p, {result});")
        return self.assemble(
            Parts(
                fast=rank - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {self.widest}, kThreads = {THREADS};",
                    f"static constexpr uint32_t kKnown[] = {{{self.known(axes)}}};",
                    *_tile_constants(tiling),
                ],
                work=[
                    *_tiles(tiling),
                    "  template <int V, class P>",
                    "  MUCC_DEVICE void run(P const& p) const {",
                    *(f"    {s}" for s in statements),
                    *stores,
                    "  }",
                ],
                entries=_entries(entry, "map" if tiling is None else tiling.form),
                launcher="launch_map" if tiling is None else f"launch_{tiling.form}",
            )
        )

    def _paired_loads(self, axes: Sequence[Sequence[int]]) -> list[str]:
        """Return the statements, with one load for each pair of operands that alternate in memory."""
        statements = list(self.statements)
        for first, second in _pairs(self, self.loads, axes):
            texts = [f" = mucc::load<V>({member}, p);" for member in (first, second)]
            lines = [next((s for s in statements if s.endswith(text)), None) for text in texts]
            if lines[0] is None or lines[1] is None:
                continue
            self.pairs[first] = second
            names = [line.split()[2] for line in lines if line is not None]
            at = min(statements.index(line) for line in lines if line is not None)
            statements.insert(at, f"auto const [{names[0]}, {names[1]}] = mucc::load_two<V>({first}, p);")
            statements = [s for s in statements if s not in lines]
        return statements


def _pairs(
    work: MapWork, operands: Sequence[Operand], axes: Sequence[Sequence[int]]
) -> list[tuple[str, str]]:
    """Return pairs of operands whose elements alternate in memory, each by the name of its member."""
    found: list[tuple[str, str]] = []
    for first, second in permutations(operands, 2):
        taken = {member for pair in found for member in pair}
        if not {first.member, second.member} & taken and work.alternate(first, second, axes, len(axes) - 1):
            found.append((first.member, second.member))
    return found


def _bytes(operand: Operand) -> int:
    return dtype_bytes(operand.memory.type.element_type)


def _tile_constants(tiling: Tiling | None) -> list[str]:
    if tiling is None:
        return []
    if tiling.planes:
        return [f"static constexpr int kTurned = {tiling.axis}, kPlanes = {tiling.planes};"]
    return [
        f"static constexpr int kTurned = {tiling.axis}, "
        f"kDown = {tiling.tile.down}, kAcross = {tiling.tile.across};"
    ]


def _tiles(tiling: Tiling | None) -> list[str]:
    """Return the tiles and the function of `Work` that fills them from a place on; the host knows neither."""
    if tiling is None:
        return []
    if tiling.planes:
        tile, read, template, given = "Pixels", "template read<V>({0}, p)", "int V, class P", "P const& p"
        sides = "kPlanes, kVector"
    else:
        tile, read, template = "Tile", "read<kThreads, kTurned>({0}, space, p)", "class P"
        given, sides = "mucc::Extents<kRank> const& space, P const& p", "kDown, kAcross"
    tiles = [f"mucc::Operand{tile}<{o.element}, {sides}> {o.member};" for o in tiling.operands]
    reads = [f"tiles.{o.member}.{read.format(o.member)};" for o in tiling.operands]
    tiles += [f"mucc::ResultPixels<{o.element}, {sides}> {o.member};" for o in tiling.results]
    writes = [f"tiles.{o.member}.template write<V>({o.member}, p);" for o in tiling.results]
    finish = [
        f"  template <{template}>",
        f"  MUCC_DEVICE void finish(Tiles const& tiles, {given}) const {{",
        *(f"    {write}" for write in writes),
        "  }",
    ]
    return [
        "  struct Tiles {",
        *(f"    {tile}" for tile in tiles),
        "  };",
        f"  template <{template}>",
        f"  MUCC_DEVICE void fill(Tiles& tiles, {given}) const {{",
        *(f"    {read}" for read in reads),
        "  }",
        *(finish if tiling.planes else []),
    ]


def _entries(entry: str, function: str) -> list[Entry]:
    return [
        Entry(
            f"{entry}_map{width}{suffix}",
            f"Work const op, mucc::Extents<Op::kRank> const extents, {index} total",
            f"mucc::{function}<{vector}>(op, extents, total)",
            when=f"mucc::may_map<Op>({vector}, {is_wide})",
        )
        for width, vector in (("", "1"), ("_vector", "Op::kVector"))
        for is_wide, (suffix, index) in zip(("false", "true"), INDICES, strict=True)
    ]


class MapCode(LightCode):
    """A kernel of mucc/map.cuh."""

    HEADER = "mucc/map.cuh"
    LAUNCH_HEADER = "mucc/map_launch.h"

    def __init__(self, op: MapOp, places: Places):
        self.op, self.places = op, places

    @cached_property
    def work(self) -> MapWork:
        return MapWork(self.op, self.op.extents, self.places)

    @property
    def device_header(self) -> str:
        tiling = self.work.tiling
        return self.HEADER if tiling is None else f"mucc/{tiling.form}.cuh"

    @property
    def light_headers(self) -> tuple[str, ...]:
        return (MapCode.HEADER, PackCode.HEADER, self.device_header)

    def summary(self) -> str:
        return f"map of [{', '.join(map(str, self.op.extents))}]"

    def texts(self, entry: str) -> Texts:
        return self.work.texts(entry)


class PackCode(MapCode):
    """A kernel of mucc/pack.cuh, or of mucc/pack_planes.cuh."""

    HEADER = "mucc/pack.cuh"
    PLANES_HEADER = "mucc/pack_planes.cuh"

    def __init__(self, op: MapOp, places: Places, move: Move):
        super().__init__(op, places)
        self.move = move

    @property
    def device_header(self) -> str:
        extents = [self.places.extent(d) for d in self.op.extents]
        return self.PLANES_HEADER if planes_of(self.move, extents) else self.HEADER

    def texts(self, entry: str) -> Texts:
        return pack_texts(self.op, self.places, entry, self.move)
