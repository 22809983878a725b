"""Tuning: schedules that were measured, and the measuring.

* `plan`: which schedules of which programs to try for which sizes, as a value that a folder can hold
* `build`: a library for each distinct schedule, from parts and in parallel; needs nvcc, no GPU
* `measure`: every library on random inputs, checked and timed, in child processes; needs a GPU, no nvcc
* `survey`: every legal schedule of a program's contractions, with what the model says of it
* `results`: what a folder's measurements say
* the database, which later compilations consult (`mucc tune --list`), keeps what was measured

    plan = mucc.tune.plan([Program(source, [{"M": 4096, "N": 4096, "K": 4096}])], budget=12)
    mucc.tune.build(plan, folder)       # where nvcc is
    mucc.tune.measure(folder)           # where the GPU is
    for result in mucc.tune.results(folder): …

Importing this package imports nothing but what a name that is used needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.database.records import Record, Run
    from mucc.measure.tune.building import build
    from mucc.measure.tune.choosing import plan
    from mucc.measure.tune.folder import results
    from mucc.measure.tune.measure_folder import measure
    from mucc.measure.tune.plans import Plan, Program
    from mucc.measure.tune.ranking import survey

__all__ = ["Plan", "Program", "Record", "Run", "build", "measure", "plan", "results", "survey"]

_HOMES = {
    "Plan": "mucc.measure.tune.plans",
    "Program": "mucc.measure.tune.plans",
    "Record": "mucc.database.records",
    "Run": "mucc.database.records",
    "build": "mucc.measure.tune.building",
    "measure": "mucc.measure.tune.measure_folder",
    "plan": "mucc.measure.tune.choosing",
    "results": "mucc.measure.tune.folder",
    "survey": "mucc.measure.tune.ranking",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'mucc.tune' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
