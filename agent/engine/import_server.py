"""The process that imports: loads torch once, and forks a child for each problem file.

    python -m mucc.agent.engine.import_server REQUESTS ANSWERS

REQUESTS is a JSON file with limits and a list of imports; each answer is a line of JSON on the descriptor
ANSWERS, as it comes: the place of the import, and `task` or `errors`. Must not make a context of CUDA.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mucc.agent.core.codec import to_json
from mucc.agent.engine.children import Limits, Turn, run_each
from mucc.agent.engine.imports import Asked, import_task
from mucc.diagnostics.core import DiagnosticError
from mucc.frontend.torch_import.child import TORCH
from mucc.frontend.torch_import.request import error_to_json

SAID = 8
"""Lines of what a problem file printed last that an error shows."""


@dataclasses.dataclass(frozen=True)
class _Place:
    number: int
    asked: Asked


def main() -> None:
    """Serve all requests."""
    requests = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    out = open(int(sys.argv[2]), "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    folder = Path(sys.argv[1]).parent
    for name in TORCH:
        import_module(name)
    limits = Limits(requests["seconds"], requests["memory"], address_space=True)
    places = [_Place(n, Asked(**asked)) for n, asked in enumerate(requests["asked"])]

    def log_of(place: _Place) -> Path:
        return folder / f"{place.number}.log"

    for place, values in run_each(places, _work, log_of, limits, requests["jobs"]):
        answer = values if "error" not in values else {"errors": [_failed(values["error"], log_of(place))]}
        out.write(json.dumps({"number": place.number, **answer}) + "\n")
    out.close()
    os._exit(0)


def _work(place: _Place, _: Turn) -> dict[str, Any]:
    try:
        imported, sol = import_task(place.asked)
    except DiagnosticError as error:
        return {"errors": error_to_json(error)}
    return {"imported": to_json(imported), "sol": sol}


def _failed(reason: str, log: Path) -> dict[str, Any]:
    """The diagnostic of an import that gave no answer."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace")[-10_000:].strip().splitlines()[-SAID:]
    except OSError:
        lines = []
    notes = ["\n".join(["it printed last:", *(line[:200] for line in lines)])] if lines else []
    return {"code": "MU7015", "message": reason, "notes": notes, "helps": []}


if __name__ == "__main__":
    main()
