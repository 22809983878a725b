"""Compile a program for several sizes: kernels become entries with guards, one for each schedule.

The program is compiled for each size. Programs of a kernel that come out equal are one entry; of sizes that
stand for a range the cost model keeps as few as lose little. The model also says where one entry takes over
from the next. Every entry computes all sizes, so guards decide about speed only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from mucc.analysis.bound import Rates
from mucc.compiler.compilation import Compilation, Entries, Entry
from mucc.compiler.launches import launches_of
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity, Source
from mucc.dialects.cutlass.attributes import GuardAttr
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.kernels.registry import kind_of
from mucc.library.dims import Size, too_many
from mucc.library.entries import Guard, Range
from mucc.target import get_target

LOSS = 0.01
"""The largest expected loss at a sample of a range, as a share of the time of the best schedule there."""

MOST_CELLS = 256
"""The most combinations of sizes of different dims for which entries are chosen."""

Dims = Mapping[str, int]


def compile_for(sizes: Sequence[Size], one: Callable[[Dims], Compilation]) -> Compilation:
    """Compile a program by `one` for each of several sizes, and join what comes out.

    The result is the compilation for the largest size, with entries of kernels that have several schedules.
    Samples of a range that break a promise are left out.
    """
    made, sizes = _compiled(sizes, one)
    order = sorted(range(len(sizes)), key=lambda i: math.prod(sizes[i].dims.values()))
    last = made[order[-1]]
    found: list[Entries] = []
    module = last.cutlass.clone()
    for kernel in [p.sym_name.data for p in last.programs]:
        programs = [next(p for p in made[i].programs if p.sym_name.data == kernel) for i in order]
        if len({str(p) for p in programs}) == 1:
            continue
        if programs[-1].is_each:
            last.sink.emit(_one_schedule(kernel, last.source, sizes[order[-1]].dims))
            continue
        names = set(programs[-1].dim_names) - set(programs[-1].bound_dims)
        points = [_Point(_of(sizes[i].dims, names), sizes[i].is_sample) for i in order]
        entries = _Chooser(points, programs, [made[i] for i in order]).entries()
        if len(entries) > 1:
            found.append(Entries(kernel, entries))
            _insert(module, kernel, entries)
    for other in made:
        if other is not last:
            for diagnostic in other.sink.diagnostics:
                if diagnostic not in last.sink.diagnostics:
                    last.sink.emit(diagnostic)
    return dataclasses.replace(last, cutlass=module, families=tuple(found))


def _compiled(
    sizes: Sequence[Size], one: Callable[[Dims], Compilation]
) -> tuple[list[Compilation], list[Size]]:
    """Compile for each size; returns compilations and their sizes. Raises what `one` raises."""
    made: list[Compilation] = []
    kept: list[Size] = []
    broken: DiagnosticError | None = None
    for size in sizes:
        try:
            made.append(one(size.dims))
        except DiagnosticError as error:
            if not size.is_sample or error.diagnostics[0].code != "MU6052":
                raise
            broken = error
            continue
        kept.append(size)
    if broken and not made:
        raise broken
    return made, kept


def _of(dims: Dims, names: set[str]) -> Dims:
    return {name: value for name, value in dims.items() if name in names}


def _one_schedule(kernel: str, source: Source, dims: Dims) -> Diagnostic:
    """Return the warning MU6091: a kernel for lists of problems has one schedule."""
    given = ", ".join(f"{name} = {value}" for name, value in dims.items())
    return Diagnostic(
        "MU6091",
        f"kernel each {kernel} has one schedule, chosen for {given}",
        source=source,
        severity=Severity.WARNING,
        notes=("one launch computes all problems of a list, whatever their sizes",),
        helps=("write a `kernel` for one problem to have a schedule for each size",),
    )


def _insert(module: ModuleOp, kernel: str, entries: Sequence[Entry]) -> None:
    """Put the entries of a kernel before its program, which is the last of them."""
    block = module.body.block
    taken = {op.sym_name.data for op in block.ops if isinstance(op, ProgramOp)}
    last = next(op for op in block.ops if isinstance(op, ProgramOp) and op.sym_name.data == kernel)
    replacement = entries[-1].program.clone()
    replacement.attributes["entry_of"] = StringAttr(kernel)
    for number, entry in enumerate(entries[:-1]):
        op = entry.program.clone()
        name = f"{kernel}_{number}"
        while name in taken:
            name += "_"
        taken.add(name)
        op.attributes["sym_name"] = StringAttr(name)
        op.attributes["entry_of"] = StringAttr(kernel)
        op.attributes["guards"] = ArrayAttr(GuardAttr.of(guard) for guard in entry.guards)
        block.insert_op_before(op, last)
    block.insert_op_before(replacement, last)
    last.detach()
    last.erase()


@dataclass(frozen=True)
class _Point:
    """A size of one kernel. A sample stands for a range, and needs no entry of its own."""

    dims: Dims
    is_sample: bool


@dataclass(eq=False)
class _Variant:
    """One of the different programs of a kernel, with the points that it was made for."""

    program: ProgramOp
    compilation: Compilation
    points: list[_Point] = field(default_factory=list[_Point])
    known: dict[tuple[int, ...], float] = field(default_factory=dict[tuple[int, ...], float])

    @cached_property
    def rates(self) -> Rates:
        target = get_target(self.program.target.data).facts
        return Rates(target.devices[0], target.multiprocessor, measured=True)

    def seconds(self, dims: Dims) -> float:
        """Predict the time of a call on the first card of the target, once for each size."""
        key = tuple(dims.values())
        if key not in self.known:
            launches = launches_of(self.compilation.stages, self.program, dims, self.rates)
            self.known[key] = sum(
                self._seconds(op, dims, launch.bound.seconds if launch.bound else 0.0)
                for op, launch in zip(self.program.kernels, launches, strict=True)
            )
        return self.known[key]

    def _seconds(self, op: DeviceKernelOp, dims: Dims, bound: float) -> float:
        kind, target = kind_of(op), self.program.target.data
        if (workload := kind.workload(target, op, dims)) is not None:
            return workload.estimate(workload.completed(kind.schedule(op))).seconds
        alone = kind.seconds(target, op, {**self.program.bound_dims, **dims})
        return bound if alone is None else max(alone, bound)


class _Chooser:
    """Chooses the entries of one kernel, and which of them computes which sizes.

    Sizes are looked at on a grid: the values of each dim that differs between points, and all their
    combinations.
    """

    def __init__(self, points: Sequence[_Point], programs: Sequence[ProgramOp], made: Sequence[Compilation]):
        self.points = points
        by_text: dict[str, _Variant] = {}
        for point, program, compilation in zip(points, programs, made, strict=True):
            variant = by_text.setdefault(str(program), _Variant(program, compilation))
            variant.points.append(point)
        self.variants = list(by_text.values())
        values = {name: sorted({p.dims[name] for p in points}) for name in points[0].dims}
        self.axes = {name: found for name, found in values.items() if len(found) > 1}
        self.fixed = {name: found[0] for name, found in values.items() if len(found) == 1}
        if (count := math.prod(map(len, self.axes.values()))) > MOST_CELLS:
            raise too_many(count, MOST_CELLS, "combinations of sizes")

    def entries(self) -> tuple[Entry, ...]:
        """Return the entries, those of small sizes first; the last takes what no guard does."""
        if not self.axes:
            last = self.variants[-1]
            return (Entry(last.program, last.compilation, tuple(p.dims for p in last.points)),)
        kept = self._kept()
        own = {tuple(p.dims[n] for n in self.axes): v for v in kept for p in v.points if not p.is_sample}
        cells = {cell: own.get(cell) or self._best(kept, cell) for cell in product(*self.axes.values())}
        last = cells[max(cells)]
        boxes: dict[int, list[Guard]] = {}
        for variant, guard in self._boxes(cells):
            if variant is not last:
                boxes.setdefault(id(variant), []).append(guard)
        found = [
            Entry(v.program, v.compilation, tuple(p.dims for p in v.points), tuple(boxes[id(v)]))
            for v in kept
            if id(v) in boxes
        ]
        found.append(Entry(last.program, last.compilation, tuple(p.dims for p in last.points)))
        return tuple(found)

    def _dims(self, cell: Sequence[int]) -> Dims:
        return {**self.fixed, **dict(zip(self.axes, cell, strict=True))}

    def _best(self, variants: Sequence[_Variant], cell: Sequence[int]) -> _Variant:
        return min(variants, key=lambda v: v.seconds(self._dims(cell)))

    def _kept(self) -> list[_Variant]:
        """Return the variants that are entries: those of sizes that were named, and those that samples need.

        Samples are given the variant that saves most time over those that are kept, until none loses `LOSS`.
        """
        kept = [v for v in self.variants if not all(p.is_sample for p in v.points)]
        samples = [p.dims for p in self.points if p.is_sample]
        if not kept:
            kept = [min(self.variants, key=lambda v: self._worst([v], samples))]
        while self._worst(kept, samples) > LOSS:
            others = [v for v in self.variants if v not in kept]
            kept.append(min(others, key=lambda v: self._worst([*kept, v], samples)))
        return [v for v in self.variants if v in kept]

    def _worst(self, kept: Sequence[_Variant], samples: Sequence[Dims]) -> float:
        """Return the largest expected loss of time at a sample, as a share of the best time there."""
        losses = (
            min(v.seconds(dims) for v in kept) / best - 1
            for dims in samples
            if (best := min(v.seconds(dims) for v in self.variants)) > 0
        )
        return max(losses, default=0.0)

    def _boxes(self, cells: Mapping[tuple[int, ...], _Variant]) -> Iterator[tuple[_Variant, Guard]]:
        """Yield boxes of sizes with the variant of each; cells that follow along the last axis are joined."""
        *outer, inner = self.axes
        for first in product(*(self.axes[name] for name in outer)):
            sides = tuple(self._side(name, value) for name, value in zip(outer, first, strict=True))
            lower = 1
            values = self.axes[inner]
            for value, after in pairwise(values):
                variant, other = cells[*first, value], cells[*first, after]
                if other is not variant:
                    end = self._end(first, value, after, variant, other)
                    yield variant, (*sides, Range(inner, lower, end))
                    lower = end + 1
            box = (*sides, Range(inner, lower, None))
            yield cells[*first, values[-1]], tuple(r for r in box if not _is_all(r))

    def _side(self, name: str, value: int) -> Range:
        """Return the range around a value of a dim, which ends half-way to its neighbours."""
        values = self.axes[name]
        place = values.index(value)
        lower = _between(values[place - 1], value) + 1 if place else 1
        upper = _between(value, values[place + 1]) if place + 1 < len(values) else None
        return Range(name, lower, upper)

    def _end(self, first: tuple[int, ...], value: int, after: int, variant: _Variant, other: _Variant) -> int:
        """Return the last size along the last axis at which a variant is expected to take less than another.

        Between `value`, which is the variant's, and `after`, which is the other's.
        """
        low, high = value, after
        while high - low > 1:
            middle = _between(low, high)
            dims = self._dims((*first, middle))
            if variant.seconds(dims) <= other.seconds(dims):
                low = middle
            else:
                high = middle
        return low


def _between(low: int, high: int) -> int:
    """Return the geometric mean of two sizes, rounded to one between them if there is one."""
    return min(max(math.isqrt(low * high), low + 1), max(high - 1, low))


def _is_all(r: Range) -> bool:
    return r.lower <= 1 and r.upper is None


def checked(sizes: Sequence[Size]) -> None:
    """Raise MU6090 unless all sizes name the same dims."""
    names = {name for size in sizes for name in size.dims}
    if missing := sorted(name for name in names if any(name not in size.dims for size in sizes)):
        raise DiagnosticError(
            Diagnostic(
                "MU6090",
                f"not every --dims names {', '.join(missing)}",
                notes=("each call takes one of several schedules by its dims",),
                helps=("name the same dims in each, such as --dims M=16,N=4096 --dims M=2048,N=4096",),
            )
        )
