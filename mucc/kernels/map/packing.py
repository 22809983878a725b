"""Maps that only move a tensor (pack.cuh, pack_planes.cuh): into padded rows, parts, or another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mucc.codegen.memory import ONE, ZERO, EmissionError, Memory, Places, Product, product
from mucc.codegen.names import comment_text, string_literal
from mucc.codegen.pointwise import THREADS, Operand
from mucc.codegen.space import Space
from mucc.codegen.texts import INDICES, Entry, Texts, used_locals
from mucc.dialects.cutlass.nodes import LoadOp, StoreOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.types import TensorType, dtype_bytes, is_packed
from mucc.kernels.map.nodes import Part, StorePartsOp
from mucc.kernels.map.op import MapOp
from mucc.kernels.map.tiles import is_worth, turned_tile

MOST_PLANES = 16
"""The most elements of a pixel, with what pads it, that a thread interleaves or takes apart in registers."""
MOST_READ, MOST_WRITTEN = 48, 24
"""The most bytes of such a pixel, of one that is taken apart and of one that is interleaved.

Threads write their pieces of 16 bytes one after the other: with 48 bytes to a pixel a copy takes twice as
long as by tiles, with 24 it takes 0.6 of that (decision 109).
"""


@dataclass(frozen=True)
class Move:
    """A source and a target tensor, with strides over the axes of the map's space."""

    source: Memory
    source_strides: Sequence[Product]
    target: Memory
    target_strides: Sequence[Product]
    parts: tuple[Part, ...]
    part_stride: Product


class Planes(NamedTuple):
    """A copy that interleaves planes (`into`), or takes pixels apart: `elements` in each `pitch`."""

    elements: int
    pitch: int
    into: bool


def move_of(op: MapOp, places: Places) -> Move | None:
    """Return the copy that a map does; None if it computes, or if a plain map copies as fast."""
    match list(op.nodes):
        case [LoadOp() as load, (StoreOp() | StorePartsOp()) as store] if store.value is load.result:
            pass
        case _:
            return None
    source, target = load.source.type, store.destination.type
    if not isinstance(source, TensorType) or view_of(load.source).rows is not None:
        return None
    if not isinstance(target, TensorType) or source.element_type != target.element_type:
        return None
    if is_packed(target.element_type):
        return None
    memory, axes = places.view(load.source, op.extents)
    if memory.windows or any(stride.factor < 0 for stride in memory.strides):
        return None
    given = [ZERO if axis.extent == 1 else axis.stride for axis in axes]
    parts: tuple[Part, ...] = ()
    if isinstance(store, StorePartsOp):
        parts = store.kinds
        found = places.find(store.destination)
        if not isinstance(found, Memory):
            raise EmissionError("parts of numbers are stored in memory")
        *outer, part, last = found.strides
        return Move(memory, given, found, [*outer, last], parts, part)
    found, axes = places.view(store.destination, op.extents)
    move = Move(memory, given, found, [ZERO if a.extent == 1 else a.stride for a in axes], parts, ZERO)
    return move if _gains(move, [places.extent(d) for d in op.extents]) else None


def _gains(move: Move, extents: Sequence[Product]) -> bool:
    """Whether a copy gains by mucc/pack.cuh: a tensor's rows are padded, or large matrices transposed."""
    if move.source.type.layout.padding > 1 or move.target.type.layout.padding > 1:
        return True
    if ONE not in move.source_strides or ONE not in move.target_strides:
        return False
    lines, turned = _lines(move, extents)
    rows, columns = (product([extents[a] for a in line]) for line in lines[-2:])
    tile = turned_tile(rows, columns, {dtype_bytes(move.target.type.element_type)})
    return turned and is_worth(tile, rows, columns)


def planes_of(move: Move, extents: Sequence[Product]) -> Planes | None:
    """Return the few planes that a copy interleaves or takes apart; None for another copy."""
    lines, turned = _lines(move, extents)
    if not turned or move.parts:
        return None
    is_padded = move.target.type.layout.padding > 1
    item = dtype_bytes(move.target.type.element_type)
    for line, other, strides in (
        (lines[-1], lines[-2], move.target_strides),
        (lines[-2], lines[-1], move.source_strides),
    ):
        count, pitch = product([extents[a] for a in line]), strides[other[-1]] if other else ONE
        into = line is lines[-1]
        is_whole = count == pitch or is_padded if into else not is_padded
        most = min(MOST_PLANES, (MOST_WRITTEN if into else MOST_READ) // item)
        if count.names or pitch.names or not count.factor <= pitch.factor <= most:
            continue
        if is_whole:
            return Planes(count.factor, pitch.factor, into)
    return None


def pack_texts(op: MapOp, places: Places, entry: str, move: Move) -> Texts:
    """Return the C++ of a kernel that moves a tensor, in parts."""
    extents = [places.extent(d) for d in op.extents]
    lines, turned = _lines(move, extents)
    check_move(move, turned, lines)
    return _texts(op, places, entry, move, turned, extents, lines, planes_of(move, extents))


def _lines(move: Move, extents: Sequence[Product]) -> tuple[list[list[int]], bool]:
    """Return the axes of the kernel, each merged from axes of the map, and whether it transposes.

    The output is contiguous along the last one, which is empty where rows of the output have one element. In
    a transpose the source is contiguous along the last but one.
    """
    axes = [i for i, e in enumerate(extents) if not e.is_one]
    last = next((i for i in reversed(axes) if move.target_strides[i].is_one), None)
    along = next((i for i in axes if i != last and move.source_strides[i].is_one), None)
    turned = last is not None and along is not None and not move.source_strides[last].is_one

    def is_around(axis: int, line: Sequence[int]) -> bool:
        """Whether a step along an axis is the whole of a line of axes, in both tensors."""
        whole = product([extents[a] for a in line])
        return all(s[axis] == s[line[-1]] * whole for s in (move.source_strides, move.target_strides))

    sides: list[list[int]] = [[a] for a in (along if turned else None, last) if a is not None]
    rest = [a for a in axes if a not in (last, along if turned else None)]
    for side in sides:
        while (found := next((a for a in rest if is_around(a, side)), None)) is not None:
            side.insert(0, found)
            rest.remove(found)
    source = Operand("from", move.source, [move.source_strides[a] for a in rest])
    target = Operand("to", move.target, [move.target_strides[a] for a in rest])
    runs = Space([extents[a] for a in rest], [list(range(len(rest)))]).merge([source, target])[0]
    lines = [*([rest[i] for i in run] for run in runs if run), *sides]
    if last is None:
        lines.append([])
    return [*([[]] * max(0, 2 - len(lines))), *lines], turned


def check_move(move: Move, turned: bool, lines: Sequence[Sequence[int]]) -> None:
    """Raise EmissionError if a tensor is not contiguous along the axis that the kernel copies along."""

    def contiguous(strides: Sequence[Product], line: Sequence[int]) -> bool:
        return not line or strides[line[-1]].is_one

    if not contiguous(move.target_strides, lines[-1]):
        raise EmissionError(
            f"{move.target.name} is not contiguous along the last axis of the map that packs it"
        )
    if turned and not (lines[-2] and contiguous(move.source_strides, lines[-2])):
        raise EmissionError(f"{move.source.name} is not contiguous along the axis that becomes rows")


def _texts(
    op: MapOp,
    places: Places,
    entry: str,
    move: Move,
    turned: bool,
    extents: Sequence[Product],
    lines: Sequence[Sequence[int]],
    planes: Planes | None,
) -> Texts:
    bits = 8 * dtype_bytes(move.target.type.element_type)
    sizes = [product([extents[a] for a in line]) for line in lines]
    tile: list[str] = []
    if planes:
        tile = [
            f"  static constexpr int kPlanes = {planes.elements}, kPitch = {planes.pitch};",
            f"  static constexpr bool kInto = {str(planes.into).lower()};",
        ]
    elif turned:
        of = turned_tile(sizes[-2], sizes[-1], {bits // 8})
        tile = [f"  static constexpr int kDown = {of.down}, kAcross = {of.across};"]
    padded = move.target.type.layout.padding > 1
    low = sum(1 << i for i, part in enumerate(move.parts) if part is Part.LOW)

    def strides(of: Sequence[Product]) -> str:
        return ", ".join(str(of[line[-1]] if line else ZERO) for line in lines)

    data = [
        "struct Op {",
        f"  static constexpr int kRank = {len(lines)}, kThreads = {THREADS}, kParts = {len(move.parts)};",
        f"  static constexpr unsigned kLow = {low};",
        f"  static constexpr bool kPadded = {str(padded).lower()}, kTurned = {str(turned).lower()};",
        *tile,
        f"  using Bits = mucc::BitsOf<{bits // 8}>::Type;",
        "",
        f"  Bits const* from;  // {comment_text(f'{move.source.name}: {move.source.type}')}",
        "  Bits const* end;",
        "  int64_t from_stride[kRank];",
        f"  Bits* to;  // {comment_text(f'{move.target.name}: {move.target.type}')}",
        "  int64_t to_stride[kRank];",
        "  int64_t part;",
        "};",
    ]
    begin = move.source.data(f"uint{bits}_t")
    last = [
        f"({extents[a]} - 1) * {move.source_strides[a]}"
        for a in range(len(extents))
        if not extents[a].is_one and not move.source_strides[a].is_zero
    ]
    values = [
        begin,
        " + ".join([begin, *last, "1"]),
        f"{{{strides(move.source_strides)}}}",
        move.target.data(f"uint{bits}_t"),
        f"{{{strides(move.target_strides)}}}",
        str(move.part_stride),
    ]
    function = "planes" if planes else "turned" if turned else "rows"
    launcher = "launch_pack_planes" if planes else "launch_pack"
    entries = [
        Entry(
            f"{entry}_pack{suffix}",
            f"Op const op, mucc::Extents<Op::kRank> const extents, {index} many, {index} across",
            f"mucc::pack_{function}(op, extents, many, across)",
        )
        for suffix, index in INDICES
    ]
    stage = string_literal(op.stage.data)
    launch = [
        "int run(mucc::Call const& c) {",
        *used_locals(places, *values, *(str(size) for size in sizes)),
        "  Op const op{",
        *(f"      {value}," for value in values),
        "  };",
        f"  return mucc::{launcher}(c, {stage}, codes, op, {{{{{', '.join(map(str, sizes))}}}}});",
        "}",
    ]
    return Texts("\n".join(data), [], "", entries, "\n".join(launch))
