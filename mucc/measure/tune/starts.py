"""Begin a plan with the best measured choices, for kernels of several contractions."""

from __future__ import annotations

from mucc.database.records import Choice, best
from mucc.database.store import Store
from mucc.measure.tune.analysis import analyse
from mucc.measure.tune.plans import Program


def starts(program: Program, target: str) -> dict[str, Choice]:
    """By a kernel's digest, the best choice that was measured, for kernels of several contractions."""
    found: dict[str, Choice] = {}
    with Store() as store:
        if not store.exists:
            return {}
        for analysis in analyse(program, target, keep_pins=False):
            if len(analysis.stages) < 2:
                continue
            if (record := best(store.of_kernel(target, analysis.kernel.digest))) is not None:
                found[analysis.kernel.digest] = record.choice
    return found
