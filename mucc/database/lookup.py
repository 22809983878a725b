"""Select measured schedules from the tuning database; the cost model chooses where there are none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from mucc.database.records import Record, Settings, best, kernel_digest, support_digest
from mucc.database.store import Store
from mucc.diagnostics.core import DiagnosticError, DiagnosticSink, Severity
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.settings import Chosen, parse_settings, texts_of
from mucc.files.json_text import canonical
from mucc.kernels.interface import Query
from mucc.kernels.registry import kind_of
from mucc.passes.select_schedule import SelectSchedule

PATIENCE = 2.0
"""Seconds that a compilation waits for a database that another process keeps locked."""


@dataclass(frozen=True)
class SelectMeasured(SelectSchedule):
    """Takes the best schedule that was measured for the same problem, with the same extents.

    Settings of the program's own schedules hold: a measurement counts only where it agrees with them.
    `kernels` has the kernels by name, which no pass changes; `used` says afterwards where schedules are from.
    """

    kernels: Mapping[str, KernelOp] = field(default_factory=dict[str, KernelOp])
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)
    used: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    @staticmethod
    def of(module: ModuleOp, sizes: Mapping[str, int], sink: DiagnosticSink) -> SelectMeasured:
        """For a module as the frontend made it, which no pass changes afterwards.

        Trouble with the database is a warning in `sink`.
        """
        words = tuple(f"{name}={value}" for name, value in sizes.items())
        kernels = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
        return SelectMeasured(words, {k.sym_name.data: k for k in kernels}, sink)

    def measured(self, query: Query) -> Chosen:
        """Return the settings of the best measurement, and note it in `used`."""
        workload = query.workload
        if not workload.is_sized:
            return {}
        stage, problem = query.op.stage.data, workload.signature
        try:
            with Store(patience=PATIENCE) as store:
                records = store.of_problem(workload.target.name, problem)
        except DiagnosticError as error:
            for diagnostic in error.diagnostics:
                self.sink.emit(dataclasses.replace(diagnostic, severity=Severity.WARNING))
            return {}
        if not records:
            return {}  # a digest takes longer than most passes
        cards = [device.name for device in workload.target.facts.devices]
        kernel = self.kernels.get(query.program)
        wanted = Wanted(
            kernel_digest(str(kernel)) if kernel is not None else "",
            stage,
            problem,
            kind_of(query.op).body(query.op),
            texts_of(query.fixed),
        )
        for record, texts in preferred(records, wanted, cards):
            if (settings := legal_settings(query, texts)) is not None:
                self.used[query.program, stage] = origin(record)
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


def legal_settings(query: Query, texts: Settings) -> Chosen | None:
    """Return the measured settings if the target still allows them; its rules may have changed since."""
    try:
        settings = parse_settings(texts)
    except ValueError:
        return None
    choice = query.workload.default({**settings, **query.fixed})
    return settings if query.workload.is_legal(choice) else None


def origin(record: Record) -> str:
    """Where a schedule comes from, in a line."""
    dims = ",".join(f"{name}={value}" for name, value in record.dims.items())
    return f"{record.time_us:.1f} µs for {dims or record.name} on {record.card}, {record.date[:10]}"
