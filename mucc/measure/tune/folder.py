"""Folders that carry a plan, its libraries and their measurements from machine to machine.

plan.json       what is to be measured
<id>.so         a candidate's library
<id>.failed     why a candidate could not be built, as JSON
results.jsonl   a line for each measurement, written at once
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Generator
from typing import NamedTuple

from mucc.database.records import Choice, Record, Run, Status, best, choice_text
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.files.atomic import replace_file
from mucc.files.json_text import canonical
from mucc.measure.tune.plans import Candidate, Kernel, Plan, Size

PLAN = "plan.json"
RESULTS = "results.jsonl"


class Failure(NamedTuple):
    """Why a library is missing. One that is `lasting` is not built again: the compiler refused the code."""

    reason: str
    lasting: bool


class Result(NamedTuple):
    """What is known of a kernel at one size: every measurement on a card, and the fastest of them.

    `first` is how the model's choice for the size did; None where it was not measured.
    """

    kernel: Kernel
    size: Size
    card: str
    records: tuple[Record, ...]
    best: Record | None
    first: Record | None


class Folder:
    """A folder with a plan. Methods raise MU5302 or MU5303 for the plan, MU5308 for other files."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = os.fspath(path)

    # The plan

    def plan(self) -> Plan:
        """Read the plan. Raises MU5302 if the folder has none, MU5303 for one of a newer mucc."""
        name = self._name(PLAN)
        try:
            with open(name, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "its plan.json is no text"
            helps = ("`mucc tune FILE --dims … --build-only FOLDER` makes such a folder",)
            message = f"'{self.path}' holds no plan for tuning: {why}"
            raise DiagnosticError(Diagnostic("MU5302", message, helps=helps)) from error
        return Plan.from_json(text, f"'{name}'")

    def write_plan(self, plan: Plan) -> None:
        """Make the folder, with a plan in the place of an earlier one."""
        with self._writing():
            os.makedirs(self.path, exist_ok=True)
            replace_file(self._name(PLAN), plan.to_json().encode())

    # Libraries

    def library(self, candidate: Candidate) -> str | None:
        """Return the path of a candidate's library, if it was built."""
        return path if os.path.exists(path := self._name(f"{candidate.id}.so")) else None

    def add_library(self, candidate: Candidate, data: bytes) -> None:
        with self._writing():
            replace_file(self._name(f"{candidate.id}.so"), data, 0o777)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._name(f"{candidate.id}.failed"))

    def failure(self, candidate: Candidate) -> Failure | None:
        """Why a candidate's library is missing, where that is known."""
        try:
            with open(self._name(f"{candidate.id}.failed"), encoding="utf-8") as file:
                data = json.load(file)
            return Failure(str(data["reason"]), bool(data["lasting"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def add_failure(self, candidate: Candidate, failure: Failure) -> None:
        with self._writing():
            data = canonical(failure._asdict()).encode()
            replace_file(self._name(f"{candidate.id}.failed"), data)

    # Measurements

    def records(self) -> list[Record]:
        """Return the measurements, the last of each key."""
        found: dict[tuple[str, ...], Record] = {}
        try:
            with open(self._name(RESULTS), encoding="utf-8", errors="replace") as file:
                for line in file:
                    with contextlib.suppress(ValueError):  # a line that a kill cut short
                        record = Record.from_json(json.loads(line))
                        found[record.key] = record
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._unusable(error) from error
        return list(found.values())

    def add(self, records: list[Record]) -> None:
        """Append measurements. Each is there as soon as this returns."""
        text = "".join(f"{json.dumps(record.to_json())}\n" for record in records)
        with self._writing():
            descriptor = os.open(self._name(RESULTS), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                size = os.fstat(descriptor).st_size
                # A line that a kill cut short must not swallow the next.
                cut = size and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, (("\n" if cut else "") + text).encode())
            finally:
                os.close(descriptor)

    def _name(self, name: str) -> str:
        return os.path.join(self.path, name)

    @contextlib.contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> DiagnosticError:
        message = f"the folder '{self.path}' cannot be used: {error.strerror or error}"
        return DiagnosticError(Diagnostic("MU5308", message))


def results(folder: str | os.PathLike[str] | Folder) -> list[Result]:
    """Return the results of a folder for each kernel and size of its plan, the fastest card first."""
    folder = folder if isinstance(folder, Folder) else Folder(folder)
    plan, records = folder.plan(), folder.records()
    cards = list(dict.fromkeys(r.card for r in records if r.card)) or [""]
    return [
        result_of(kernel, size, card, [r for r in records if r.support == plan.support])
        for card in cards
        for kernel in plan.kernels
        for size in kernel.sizes
    ]


def result_of(kernel: Kernel, size: Size, card: str, records: list[Record]) -> Result:
    """Return the result of a kernel at one size on a card from its records."""
    dims = canonical(dict(size.dims))
    found = tuple(
        r
        for r in records
        if (r.kernel, r.target, canonical(dict(r.dims))) == (kernel.digest, kernel.target, dims)
        and r.card in (card, "")
    )
    first = choice_text(_first(kernel, size))
    begun = next((r for r in found if choice_text(r.choice) == first), None)
    return Result(kernel, size, card, found, best(list(found)), begun)


def _first(kernel: Kernel, size: Size) -> Choice:
    """Return the model's choice for a size; for several contractions, the one that the plan began with."""
    if not kernel.candidates or len(kernel.bodies) > 1:
        return kernel.candidates[0].choice if kernel.candidates else {}
    i = kernel.sizes.index(size)
    return min(kernel.candidates, key=lambda c: math.inf if (e := c.estimates[i]) is None else e).choice


def build_failure(failure: Failure) -> Run:
    """Return a failed build as the outcome of measuring its candidate."""
    return Run(Status.BUILD, failure.reason)
