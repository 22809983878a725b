"""Bundles: the kernels of a model in a cache of their own, for machines without a compiler.

The model is traced in a child process, on fake tensors. What torch.compile would ask for is built, or taken
from mucc's cache, and stored in a folder that MUCC_CACHE_SHARED names where the model runs.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mucc.build.artefact import Request as Build
from mucc.build.artefact import build, build_into
from mucc.build.pool import Pool
from mucc.compiler.typical_dims import sizes_of
from mucc.database.home import database_path
from mucc.database.store import Store
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity
from mucc.files.atomic import replace_file
from mucc.target.devices import get_card
from mucc.torch.importer import sandbox
from mucc.torch.importer.request import KernelProgram, Request, Tracing
from mucc.version import __version__

if TYPE_CHECKING:
    from mucc.build.artefact import Artefact

TUNING = "tuning.db"
"""The file of a bundle with the measurements by which its schedules were chosen."""

CONTENTS = "bundle.json"


@dataclass(frozen=True)
class Bundle:
    """What was built: kernels, how many of them were built anew, and what is wrong with others."""

    kernels: tuple[KernelProgram, ...]
    built: int
    problems: tuple[Diagnostic, ...]
    is_tuned: bool = False


def bundle(request: Request, folder: str | None, *, jobs: int | None = None, time_limit: float) -> Bundle:
    """Build the kernels of a problem file (`request.tracing`) into the cache, and into a folder if given.

    Kernels that do not compile are reported, since torch.compile leaves them to Inductor. Raises
    DiagnosticError: those of `sandbox.run`, MU5401 for an unknown card, MU5203 for a folder that cannot be
    written.
    """
    assert request.tracing is not None
    card = get_card(request.tracing.card)
    with contextlib.ExitStack() as undo:
        if folder is not None:
            # Before anything is built: not even the name may be fit for a folder.
            if not os.path.exists(folder):
                undo.callback(_remove_empty, folder)
            with _writing(folder):
                os.makedirs(folder, exist_ok=True)
        kernels = sandbox.run(request, time_limit).kernels
        undo.pop_all()
    built, problems = 0, list[Diagnostic]()
    with Pool(jobs) as pool:

        def make(kernel: KernelProgram) -> Artefact:
            sizes = sizes_of(kernel.dims)
            asked = Build(kernel.text.encode(), "<torch.compile>", "so", kernel.target, sizes=sizes)
            return build(asked, pool=pool) if folder is None else build_into(asked, folder, pool)

        for outcome in pool.map(make, kernels):
            try:
                built += not outcome.get().cached
            except DiagnosticError as error:
                problems += [d for d in error.diagnostics if d.severity is Severity.ERROR]
    tuned = folder is not None and _measurements(folder, card.target.name, card.device.name)
    if folder is not None:
        with _writing(folder):
            _contents(folder, request.tracing, kernels)
    return Bundle(tuple(kernels), built, tuple(problems), tuned)


def _remove_empty(folder: str) -> None:
    """Remove a folder in which there is nothing."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


@contextlib.contextmanager
def _writing(folder: str) -> Generator[None]:
    """Raise MU5203 where what is done with a folder fails."""
    try:
        yield
    except OSError as error:
        problem = Diagnostic("MU5203", f"'{folder}' cannot be written: {error.strerror}")
        raise DiagnosticError(problem) from error


def _measurements(folder: str, target: str, card: str) -> bool:
    """Copy what was measured on a card into a folder; returns whether there is anything."""
    if not os.path.exists(database_path()):
        return False
    with Store() as store:
        records = [r for r in store.all() if r.target == target and r.card == card]
    if records:
        path = os.path.join(folder, TUNING)
        is_new = not os.path.exists(path)
        try:
            with Store(path) as store:
                store.merge(records)
        except DiagnosticError as error:
            if is_new:
                for part in (path, f"{path}-wal", f"{path}-shm"):
                    with contextlib.suppress(OSError):
                        os.unlink(part)
            problem = Diagnostic("MU5203", f"'{folder}' cannot be written: {error.diagnostics[0].message}")
            raise DiagnosticError(problem) from error
    return bool(records)


def _contents(folder: str, tracing: Tracing, kernels: Sequence[KernelProgram]) -> None:
    found = {
        "mucc": __version__,
        "card": tracing.card,
        "mode": tracing.mode,
        "trains": tracing.trains,
        "kernels": [k.text for k in kernels],
    }
    replace_file(os.path.join(folder, CONTENTS), (json.dumps(found, indent=1) + "\n").encode())
