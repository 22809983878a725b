"""Rank schedules by the cost model: the time of each device kernel under every legal schedule.

For searches outside of mucc: legality and estimates come from here and are computed nowhere else.

    for kernel in survey(Source("f.mcu", text)):
        for contraction in kernel.contractions:
            contraction.ranked()[0].settings   # the best by the model, as the text of settings
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from xdsl.ir import Attribute

from mucc.compiler.program import compile_source
from mucc.database.records import Settings
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.mu.settings import parse_settings, texts_of
from mucc.dialects.mu.types import TensorType, dtype_bits
from mucc.files.json_text import canonical
from mucc.kernels.registry import kind_of
from mucc.kernels.workload import Workload
from mucc.library.extents import names_of, polynomial
from mucc.measure.tune.analysis import kernel_text
from mucc.measure.tune.plans import schedule_block
from mucc.target import DEFAULT_TARGET, get_target
from mucc.target.facts import Device, Target

UNPROPOSED = 4
"""Kernels of each family that the target does not propose."""


class Move(NamedTuple):
    """A legal schedule of a contraction: its settings as text, and what the model says.

    `us` are microseconds, of which `launch_us` go by before the first tile and `waves` say in how many rounds
    blocks work; `limit` is what binds. Moves with one `skeleton` share what nvcc compiles: they
    differ in what is known at run time only, or in pointwise work.
    """

    settings: Settings
    us: float
    launch_us: float
    waves: float
    limit: str
    skeleton: str


@dataclass(frozen=True)
class Contraction:
    """A device kernel of a program that has a schedule, at its sizes; by now these are contractions.

    `chosen` is the schedule that it has in the program as it stands, `signature` tells workloads apart and
    `body` pointwise work; `first` says that no kernel comes before it.
    """

    kernel: str
    stage: str
    workload: Workload[Any]
    body: str
    chosen: Move
    device: Device
    first: bool

    @cached_property
    def signature(self) -> str:
        return self.workload.signature

    @cached_property
    def _form(self) -> str:
        return self.workload.form

    def ranked(self) -> Sequence[Move]:
        """Return the legal schedules that the target proposes, the fastest first."""
        return self._ranked

    @cached_property
    def _proposed(self) -> tuple[Hashable, ...]:
        return tuple(c.schedule for c in self.workload.candidates(device=self.device))

    @cached_property
    def _ranked(self) -> tuple[Move, ...]:
        return self._moves(self._proposed)

    def unproposed(self) -> Sequence[Move]:
        """Return the best few schedules of each mainloop that the target has but does not propose."""
        return self._unproposed

    @cached_property
    def _unproposed(self) -> tuple[Move, ...]:
        return self._moves(self.workload.unproposed(self._proposed, self.device, UNPROPOSED))

    def neighbours(self, settings: Settings) -> list[Move]:
        """Return a schedule with somewhat larger and smaller tiles, and with other clusters, where legal."""
        return [*self._moves(self.workload.neighbours(self._schedule(settings)))]

    def variants(self, settings: Settings) -> list[Move]:
        """Return a schedule with its tiles walked in other orders, and with `pdl` either way, where legal."""
        return [*self._moves(self.workload.variants(self._schedule(settings), is_first=self.first))]

    def move(self, settings: Settings) -> Move | None:
        """Complete a schedule that may leave out settings; None if the result is not legal."""
        try:
            schedule = self._schedule(settings)
        except ValueError:
            return None
        return self._move(schedule) if self.workload.is_legal(schedule) else None

    def _schedule(self, settings: Settings) -> Hashable:
        return self.workload.completed(parse_settings(settings))

    def _moves(self, schedules: Iterable[Hashable]) -> tuple[Move, ...]:
        return tuple(map(self._move, schedules))

    def _move(self, schedule: Hashable) -> Move:
        workload = self.workload
        estimate = workload.estimate(schedule, self.device)
        parts = estimate.parts
        return Move(
            _texts(workload.settings, schedule),
            max(estimate.seconds, workload.least_seconds(schedule, self.device)) * 1e6,
            1e6 * (parts.get("launch", 0.0) + parts.get("fill", 0.0)),
            estimate.waves,
            estimate.limit,
            f"{self._form} {_canonical(workload.settings, workload.compiled(schedule))}",
        )


class Work(NamedTuple):
    """A device kernel in launch order: its stage, its kind, and its time by the model in microseconds."""

    stage: str
    kind: str
    us: float


@dataclass(frozen=True)
class Survey:
    """A kernel of a program: its text without schedules, its device kernels, and which of them multiply."""

    kernel: str
    text: str
    target: str
    works: tuple[Work, ...]
    contractions: tuple[Contraction, ...]

    @property
    def us(self) -> float:
        """Microseconds of all device kernels together."""
        return sum(w.us for w in self.works)

    def schedules(self, choice: Mapping[str, Settings]) -> str:
        """Schedules for some of the contractions, by stage, as source."""
        alone = len(self.contractions) == 1
        names = [c.stage for c in self.contractions if c.stage in choice]
        return "\n".join(
            schedule_block(self.kernel if alone else f"{self.kernel}.{name}", self.target, choice[name])
            for name in names
        )


def survey(
    source: Source,
    target: str = DEFAULT_TARGET,
    *,
    dims: Mapping[str, int] | None = None,
    card: str | None = None,
) -> list[Survey]:
    """Each kernel of a program, at the sizes that it binds or `dims` name.

    `card` is the name of the GPU, short or as the driver has it; the target's first where it is not known.
    Measured schedules are left out of account. Raises DiagnosticError for errors in the program, its
    schedules among them, and for what mucc has no kernel for.
    """
    compilation = compile_source(source, target, only_check=False, dims=dims, tuned=False)
    sizes = dict(dims or {})
    devices = get_target(target).facts.devices
    device = next((d for d in devices if card in (d.key, d.name)), devices[0])
    return [
        _survey(program, kernel_text(compilation, program.sym_name.data), sizes, device)
        for program in compilation.cutlass.body.block.ops
        if isinstance(program, ProgramOp)
    ]


def _survey(program: ProgramOp, text: str, sizes: Mapping[str, int], device: Device) -> Survey:
    target = get_target(program.target.data)
    works: list[Work] = []
    contractions: list[Contraction] = []
    workloads = [(op, kind_of(op).workload(target.name, op, sizes)) for op in program.kernels]
    # What copies operands or a result for a product is part of the product's own estimate.
    scheduled = {op.stage.data for op, workload in workloads if workload is not None}
    for op, workload in workloads:
        kind, stage = kind_of(op), op.stage.data
        if workload is not None:
            place = (program.sym_name.data, stage)
            found = _contraction(place, op, workload, device, first=not works)
            contractions.append(found)
            works.append(Work(stage, kind.name, found.chosen.us))
        else:
            is_counted = stage.partition(".")[0] in scheduled
            us = 0.0 if is_counted else _streamed_us(op, sizes, target, device)
            works.append(Work(stage, kind.name, us))
    return Survey(program.sym_name.data, text, target.name, tuple(works), tuple(contractions))


def _contraction(
    place: tuple[str, str], op: DeviceKernelOp, workload: Workload[Any], device: Device, *, first: bool
) -> Contraction:
    kind = kind_of(op)
    blank = Move({}, 0.0, 0.0, 0.0, "", "")
    made = Contraction(*place, workload, kind.body(op), blank, device, first)
    schedule = workload.completed(kind.schedule(op))
    opened = workload.opened(schedule)
    chosen = workload.settings(opened if workload.is_legal(opened) else schedule)
    return replace(made, chosen=made.move(texts_of(chosen)) or blank)


def _streamed_us(op: DeviceKernelOp, sizes: Mapping[str, int], target: Target, device: Device) -> float:
    """Estimate the time of a kernel without a schedule: its tensors pass once, at the rate of DRAM."""
    values = {value for inner in op.walk() for value in inner.operands}
    moved = sum(_bytes(v.type, sizes) for v in values if isinstance(v.type, TensorType))
    cost = target.facts.cost
    bandwidth = cost.get("dram_share", 1.0) * device.datasheet["dram_bandwidth"]
    return 1e6 * (moved / bandwidth + cost.get("launch", 0.0))


def _bytes(type: TensorType, sizes: Mapping[str, int]) -> float:
    known = {**dict.fromkeys(names_of(type.dims), 1), **sizes}
    return math.prod(max(polynomial(d).at(known), 1) for d in type.dims) * dtype_bits(type.element_type) / 8


Told = Callable[[Hashable], Mapping[str, Attribute]]
"""The settings of a schedule."""


@lru_cache(maxsize=1 << 14)
def _texts(settings: Told, schedule: Hashable) -> Settings:
    """Return a schedule as settings in source. Results are cached: callers ask often."""
    return texts_of(settings(schedule))


@lru_cache(maxsize=1 << 14)
def _canonical(settings: Told, schedule: Hashable) -> str:
    """Return a key that equal schedules share."""
    return canonical(texts_of(settings(schedule)))
