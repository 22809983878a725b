"""C++ of pooling kernels (mucc/pool.cuh)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from mucc.codegen.across import AcrossWork
from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import Places
from mucc.codegen.pointwise import THREADS, Operand, Parts
from mucc.codegen.space import Space
from mucc.codegen.texts import INDICES, Entry, Texts
from mucc.dialects.mu.pooling_kinds import Pooling
from mucc.dialects.mu.types import Dim
from mucc.dialects.mu.windows import Window
from mucc.kernels.pool.op import PoolKernelOp

TILE = 4096
"""Floats of shared memory in which a block keeps parts of rows."""

_MOST_ROWS = 128
"""The most rows of which a block keeps parts."""

_RUN = 4
"""Results that a thread computes along an axis where windows overlap."""


class PoolCode(LightCode):
    """A kernel of mucc/pool.cuh."""

    HEADER = "mucc/pool.cuh"
    LAUNCH_HEADER = "mucc/pool_launch.h"

    def __init__(self, op: PoolKernelOp, places: Places):
        self.op, self.places = op, places

    def summary(self) -> str:
        sizes = ", ".join(str(w.size) for w in self.op.windows.values())
        extents = ", ".join(map(str, self.op.extents))
        return f"{self.op.kind.data.value} pool of [{extents}] by windows of [{sizes}]"

    def texts(self, entry: str) -> Texts:
        return PoolWork(self.op, self.places).texts(entry)


class PoolWork(AcrossWork):
    """The C++ of a pooling kernel: the pointwise work before the pooling, the pooling, the work behind it."""

    def __init__(self, op: PoolKernelOp, places: Places):
        self.pool = op
        last = self.last = max(op.windows)
        # An axis whose windows are single elements is like one without.
        moving = {axis: w for axis, w in op.windows.items() if (w.size, w.stride, w.pad) != (1, 1, 0)}
        self.windows = moving or {last: op.windows[last]}
        super().__init__(op, op.extents, self.windows, places)

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        kept = [axis for axis in range(len(self.space)) if axis not in self.windows]
        return [kept, *([axis] for axis in self.windows)]

    def merged(self) -> list[list[list[int]]]:
        """Return the kernel's merged axes by group; one with windows stays, even if it has one position."""
        source = {axis: self.places.extent(self.pool.source_extents[axis]) for axis in self.windows}
        extents = [source.get(axis, extent) for axis, extent in enumerate(self.extents)]
        return Space(extents, self.groups).merge([*self.loads, *self.outputs])

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        kept, *_ = self.merged()
        rank = len(kept) + len(self.windows)
        source = ", ".join(str(self.places.extent(self.pool.source_extents[axis])) for axis in self.windows)
        along_row = not self._are_adjacent(kept[-1])
        strips = self._strips() if along_row else None
        if strips:
            form, vector = "strips", strips.vector
            more, entries = strips.constants(), _strips(entry, vector > 1)
        elif is_row := along_row and self._fits():
            form, vector = "rows", self._vector(kept[-1], is_row)
            more, entries = self._tile(), _rows(entry)
        else:
            form, vector = "columns", self._vector(kept[-1], is_row)
            more, entries = self._run(len(kept), vector > 1), _columns(entry, vector > 1)
        is_row = form != "columns"
        return self.assemble(
            Parts(
                fast=rank - 1 if is_row or vector == 1 else len(kept) - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {vector}, kThreads = {THREADS};",
                    f"static constexpr int kKept = {len(kept)}, kPooled = {len(self.windows)};",
                    *self._windows(),
                    *more,
                ],
                work=self._work(),
                entries=entries,
                launcher=f"launch_pool_{form}",
                arguments=[f"{{{{{source}}}}}"],
                free_outputs=strips.is_loose if strips else is_row,
                free_loads=self._behind() if is_row else (),
                output_vector="Op::kOutputs" if strips else "Op::kVector",
            )
        )

    def _strips(self) -> Strips | None:
        """Return how threads compute neighbouring results of several rows; None if windows are too large."""
        windows = [*self.windows.values()]
        *before, last = windows
        if self.last not in self.windows or not all(_is_small(w) for w in windows):
            return None
        columns, places = self.pool.source_extents[self.last], self.space[self.last]
        vector = self.widest
        while vector > 1 and isinstance(columns, int) and columns % vector:
            vector //= 2
        if vector > 1 and vector % last.stride:
            return None
        outputs = vector // last.stride if vector > 1 else 1
        rows = self.space[list(self.windows)[-2]] if before else 1
        run = _run_of(before[-1], rows, outputs) if before else 1
        has_tail = not (isinstance(rows, int) and rows % run == 0)
        if vector > 1 and not _pays(windows, vector, outputs, run):
            return None
        is_loose = outputs > 1 and not (isinstance(places, int) and places % outputs == 0)
        return Strips(vector, outputs, run, is_loose, has_tail)

    # How tensors lie in memory

    def _before(self) -> list[Operand]:
        """Return the tensors that are read to compute what is pooled."""
        return self.loads_for([self.pool.pooled.value])

    def _behind(self) -> list[str]:
        """Return the members of tensors that are read for results alone."""
        before = self._before()
        return [o.member for o in self.loads if o not in before]

    def _are_adjacent(self, axes: Sequence[int]) -> bool:
        """Whether more tensors are contiguous along the last of `axes` than along the space's last axis.

        Those that are pooled decide, and where they are equally many the outputs.
        """
        if not axes:
            return False
        for operands in (self._before(), self.outputs):
            here, last = (sum(o.strides[a].is_one for o in operands) for a in (axes[-1], self.last))
            if here != last or axes[-1] == self.last:
                return here > 0 and here >= last
        return False

    def _fits(self) -> bool:
        """Whether the windows of neighbouring results along the last axis fit into shared memory."""
        window = self.windows.get(self.last)
        return window is not None and window.reach + self.widest * (window.stride + 2) <= TILE

    def _vector(self, kept: Sequence[int], is_row: bool) -> int:
        """Return the elements per vector, which divide the extent that threads lie along if it is known."""
        if not is_row and not self._are_adjacent(kept):
            return 1
        extents = [self.pool.source_extents[axis] for axis in ([self.last] if is_row else kept)]
        vector = self.widest
        while (
            vector > 2 and all(isinstance(e, int) for e in extents) and math.prod(map(int, extents)) % vector
        ):
            vector //= 2
        return vector

    # C++

    def _windows(self) -> list[str]:
        """Return the constants that describe the windows along each axis."""
        numbers = {
            "Size": [w.size for w in self.windows.values()],
            "Stride": [w.stride for w in self.windows.values()],
            "Pad": [w.pad for w in self.windows.values()],
            "Dilation": [w.dilation for w in self.windows.values()],
        }
        over = [self._overhang(axis) for axis in self.windows]
        count_pad = self.pool.count_pad is not None
        outside = [w.pad > 0 or more > -w.pad for w, more in zip(self.windows.values(), over, strict=True)]
        varies = [more > 0 for more in over] if count_pad else outside
        flags = {"Outside": outside, "Varies": varies}
        is_mean = self.pool.kind.data is Pooling.AVG
        return [
            *(f"static constexpr int k{name}[] = {{{_list(values)}}};" for name, values in numbers.items()),
            *(f"static constexpr bool k{name}[] = {{{_list(values)}}};" for name, values in flags.items()),
            f"static constexpr bool kMean = {_text(is_mean)}, kCountPad = {_text(count_pad)};",
            f"static constexpr int kDivisor = {self.pool.divides_by or 0};",
        ]

    def _overhang(self, axis: int) -> int:
        """Return how far the last window along an axis reaches past the padding, which may be negative."""
        places, extent, window = self.space[axis], self.pool.source_extents[axis], self.windows[axis]
        if isinstance(places, int) and isinstance(extent, int):
            return (places - 1) * window.stride + window.reach - (extent + 2 * window.pad)
        return 0  # windows keep an extent that is not known, and end with the padding

    def _tile(self) -> list[str]:
        return [f"static constexpr int kTile = {TILE}, kMostRows = {_MOST_ROWS};"]

    def _run(self, kept: int, is_fast: bool) -> list[str]:
        """Return the constants of threads with several results along one axis."""
        windows = list(self.windows.values())
        slide = max(len(windows) - 2, 0)
        run = _RUN if windows[slide].stride < windows[slide].size else 1
        others = math.prod(w.size for i, w in enumerate(windows) if i != slide)
        fast = kept - 1 if is_fast else kept + len(windows) - 1
        return [
            f"static constexpr int kFast = {fast}, kSlide = {kept + slide};",
            f"static constexpr int kRun = {run}, kOtherTaps = {others};",
        ]

    def _work(self) -> list[str]:
        node, kind = self.pool.pooled, "Max" if self.pool.kind.data is Pooling.MAX else "Sum"
        return [f"  using Kind = mucc::{kind};", "", *self.values_and_store(node.value, [node.result])]


class Strips(NamedTuple):
    """What a thread of a kernel of strips computes: `outputs` neighbouring results of each of `run` rows.

    It reads vectors of `vector` elements. Strips are loose if rows of results may not be multiples of them,
    and have a tail if the number of rows may not be a multiple of `run`.
    """

    vector: int
    outputs: int
    run: int
    is_loose: bool
    has_tail: bool

    def constants(self) -> list[str]:
        return [
            f"static constexpr int kOutputs = {self.outputs}, kRun = {self.run};",
            f"static constexpr bool kLoose = {_text(self.is_loose)}, kTail = {_text(self.has_tail)};",
        ]


def _is_small(window: Window) -> bool:
    """Whether a thread can keep what the windows of neighbouring results take along an axis."""
    return window.size <= 8 and window.stride <= 4 and window.reach <= 24


def _pays(windows: Sequence[Window], vector: int, outputs: int, run: int) -> bool:
    """Whether strips access L1 and shared memory less often than blocks that share reduced rows.

    Counts accesses of 128 bytes for each 32 results. A load of vectors makes four of them.
    """
    *before, last = windows
    planes = math.prod(w.size for w in before[:-1])
    size = before[-1].size if before else 1
    rows = _taken(before[-1], run) if before else 1
    ahead = -last.pad % vector
    vectors = -(-(ahead + (outputs - 1) * last.stride + last.reach) // vector)
    strips = 4 * planes * rows * vectors / (run * outputs)
    shared = 4 * planes * size * last.stride / vector + last.size * last.stride
    return vectors <= 4 and strips <= shared


def _taken(window: Window, run: int) -> int:
    """Return how many elements along an axis the windows of neighbouring results have together."""
    return len({r * window.stride + t * window.dilation for r in range(run) for t in range(window.size)})


def _run_of(window: Window, places: Dim, outputs: int) -> int:
    """Return the rows of results of a thread: as many as share what they read, and leave few threads idle."""
    if window.stride >= window.size or window.dilation > 1:
        return 2 if window.size <= 4 else 1
    most = max(min(8, 24 // outputs, 24 // window.size), 1)
    if not isinstance(places, int) or places <= 0:
        return min(most, 4)

    def read(run: int) -> int:
        return -(-places // run) * ((run - 1) * window.stride + window.size)

    return min(range(1, most + 1), key=lambda run: (read(run), -run))


def _list(values: Sequence[int | bool]) -> str:
    return ", ".join(_text(v) if isinstance(v, bool) else str(v) for v in values)


def _text(value: bool) -> str:
    return str(value).lower()


def _rows(entry: str) -> list[Entry]:
    given = (
        "Work const op, mucc::Extents<Op::kRank> const extents, mucc::Extents<Op::kPooled> const source, "
        "mucc::PoolShape const shape"
    )
    return [
        Entry(f"{entry}_rows{width}", given, f"mucc::pool_rows<{vector}>(op, extents, source, shape)")
        for width, vector in (("", "1"), ("_vector", "Op::kVector"))
    ]


def _strips(entry: str, has_vectors: bool) -> list[Entry]:
    sizes = ("1, 1, false", "Op::kVector, Op::kOutputs, Op::kLoose")
    return _indexed(f"{entry}_strips", "mucc::PoolStrips const shape", sizes, has_vectors, "Op::kThreads, 3")


def _columns(entry: str, has_vectors: bool) -> list[Entry]:
    return _indexed(f"{entry}_columns", "int64_t length", ("1", "Op::kVector"), has_vectors)


def _indexed(
    entry: str, last: str, sizes: tuple[str, str], has_vectors: bool, bounds: str = "Op::kThreads"
) -> list[Entry]:
    """Return entries for elements one by one and for vectors, each with indices of 32 and of 64 bits.

    `last` is the parameter that the form has of its own, `sizes` the template arguments of both.
    """
    given = (
        "Work const op, mucc::Extents<Op::kRank> const extents, mucc::Extents<Op::kPooled> const source, "
        f"{last}, "
    )
    function, name = f"mucc::pool_{entry.rpartition('_')[2]}", last.rpartition(" ")[2]
    return [
        Entry(
            f"{entry}{width}{suffix}",
            f"{given}{index} total",
            f"{function}<{size}>(op, extents, source, {name}, total)",
            bounds,
        )
        for width, size in zip(("", "_vector")[: 2 if has_vectors else 1], sizes, strict=False)
        for suffix, index in INDICES
    ]
