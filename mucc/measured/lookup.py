"""The pass that takes schedules from measurements, where there are some, before it asks the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from mucc.diagnostics.core import DiagnosticError, DiagnosticSink, Severity
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.kernels.gemm.description import pointwise_digest
from mucc.kernels.gemm.select import GemmQuery
from mucc.kernels.interface import Query
from mucc.measured.records import Record, Settings, best, canonical, kernel_digest, signature, support_digest
from mucc.measured.store import Store
from mucc.passes.select_schedule import SelectSchedule

PATIENCE = 2.0
"""Seconds that a compilation waits for a database that another process keeps locked."""


@dataclass(frozen=True)
class SelectMeasured(SelectSchedule):
    """Takes the best schedule that was measured for the same problem, with the same extents.

    Settings of the program's own schedules hold: a measurement counts only where it agrees with them.
    `kernels` has the digests of kernels by name, `used` says afterwards where schedules came from.
    """

    kernels: Mapping[str, str] = field(default_factory=dict[str, str])
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)
    used: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    @staticmethod
    def of(module: ModuleOp, sizes: Mapping[str, int], sink: DiagnosticSink) -> SelectMeasured:
        """For a module as the frontend made it. Trouble with the database is a warning in `sink`."""
        words = tuple(f"{name}={value}" for name, value in sizes.items())
        kernels = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
        return SelectMeasured(words, {k.sym_name.data: kernel_digest(str(k)) for k in kernels}, sink)

    def measured(self, query: Query) -> Mapping[str, str]:
        """The settings of the best measurement, and a note of it in `used`."""
        if not isinstance(query, GemmQuery):
            return {}
        if None in (query.problem.m, query.problem.n, query.problem.k, query.problem.batch):
            return {}
        problem = signature(query.problem)
        try:
            with Store(patience=PATIENCE) as store:
                records = store.of_problem(query.target.name, problem)
        except DiagnosticError as error:
            for diagnostic in error.diagnostics:
                self.sink.emit(dataclasses.replace(diagnostic, severity=Severity.WARNING))
            return {}
        cards = [device.name for device in query.target.facts.devices]
        wanted = Wanted(
            self.kernels.get(query.kernel, ""),
            query.stage,
            problem,
            pointwise_digest(query.gemm),
            query.fixed,
        )
        for record, settings in preferred(records, wanted, cards):
            if is_legal(query, settings):
                self.used[query.kernel, query.stage] = origin(record)
                return settings
        return {}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a schedule is looked for: `kernel` and `body` are digests, `fixed` is what is pinned."""

    kernel: str
    stage: str
    problem: str
    body: str
    fixed: Settings


def preferred(records: Iterable[Record], wanted: Wanted, cards: list[str]) -> list[tuple[Record, Settings]]:
    """Measurements that may be used with their schedule for the problem, the one to use first.

    Times of different programs, cards or sizes say nothing about each other, so those of one stage in one
    program on one card are one group, whose fastest counts. Groups of the same kernel come first, then those
    with the same pointwise work, those of this version of the kernels, of the card that is named first, of a
    kernel with nothing but this contraction; the group with most measurements, and the newest.
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        for stage in record.stages:
            agrees = all(stage.settings.get(name) == text for name, text in wanted.fixed.items())
            if stage.problem == wanted.problem and agrees:
                dims = canonical(dict(record.dims))
                key = (record.kernel, stage.name, dims, record.card, record.support, stage.body)
                groups.setdefault(key, []).append(record)

    def rank(item: tuple[tuple[str, ...], list[Record]]) -> tuple[object, ...]:
        (kernel, stage, _, card, support, body), group = item
        return (
            kernel == wanted.kernel,
            kernel == wanted.kernel and stage == wanted.stage,
            body == wanted.body,
            support == support_digest(),
            -cards.index(card) if card in cards else -len(cards),
            len(group[0].stages) == 1,
            len(group),
            max(r.date for r in group),
        )

    found: list[tuple[Record, Settings]] = []
    for (_, name, *_), group in sorted(groups.items(), key=rank, reverse=True):
        if (record := best(group)) is not None:
            found.append((record, record.choice[name]))
    return found


def is_legal(query: GemmQuery, settings: Settings) -> bool:
    """Whether the target still allows what was measured: its rules, or how settings are written, may have
    changed since."""
    try:
        choice = query.target.default_schedule(query.problem, {**settings, **query.fixed})
    except ValueError:
        return False
    return query.target.is_legal(query.problem.config(choice), choice.stages)


def origin(record: Record) -> str:
    """Where a schedule comes from, in a line."""
    dims = ",".join(f"{name}={value}" for name, value in record.dims.items())
    return f"{record.time_us:.1f} µs for {dims or record.name} on {record.card}, {record.date[:10]}"
