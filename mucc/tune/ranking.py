"""What the model says of a program: the time of each device kernel, and all schedules that it could have.

For whoever searches outside mucc: legality and estimates come from here and are computed nowhere else.

    for kernel in survey(Source("f.mcu", text)):
        for contraction in kernel.contractions:
            contraction.ranked()[0].settings   # the best by the model, as the text of settings
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, NamedTuple

from mucc.compiler.program import compile_source
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.mu.types import TensorType, dtype_bits
from mucc.kernels.gemm.description import pointwise_digest, problem_of, schedule_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.gemm.scheduling.choice import pinned_fields
from mucc.kernels.gemm.scheduling.config import Problem, Schedule, operand_bytes
from mucc.kernels.gemm.scheduling.cost import Extents
from mucc.kernels.gemm.select import schedule_settings
from mucc.measured.records import Settings, canonical, signature
from mucc.target.facts import Device
from mucc.tune.analysis import kernel_text
from mucc.tune.plans import schedule_block

RASTERS = ("heuristic", "along_m", "along_n")
"""Orders of tiles; with swizzles they are arguments at run time, so another one costs no nvcc."""

PLAIN = ("cooperative", "pingpong", "warpspecialized", "multistage")
"""Mainloops that take any product of their formats, where their rules allow it."""

OPTIMISTIC = ("multistage", "warpspecialized")
"""Mainloops whose models were not fitted to problems that DRAM binds, and say less there than it takes."""

UNPROPOSED = 4
"""Kernels of each mainloop that the target does not propose."""

TILES = ((64, 0), (-64, 0), (0, -32), (0, -16), (0, 16), (0, 32))
CLUSTERS = ((1, 1), (2, 1), (1, 2))
"""By how much neighbours' tiles differ, in rows and columns, and the clusters that they have."""


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
    """A product of a program at its sizes.

    `chosen` is the schedule that it has in the program as it stands, `signature` tells problems apart and
    `body` pointwise work; `first` says that no kernel comes before it.
    """

    kernel: str
    stage: str
    problem: Problem
    signature: str
    body: str
    chosen: Move
    target: GemmTarget
    device: Device
    first: bool

    @cached_property
    def _least_us(self) -> float:
        """What a kernel takes that DRAM binds, as the model has it for others."""
        problem, cost = self.problem, self.target.facts.cost
        extents = Extents.of(problem)
        if problem.mixed or problem.sparse or problem.grouped or not extents.exact:
            return 0.0
        moved = extents.moved(operand_bytes(problem.compute), problem.epilogue)
        bandwidth = cost.get("dram_share", 1.0) * self.device.datasheet["dram_bandwidth"]
        return 1e6 * (moved / bandwidth + cost.get("launch", 0.0) + cost.get("fill", 0.0))

    @cached_property
    def _form(self) -> str:
        """The problem without its extents, which machine code does not know."""
        return signature(self.problem._replace(m=None, n=None, k=None, batch=None))

    def ranked(self) -> Sequence[Move]:
        """What the target proposes, all of it legal, the fastest first."""
        return self._ranked

    @cached_property
    def _ranked(self) -> tuple[Move, ...]:
        return tuple(self._move(c.schedule) for c in self.target.candidates(self.problem, {}, self.device))

    def unproposed(self) -> Sequence[Move]:
        """The best few of each mainloop that the target has for the problem, but would not propose."""
        return self._unproposed

    @cached_property
    def _unproposed(self) -> tuple[Move, ...]:
        known = {m.settings["mainloop"] for m in self._ranked}
        loops = [m for f in self.target.families for m in f.mainloops if m in PLAIN and m not in known]
        found: list[Move] = []
        for mainloop in dict.fromkeys(loops):
            best: dict[str, Move] = {}
            for candidate in self.target.candidates(self.problem, {"mainloop": mainloop}, self.device):
                move = self._move(candidate.schedule)
                best.setdefault(move.skeleton, move)
                if len(best) == UNPROPOSED:
                    break
            found += best.values()
        return tuple(found)

    def neighbours(self, settings: Settings) -> list[Move]:
        """A schedule with somewhat larger and smaller tiles, and with other clusters, where legal."""
        schedule = self._schedule(settings)
        m, n, k = schedule.tile
        tiles = [(m + dm, n + dn, k) for dm, dn in TILES if min(m + dm, n + dn) > 0]
        tiles.append((m, n, 2 * k))
        found = [replace(schedule, tile=tile, stages=None) for tile in tiles]
        found += [replace(schedule, cluster=cluster, stages=None) for cluster in CLUSTERS]
        return [self._move(s) for s in dict.fromkeys(found) if s != schedule and self._is_legal(s)]

    def variants(self, settings: Settings) -> list[Move]:
        """A schedule with its tiles walked in other orders, and with `pdl` either way, where legal."""
        schedule = self._schedule(settings)
        walks = [(schedule.raster, schedule.swizzle)]
        if schedule.scheduler == "persistent":
            walks = list(product(RASTERS, self.target.facts.limits.swizzles))
        switched = (False,) if self.first else (False, True)
        found = [
            replace(schedule, raster=raster, swizzle=swizzle, pdl=pdl)
            for (raster, swizzle), pdl in product(walks, switched)
        ]
        return [self._move(s) for s in found if s != schedule and self._is_legal(s)]

    def move(self, settings: Settings) -> Move | None:
        """A schedule of which some settings may be left out; None where it is not legal."""
        schedule = self._schedule(settings)
        return self._move(schedule) if self._is_legal(schedule) else None

    def _schedule(self, settings: Settings) -> Schedule:
        if settings.keys() >= {"tile", "cluster", "mainloop", "scheduler"}:
            fields: dict[str, Any] = {"tile": (0, 0, 0), **pinned_fields(settings)}
            return Schedule(**fields)
        return self.target.default_schedule(self.problem, settings)

    def _is_legal(self, schedule: Schedule) -> bool:
        return self.target.is_legal(self.problem.config(schedule), schedule.stages)

    def _move(self, schedule: Schedule) -> Move:
        estimate = self.target.estimate(self.problem, schedule, self.device)
        parts = estimate.parts
        least = self._least_us if schedule.mainloop in OPTIMISTIC else 0.0
        return Move(
            _settings(schedule),
            max(estimate.seconds * 1e6, least),
            1e6 * (parts.get("launch", 0.0) + parts.get("fill", 0.0)),
            estimate.waves,
            estimate.limit,
            f"{self._form} {_compiled(schedule)}",
        )


class Work(NamedTuple):
    """A device kernel in launch order: its stage, what it is (gemm, map, reduce), and microseconds by the
    model."""

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
    source: Source, target: str = "sm_90a", *, dims: Mapping[str, int] | None = None, card: str | None = None
) -> list[Survey]:
    """Each kernel of a program, at the sizes that it binds or `dims` name.

    `card` is the name of the GPU, short or as the driver has it; the target's first where it is not known.
    Measured schedules are left out of account. Raises DiagnosticError for errors in the program, its
    schedules among them, and for what mucc has no kernel for.
    """
    compilation = compile_source(source, target, only_check=False, dims=dims, tuned=False)
    sizes = dict(dims or {})
    devices = gemm_target(target).facts.devices
    device = next((d for d in devices if card in (d.key, d.name)), devices[0])
    return [
        _survey(program, kernel_text(compilation, program.sym_name.data), sizes, device)
        for program in compilation.cutlass.body.block.ops
        if isinstance(program, ProgramOp)
    ]


def _survey(program: ProgramOp, text: str, sizes: Mapping[str, int], device: Device) -> Survey:
    target = gemm_target(program.target.data)
    works: list[Work] = []
    contractions: list[Contraction] = []
    # What copies operands or a result for a product is part of the product's own estimate.
    products = {op.stage.data for op in program.kernels if isinstance(op, GemmOp)}
    for op in program.kernels:
        if isinstance(op, GemmOp):
            found = _contraction(program, op, sizes, target, device, first=not works)
            contractions.append(found)
            works.append(Work(found.stage, "gemm", found.chosen.us))
        else:
            kind = op.name.removeprefix("cutlass.")
            counted = op.stage.data.partition(".")[0] in products
            works.append(
                Work(op.stage.data, kind, 0.0 if counted else _streamed_us(op, sizes, target, device))
            )
    return Survey(program.sym_name.data, text, target.name, tuple(works), tuple(contractions))


def _contraction(
    program: ProgramOp,
    op: GemmOp,
    sizes: Mapping[str, int],
    target: GemmTarget,
    device: Device,
    *,
    first: bool,
) -> Contraction:
    problem = problem_of(op, sizes)
    blank = Move({}, 0.0, 0.0, 0.0, "", "")
    name, stage = program.sym_name.data, op.stage.data
    made = Contraction(
        name, stage, problem, signature(problem), pointwise_digest(op), blank, target, device, first
    )
    schedule = replace(schedule_of(op), stages=None)
    chosen = schedule_settings(schedule if made._is_legal(schedule) else schedule_of(op))  # pyright: ignore[reportPrivateUsage]
    return replace(made, chosen=made.move(chosen) or blank)


def _streamed_us(op: DeviceKernelOp, sizes: Mapping[str, int], target: GemmTarget, device: Device) -> float:
    """What a kernel takes that multiplies no matrices: its tensors go by once, at the rate of DRAM."""
    values = {value for inner in op.walk() for value in inner.operands}
    moved = sum(_bytes(v.type, sizes) for v in values if isinstance(v.type, TensorType))
    cost = target.facts.cost
    bandwidth = cost.get("dram_share", 1.0) * device.datasheet["dram_bandwidth"]
    return 1e6 * (moved / bandwidth + cost.get("launch", 0.0))


def _bytes(type: TensorType, sizes: Mapping[str, int]) -> float:
    known = [sizes.get(d, 1) if isinstance(d, str) else int(d) for d in type.dims]
    return math.prod(known) * dtype_bits(type.element_type) / 8


@lru_cache(maxsize=1 << 14)
def _settings(schedule: Schedule) -> Settings:
    """A schedule as the text of settings. Ranked schedules are asked for again and again."""
    return schedule_settings(schedule)


@lru_cache(maxsize=1 << 14)
def _compiled(schedule: Schedule) -> str:
    """What of a schedule machine code knows."""
    return canonical(schedule_settings(schedule.compiled))
