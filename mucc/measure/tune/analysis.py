"""Analyse a program for tuning: its kernels one by one, their stages with schedules, and their workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mucc.analysis.bound import Rates
from mucc.compiler.program import compile_source
from mucc.database.records import Settings, kernel_digest
from mucc.diagnostics.core import Diagnostic, DiagnosticError, did_you_mean
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.settings import Chosen, texts_of
from mucc.kernels.registry import kind_of
from mucc.kernels.settings import pinned
from mucc.kernels.workload import Workload
from mucc.library.dims import fault
from mucc.library.signature import KernelInfo, Manifest, evaluate
from mucc.measure.dims import check_promises, choose_kernel, complete_dims
from mucc.measure.tune.plans import Kernel, Program, Size
from mucc.target import get_target
from mucc.target.facts import Device, Target

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation


@dataclass(frozen=True, slots=True)
class Analysis:
    """A kernel without candidates, and for each stage with a schedule its workloads and what is pinned.

    `workloads` has one for every size. `stages` are in the order of tuning: the one with most operations
    first. With `keep_pins` the search holds what is pinned.
    """

    kernel: Kernel
    stages: tuple[str, ...]
    workloads: Mapping[str, tuple[Workload[Any], ...]]
    pins: Mapping[str, Chosen]
    keep_pins: bool = False

    def held(self, stage: str) -> Chosen:
        """Return the settings that every candidate of a stage has."""
        return self.pins[stage] if self.keep_pins else {}

    @property
    def pinned_texts(self) -> dict[str, Settings]:
        """What is pinned, as source has it."""
        return {stage: texts_of(settings) for stage, settings in self.pins.items()}


def analyse(program: Program, target: str, *, keep_pins: bool, card: str | None = None) -> list[Analysis]:
    """Each kernel of the program that has something to tune.

    Raises DiagnosticError for errors in the program, MU6050 to MU6053 for dims, MU5406 for a kernel that it
    has not, MU5304 where no kernel has settings.
    """
    compilation = compile_source(program.source, target, tuned=False)
    manifest = Manifest.parse(compilation.manifest)
    infos = {k.name: k for k in manifest.kernels}
    if program.kernel is not None:
        infos = {program.kernel: choose_kernel(manifest, program.kernel)}
    dims = _sizes(infos, program.dims)
    found = [_analysis(compilation, infos[name], dims[name], keep_pins, card) for name in infos]
    if not any(a.stages for a in found):
        message = f"{', '.join(infos)}: no kernel has settings, so there is no schedule to tune"
        note = "products and attention have; the ways to compute others are fixed (`--explain-schedule`)"
        raise DiagnosticError(Diagnostic("MU5304", message, notes=(note,)))
    return [a for a in found if a.stages]


def _sizes(
    infos: Mapping[str, KernelInfo], given: Sequence[Mapping[str, int]]
) -> dict[str, list[dict[str, int]]]:
    """Return the values for every dim of each kernel; names of dims that no kernel has are an error."""
    known = list(dict.fromkeys(d for info in infos.values() for d in info.dims))
    for name in (n for dims in given for n in dims if n not in known):
        meant = did_you_mean(name, known) or did_you_mean(name.upper(), known)
        help = f"did you mean '{meant}'?" if meant else f"the dims are {', '.join(known) or 'none'}"
        raise fault("MU6051", f"{', '.join(infos)} has no dim '{name}'", help)
    sizes: dict[str, list[dict[str, int]]] = {}
    for info in infos.values():
        complete = [
            complete_dims(info, {n: v for n, v in d.items() if n in info.dims}) for d in given or [{}]
        ]
        for dims in complete:
            check_promises(info, dims)
        sizes[info.name] = list({tuple(d.items()): d for d in complete}.values())
    return sizes


def _analysis(
    compilation: Compilation, info: KernelInfo, dims: list[dict[str, int]], keep_pins: bool, card: str | None
) -> Analysis:
    lowered = compilation.cutlass.body.block.ops
    program = next(op for op in lowered if isinstance(op, ProgramOp) and op.sym_name.data == info.name)
    schedules = [op for op in lowered if isinstance(op, ScheduleOp)]
    kernels = (op for op in compilation.mu.body.block.ops if isinstance(op, KernelOp))
    kernel = next(op for op in kernels if op.sym_name.data == info.name)
    target = get_target(program.target.data)
    scheduled = {op.stage.data: op for op in program.kernels if kind_of(op).has_schedule}
    workloads = {name: _workloads(target.name, op, dims) for name, op in scheduled.items()}
    pins = {name: pinned(schedules, program, name) for name in scheduled}
    rates = Rates(device_of(target, card), target.facts.multiprocessor)
    sizes = tuple(
        Size(
            d,
            {name: found[i].signature for name, found in workloads.items()},
            _bound_us(rates, info, d),
            float(sum(evaluate(t, d) for u, t in info.flops.items() if u.startswith("tensor"))),
        )
        for i, d in enumerate(dims)
    )
    return Analysis(
        Kernel(
            compilation.source.name,
            info.name,
            target.name,
            kernel_text(compilation, info.name),
            kernel_digest(str(kernel)),
            {name: kind_of(op).body(op) for name, op in scheduled.items()},
            sizes,
        ),
        tuple(sorted(scheduled, key=lambda name: -sum(w.work for w in workloads[name]))),
        workloads,
        pins,
        keep_pins,
    )


def kernel_text(compilation: Compilation, name: str) -> str:
    """One kernel of a source, without schedules and the comments around it."""
    span = next(k.span for k in compilation.program.kernels if k.name.text == name)
    return compilation.source.text[span.start : span.end] + "\n"


def _workloads(
    target: str, op: DeviceKernelOp, dims: Sequence[Mapping[str, int]]
) -> tuple[Workload[Any], ...]:
    """Return the workload of a kernel at each size."""
    found = (kind_of(op).workload(target, op, sizes) for sizes in dims)
    return tuple(workload for workload in found if workload is not None)


def _bound_us(rates: Rates, info: KernelInfo, dims: Mapping[str, int]) -> float | None:
    """Return the lower bound of a kernel's time in microseconds; None if the card's rates are not known."""
    operations = {unit: evaluate(terms, dims) for unit, terms in info.flops.items()}
    return 1e6 * rates.bound(operations, evaluate(info.bytes, dims)).seconds or None


def device_of(target: Target, card: str | None) -> Device:
    """Return the facts of a card, or those of the target's first card if it is not known."""
    devices = target.facts.devices
    return next((d for d in devices if d.name == card), devices[0])
