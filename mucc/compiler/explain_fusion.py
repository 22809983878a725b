"""`--explain-fusion`: which kernel computes each operation, what that saves, and why no other kernel does.

Bytes are those of the tensors that kernels read and write, each once for each kernel; caches may save some.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.ir import Operation

from mucc.compiler.fusion_traffic import Apart, apart, moved, shares
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.locations import place_of
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.kernels.interface import Joins, Refused
from mucc.kernels.registry import kernels_of, kind_of
from mucc.kernels.traffic import Traffic, plain
from mucc.passes.candidates import word
from mucc.passes.form_stages import FormStages, divide
from mucc.passes.forming import Candidate, Decision, Place, Stage
from mucc.passes.partition import NO_SIZES, Partition
from mucc.passes.pipeline import staging

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation
    from mucc.diagnostics import Source


class Spot(NamedTuple):
    """An operation by its name, the function of the source that it belongs to, and the place of that."""

    op: str
    function: str | None
    line: int | None
    column: int | None

    @staticmethod
    def of(op: Operation, source: Source) -> Spot:
        """Return the spot of an operation of `mu`."""
        location, name = place_of(op.location), word(op)
        if location is None:
            return Spot(name, None, None, None)
        line, column = location.line.data, location.column.data
        called = re.compile(r"[A-Za-z_]\w*(?=\()").match(source.text, source.offset(line, column))
        return Spot(name, called[0] if called else None, line, column)

    @property
    def name(self) -> str:
        """Both names, where they differ."""
        return self.op if self.function in (None, self.op) else f"{self.op} ({self.function})"

    @property
    def where(self) -> str:
        """Line and column."""
        return "-" if self.line is None else f"{self.line}:{self.column}"


class Computed(NamedTuple):
    """An operation of a kernel, how it came there, and what that saves."""

    spot: Spot
    place: Place
    saved: Traffic
    launches: int


class Rejected(NamedTuple):
    """An operation of other kernels, why this one does not compute it, and what that would have saved."""

    spot: Spot
    reason: str
    saved: Traffic | None = None


@dataclass(frozen=True)
class Launch:
    """A device kernel. `stages` are those that it computes; a helper of another kernel has none."""

    name: str
    kind: str
    stages: tuple[str, ...]
    reads: Traffic
    writes: Traffic
    computed: tuple[Computed, ...]
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True)
class Fusion:
    """The device kernels of a program, and what one kernel for each of its operations would move.

    `sizes` are typical values of open dims.
    """

    kernel: str
    target: str
    sizes: Mapping[str, int]
    launches: tuple[Launch, ...]
    apart: Apart

    @property
    def moved(self) -> Traffic:
        """What all kernels read and write."""
        return Traffic.sum(t for launch in self.launches for t in (launch.reads, launch.writes))

    def as_json(self) -> dict[str, Any]:
        """Bytes as numbers with the dims that each is multiplied with, and as one number if known."""
        apart, moved = self.apart, self.moved
        return {
            "kernel": self.kernel,
            "target": self.target,
            "launches": len(self.launches),
            "moved": self._json(moved),
            "apart": {"launches": apart.launches, "moved": self._json(apart.moved)},
            "saved": {
                "launches": apart.launches - len(self.launches),
                "moved": self._json(apart.moved - moved),
            },
            "kernels": [self._launch(launch) for launch in self.launches],
        }

    def _launch(self, launch: Launch) -> dict[str, Any]:
        return {
            "name": launch.name,
            "kind": launch.kind,
            "stages": list(launch.stages),
            "reads": self._json(launch.reads),
            "writes": self._json(launch.writes),
            "computed": [
                c.spot._asdict()
                | {"place": c.place.value, "saved": self._json(c.saved), "launches": c.launches}
                for c in launch.computed
            ],
            "rejected": [
                r.spot._asdict()
                | {"reason": r.reason, "saved": None if r.saved is None else self._json(r.saved)}
                for r in launch.rejected
            ],
        }

    def _json(self, traffic: Traffic) -> dict[str, Any]:
        terms = [[plain(factor), *names] for names, factor in traffic.terms.items()]
        known = traffic.open_dims <= self.sizes.keys()
        return {"bytes": plain(traffic.at(self.sizes)) if known else None, "terms": terms}

    def as_text(self) -> str:
        """Format the explanation for people: totals, then each kernel's operations, and those ruled out."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        apart, moved = self.apart, self.moved
        count = len(self.launches)
        yield f"{self.kernel} for {self.target}"
        yield f"  {_launches_text(count)}, {moved.text(self.sizes)} to and from memory"
        alone, saved = apart.moved.text(self.sizes), (apart.moved - moved).text(self.sizes)
        yield f"  one kernel for each operation: {_launches_text(apart.launches)}, {alone}"
        yield f"  saved: {_launches_text(apart.launches - count)}, {saved}"
        if not (apart.moved.open_dims | moved.open_dims) <= self.sizes.keys():
            yield "  sums of products of open dims, in bytes: name typical ones with --dims for numbers"
        for launch in self.launches:
            reads, writes = launch.reads.text(self.sizes), launch.writes.text(self.sizes)
            yield f"  {launch.name}: {launch.kind} kernel, reads {reads}, writes {writes}"
            if not launch.stages:
                yield "    moves an operand of another kernel to where that can read it"
            if launch.computed:
                yield f"    {'operation':<20} {'at':>8}  {'how':<10}  {'launches':>8}  saves"
            for spot, place, moves, launches in launch.computed:
                saves = moves.text(self.sizes)
                yield f"    {spot.name:<20} {spot.where:>8}  {place:<10}  {launches or '-':>8}  {saves}"
            if launch.rejected:
                yield f"    {'not here':<20} {'at':>8}  because"
            for spot, reason, moves in launch.rejected:
                would = "" if moves is None else f"; here: {moves.text(self.sizes)}"
                yield f"    {spot.name:<20} {spot.where:>8}  {reason}{would}"


def explain(compilation: Compilation) -> list[Fusion]:
    """Explain the kernels of each program of a compilation, in order."""
    target, sizes = compilation.options.target, compilation.options.dims
    module = compilation.mu.clone()
    for step, _ in staging(target):
        if isinstance(step, FormStages):
            break
        step.apply(None, module)
    kernels: dict[str, list[DeviceKernelOp]] = {}
    for program, kernel in kernels_of(compilation.cutlass):
        kernels.setdefault(program.sym_name.data, []).append(kernel)
    found: list[Fusion] = []
    for kernel in module.body.block.ops:
        if isinstance(kernel, KernelOp):
            name, alone, own = kernel.sym_name.data, apart(kernel), set(kernel.body.block.ops)
            formed = _Formed(*divide(kernel, target, explained=True), compilation.source, own)
            found.append(Fusion(name, target, sizes, tuple(formed.launches(kernels[name])), alone))
    return found


@dataclass
class _Formed:
    """A partition, with the names of its stages, and the source that it comes from.

    `own` are the operations of the program: what rounds between stages is left out.
    """

    partition: Partition
    names: Mapping[Stage, str]
    source: Source
    own: Container[Operation]

    def __post_init__(self) -> None:
        found = self.partition.decisions or ()
        self.told: list[Decision] = [decision for decision in found if decision.op in self.own]
        self.done: set[Operation] = set()
        """The operations of kernels so far."""

    def launches(self, kernels: Sequence[DeviceKernelOp]) -> Iterator[Launch]:
        """Yield the launches of a program, in order."""
        made = {kernel.stage.data for kernel in kernels}
        takers = {stage: self._taker(stage, made) for stage in self.names}
        for kernel in kernels:
            name = kernel.stage.data
            group = [stage for stage, taker in takers.items() if taker == name]
            stages = tuple(self.names[stage] for stage in group)
            computed, rejected = tuple(self._computed(group)), tuple(self._rejected(group))
            yield Launch(name, kind_of(kernel).name, stages, *moved(kernel), computed, rejected)

    def _taker(self, stage: Stage, made: Container[str]) -> str:
        """Return the kernel of a stage: the one of its name, else that of its first reader."""
        if (name := self.names[stage]) in made:
            return name
        return next(n for s, n in self.names.items() if stage in s.reads.values() and n in made)

    def _computed(self, group: Sequence[Stage]) -> Iterator[Computed]:
        places: dict[Operation, Place] = {}
        for stage in group:
            recomputed = self.partition.recomputed(stage)
            for op, chosen, _ in self.told:
                if stage.anchor is None and self.partition.written.get(op.results[0]) is stage:
                    places[op] = Place.STORED
                elif op is stage.anchor and stage is not group[-1]:
                    places[op] = Place.PAIRED
                elif chosen.stage is stage or (chosen.stage is None and op in recomputed):
                    places[op] = chosen.place
        saved = list(shares(self.partition, group, places, self.done))
        opened = next((op for op, place in places.items() if place in (Place.OPENED, Place.STORED)), None)
        for (op, place), moves in zip(places.items(), saved, strict=True):
            is_kept = place is Place.RECOMPUTED and (
                op in self.done or op.results[0] in self.partition.written
            )
            yield Computed(Spot.of(op, self.source), place, moves, int(op is not opened and not is_kept))
        self.done |= places.keys()

    def _rejected(self, group: Sequence[Stage]) -> Iterator[Rejected]:
        for op, chosen, candidates in self.told:
            for candidate in candidates:
                if candidate.stage not in group or chosen.stage in group:
                    continue
                match candidate.answer:
                    case Refused(reason):
                        yield Rejected(Spot.of(op, self.source), reason)
                    case Joins(saved):
                        yield Rejected(Spot.of(op, self.source), self._lost(saved, chosen), saved)

    def _lost(self, saved: Traffic, chosen: Candidate) -> str:
        """Why a legal candidate, which would have saved something, was not chosen."""
        if not isinstance(chosen.answer, Joins) or chosen.stage is None:
            return "computing it in each kernel that reads it saves more"
        more = chosen.answer.saved.at(NO_SIZES) > saved.at(NO_SIZES)
        return f"stage {self.names[chosen.stage]} saves {'more' if more else 'as much, and is newer'}"


def _launches_text(count: int) -> str:
    return f"{count} launch{'' if count == 1 else 'es'}"
