"""Measured times of compilers in the tuning database: of regions of graphs, and of whole graphs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from math import inf, isfinite

from mucc.database.records import Record, Run, Stage, Status, support_digest, today
from mucc.database.store import Store
from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer.capture import torch
from mucc.version import __version__

log = logging.getLogger("mucc.torch")

PATIENCE = 2.0
"""Seconds to wait for a database that another process keeps locked."""


def stored(target: str, card: str, key: str) -> dict[str, float]:
    """Return the seconds of each compiler that were measured under a key; infinite if it was wrong."""
    times: dict[str, float] = {}
    try:
        with Store(patience=PATIENCE) as store:
            records = store.of_kernel(target, key)
    except DiagnosticError as error:
        log.info("no measured times: %s", error)
        return {}
    for record in records:
        if record.card == card and record.support == support_digest():
            (stage,) = record.stages
            times[stage.name] = record.time_us / 1e6 if record.is_good else inf
    return times


def store(target: str, card: str, key: str, name: str, what: str, times: Mapping[str, float]) -> None:
    """Store the seconds of each compiler under a key; infinite ones as those of a wrong result.

    `what` says what was compiled, "region" or "graph"; `name` is the name of its kernel, or "graph".
    """
    records = [
        Record(
            target,
            card,
            key,
            name,
            {},
            (Stage(compiler, f"{what} {key}", torch.__version__, {"lowered": compiler}),),
            Run(Status.GOOD, "", seconds * 1e6, 1, True)
            if isfinite(seconds)
            else Run(Status.WRONG, "differs from Inductor's result"),
            support_digest(),
            __version__,
            today(),
        )
        for compiler, seconds in times.items()
    ]
    try:
        with Store(patience=PATIENCE) as database:
            database.add(records)
    except DiagnosticError as error:
        log.info("measured times are not kept: %s", error)
