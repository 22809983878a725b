"""Problem files of the project's benchmarks, as what tests of imports ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mucc.torch.importer.request import Answer, Request

PROBLEMS = Path(__file__).parents[2] / "bench" / "kernelbench" / "problems"


def asked(path: Path, **options: Any) -> Request:
    """Return the request for an import of a problem file, with both of its outputs beside it."""
    where = {"kernels": str(path.with_suffix(".mcu")), "driver": str(path.with_suffix(".driver.py"))}
    return Request(str(path), path.name, path.read_text(), "model", **where, **options)


def imported(name: str, **options: Any) -> Answer:
    """Import one of the project's problem files in this process, and compare it with PyTorch."""
    from mucc.torch.importer.child import serve

    return serve(asked(PROBLEMS / f"{name}.py", verify=True, **options))


def operations(answer: Answer, kernel: bool) -> list[str]:
    """Return the operations of an import that became kernels, or those that did not."""
    return [row.operation for row in answer.rows if (row.kernel is not None) is kernel]
