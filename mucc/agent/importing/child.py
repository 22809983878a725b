"""The child process of `import_tasks`: import a problem file, and compute its speed of light.

Runs where torch is loaded, in a process that ends with the problem (agent/isolation/call). What is called
there takes and returns values of JSON.
"""

from __future__ import annotations

import dataclasses

from mucc.agent.core.tasks import DRIVER_FILE, PROBLEM_FILE, PROGRAM_FILE, Compiled, Imported, OpaqueOperation
from mucc.api import bounds
from mucc.api.bounds import DRAM, FP32, Rates, Sol, analyse_import
from mucc.api.diagnostics import DiagnosticError
from mucc.api.importer import Answer, OperationRow, Request, kernel_name, serve
from mucc.api.json_types import Json, SolReport, to_json
from mucc.api.machine import get_card

COMPUTE = {"declared": None, "tf32": "tf32", "f16": "tf32", "bf16": "tf32"}
"""The arithmetic of products of f32 under each policy: the fastest of `mucc import --compute`.
Narrower operands are for proposers to write."""

_CONVOLUTION = "conv"
"""What names of PyTorch's convolutions have in common."""


def import_problem(request: Json) -> Json:
    """Import a problem for a `Request`, and return the `Answer`. Raises DiagnosticError."""
    return serve(Request.from_json(request)).to_json()


def bound_problem(request: Json, card: str) -> SolReport:
    """Return the report of `mucc sol` on the problem file of a `Request`. Raises DiagnosticError."""
    asked = dataclasses.replace(Request.from_json(request), whole=True, structure=True)
    return bounds.as_json(analyse_import(serve(asked), asked.name, asked.shown, get_card(card)))


def import_task(path: str, text: str, precision: str, card: str, target: str) -> Json:
    """Import a problem file, given by its path and its text at the beginning of the run: `imported`, and the
    report of `mucc sol` as `sol`. Raises DiagnosticError.
    """
    compute = COMPUTE[precision]
    request = Request.of(
        PROBLEM_FILE,
        text,
        output=PROGRAM_FILE,
        driver=DRIVER_FILE,
        name=kernel_name(path),
        target=target,
        compute=compute,
        structure=True,
    )
    request = dataclasses.replace(request, shown=path)
    made = serve(request)
    opaque = [row for row in made.rows if row.kernel is None]
    whole = serve(dataclasses.replace(request, whole=True)) if opaque else made
    sol = _bounded(whole, request.name, path, card)
    weights = weights_of(made.rows, compute, card)
    there = Compiled.NONE if not made.text else Compiled.PART if opaque else Compiled.WHOLE
    imported = Imported(
        request.name,
        made.text,
        made.driver,
        there,
        share(made.rows, weights),
        [
            OpaqueOperation(row.operation, round(weight / (sum(weights) or 1.0), 4), row.reason)
            for row, weight in zip(made.rows, weights, strict=True)
            if row.kernel is None
        ],
    )
    return {"imported": to_json(imported), "sol": bounds.as_json(sol) if sol else {}}


def _bounded(answer: Answer, name: str, path: str, card: str) -> Sol | None:
    """Return the speed of light of an import, None where nothing of it is known."""
    try:
        return analyse_import(answer, name, path, get_card(card))
    except DiagnosticError as error:
        if error.diagnostics[0].code == "MU5409":
            return None
        raise


def weights_of(rows: list[OperationRow], compute: str | None, card: str) -> list[float]:
    """Return the bound of each operation taken alone, in seconds."""
    found = get_card(card)
    rates = Rates(found.device, found.target.facts.multiprocessor)

    def seconds(row: OperationRow) -> float:
        if units := row.units:
            name = "tf32" if compute in ("tf32", "tf32x3") else "declared"
            return rates.bound(units[name], row.bytes).seconds
        tensor = compute in ("tf32", "tf32x3") or _CONVOLUTION in row.operation
        return max(row.operations / rates["tensor.tf32" if tensor else FP32], row.bytes / rates[DRAM])

    return [seconds(row) for row in rows]


def share(rows: list[OperationRow], weights: list[float]) -> float:
    """Return the part of the operations' bounds that compiled ones have."""
    whole = sum(weights)
    kept = sum(w for row, w in zip(rows, weights, strict=True) if row.kernel is not None)
    return kept / whole if whole else 0.0
