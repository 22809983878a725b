"""What becomes of a problem file: its program and driver, what is left to PyTorch, its speed of light.

Runs where torch is loaded, in a process that ends with the problem (agent/engine/import_server).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mucc.agent.core.tasks import DRIVER_FILE, PROBLEM_FILE, PROGRAM_FILE, Compiled, Imported
from mucc.analysis import sol_report
from mucc.analysis.bound import DRAM, FP32, Rates
from mucc.analysis.program import analyse_problem
from mucc.analysis.sol import Sol
from mucc.analysis.structure import Structure
from mucc.diagnostics.core import Source
from mucc.frontend.torch_import.child import serve
from mucc.frontend.torch_import.request import Answer, Request, kernel_name
from mucc.target.devices import get_card

Values = dict[str, Any]

COMPUTE = {"declared": None, "tf32": "tf32", "f16": "tf32", "bf16": "tf32"}
"""What products of f32 are imported in under each policy: the fastest that `mucc import --compute` can say.
Narrower operands are for proposers to write."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """The import of one problem file: its path, and its text at the beginning of the run."""

    path: str
    text: str
    precision: str
    card: str
    target: str


def import_task(asked: Asked) -> tuple[Imported, Values]:
    """What was imported, and the report of `mucc sol`. Raises DiagnosticError."""
    compute = COMPUTE[asked.precision]
    request = Request.of(
        PROBLEM_FILE,
        asked.text,
        output=PROGRAM_FILE,
        driver=DRIVER_FILE,
        name=kernel_name(asked.path),
        target=asked.target,
        compute=compute,
        structure=True,
    )
    request = dataclasses.replace(request, shown=asked.path)
    made = serve(request)
    opaque = [row for row in made.rows if row["kernel"] is None]
    whole = serve(dataclasses.replace(request, whole=True)) if opaque else made
    report = sol_report.as_json(sol_of(whole, request.name, asked.card)) if whole.text else {}
    weights = weights_of(made.rows, compute, asked.card)
    there = Compiled.NONE if not made.text else Compiled.PART if opaque else Compiled.WHOLE
    imported = Imported(
        request.name,
        made.text,
        made.driver,
        there,
        share(made.rows, weights),
        [
            {
                "operation": row["operation"],
                "share": round(weight / (sum(weights) or 1.0), 4),
                "reason": row["reason"],
            }
            for row, weight in zip(made.rows, weights, strict=True)
            if row["kernel"] is None
        ],
    )
    return imported, report


def sol_of(answer: Answer, name: str, card: str) -> Sol:
    """The speed of light of an imported problem. Raises DiagnosticError."""
    inputs = {argument: Structure.of(said) for argument, said in answer.structure.items()}
    return analyse_problem(Source(f"{name}.mcu", answer.text), get_card(card), name, answer.inner, inputs)


def weights_of(rows: list[Values], compute: str | None, card: str) -> list[float]:
    """The bound of each operation taken alone, in seconds."""
    found = get_card(card)
    rates = Rates(found.device, found.target.facts.multiprocessor)

    def seconds(row: Values) -> float:
        tensor = compute in ("tf32", "tf32x3") or "conv" in row["operation"]
        return max(row["operations"] / rates["tensor.tf32" if tensor else FP32], row["bytes"] / rates[DRAM])

    return [seconds(row) for row in rows]


def share(rows: list[Values], weights: list[float]) -> float:
    """The part of the operations' bounds that compiled ones have."""
    whole = sum(weights)
    kept = sum(w for row, w in zip(rows, weights, strict=True) if row["kernel"] is not None)
    return kept / whole if whole else 0.0
