"""Tasks: the problems of a run, with what is known before any attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mucc.api.json_types import DiagnosticJson, SolReport
from mucc.api.machine import wanted_by

BASELINES = ("default", "tf32", "compile")
"""PyTorch with its defaults, PyTorch with all products in tf32, and torch.compile with all products in
tf32."""

PROBLEM_FILE, PROGRAM_FILE, DRIVER_FILE = "problem.py", "best.mcu", "driver.py"
"""What lies together in a folder for a driver to work: its problem file, the program (or a newer library
`best.so`), itself."""


class Compiled(StrEnum):
    """The part of a problem that mucc compiles."""

    WHOLE = "whole"
    PART = "part"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class OpaqueOperation:
    """An operation that PyTorch runs, its share of the bound, 0 to 1, and why it has no kernel."""

    operation: str
    share: float = 0.0
    reason: str | None = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """The import of a problem file: the program, the driver that calls its kernels, and the operations that
    PyTorch runs (`opaque`). The driver looks for PROBLEM_FILE and PROGRAM_FILE in its own folder.

    `share` is the part of the bound that kernels have, 0 to 1. `error` is the diagnostic where a problem
    could not be imported.
    """

    name: str
    program: str = ""
    driver: str = ""
    compiled: Compiled = Compiled.NONE
    share: float = 0.0
    opaque: list[OpaqueOperation] = field(default_factory=list[OpaqueOperation])
    error: DiagnosticJson | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A problem of a run.

    `key` is unique in the run (`gemm/square`), `path` the problem file and `text` what it said when the run
    began. `precision` is the policy for products of f32: declared, tf32, f16 or bf16. `sol` is the report of
    `mucc sol --json` on the card under that policy. `bound_ms` is the speed of light that stopping and
    steering use; None where it is not known, or not whole: then `least_ms` is what the counted part takes,
    which is no measure of what is left to gain. `baselines` are the baselines' times in ms by name, empty
    before they are measured.
    """

    key: str
    path: str
    text: str
    precision: str
    card: str
    target: str
    imported: Imported
    sol: SolReport = field(default_factory=SolReport)
    bound_ms: float | None = None
    baselines: dict[str, float] = field(default_factory=dict[str, float])
    least_ms: float | None = None

    @property
    def floor_ms(self) -> float | None:
        """The known lower bound of the time in ms."""
        return self.bound_ms or self.least_ms

    @property
    def gpu_memory(self) -> int:
        """The bytes of GPU memory that a process of the task may take."""
        limits = [bound.get("limits", {}) for bound in self.sol.get("assumptions", {}).values()]
        moved = (float(units["dram"]["amount"]) for units in limits if "dram" in units)
        return wanted_by(max(moved, default=0.0))
