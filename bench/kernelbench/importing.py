"""The first stage: what becomes of a problem file, its bound, and whether it means what PyTorch computes.

    <folder>/<group>/<problem>/problem.py             the problem file
                               <name>.mcu             what mucc compiles of it
                               <name>_driver.py       `ModelNew`, which runs it

A problem is imported with what mucc compiles, which is timed; and, where that is not all of it, once more
with all that the language says, for the bound. Both run in the process of the problem.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from bench.kernelbench.options import Options
from mucc.agent.importing.child import share, weights_of
from mucc.agent.importing.problems import Problem
from mucc.analysis.sol import Sol
from mucc.diagnostics.core import DiagnosticError
from mucc.files.atomic import replace_file
from mucc.sol.program import analyse_import
from mucc.target.devices import get_card
from mucc.torch.importer.child import serve
from mucc.torch.importer.request import Answer, Request, kernel_name

Values = dict[str, Any]


def folder_of(problem: Problem, options: Options) -> Path:
    """Where the files of a problem lie."""
    return options.folder / problem.group / problem.name


def import_problem(problem: Problem, options: Options) -> Values:
    """What became of one problem. Loads torch; runs in the process of the problem."""
    folder = folder_of(problem, options).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    text = problem.path.read_text()
    replace_file(str(folder / "problem.py"), text.encode())
    asked = request_of(
        problem, folder, text, target=options.target, compute=options.compute, structure=not options.check
    )
    name = asked.name
    row: Values = {"imported": False, "name": name}
    try:
        made = serve(asked)
        row |= _made(made, options)
        _write(folder, name, made)
        whole = made
        if row["compiled"] != "whole" or options.check:
            whole = serve(dataclasses.replace(asked, whole=True, verify=options.check, structure=True))
        row |= _said(whole) | bound_of(whole, name, options.card)
        if options.check:
            row |= {
                "agrees": whole.agrees,
                "excess": max((c.excess for c in whole.checks), default=None),
                "checked": whole.checked,
            }
    except DiagnosticError as error:
        row |= {"error": str(error)[:300], "code": error.diagnostics[0].code}
    return row


def request_of(problem: Problem, folder: Path, text: str, **more: Any) -> Request:
    """The import of a problem, as if its file lay in a folder as `problem.py`."""
    name = kernel_name(problem.path.name)
    return Request(
        str(folder / "problem.py"),
        problem.path.name,
        text,
        name,
        str(folder / f"{name}.mcu"),
        str(folder / f"{name}_driver.py"),
        **more,
    )


def _write(folder: Path, name: str, made: Answer) -> None:
    for suffix, content in ((".mcu", made.text), ("_driver.py", made.driver)):
        path = folder / f"{name}{suffix}"
        if content:
            replace_file(str(path), content.encode())
        else:
            path.unlink(missing_ok=True)


def _made(made: Answer, options: Options) -> Values:
    """What mucc compiles of a problem."""
    opaque = [row for row in made.rows if row.kernel is None]
    kernels = len({row.kernel for row in made.rows} - {None})
    return {
        "imported": True,
        "seconds": round(made.seconds["total"], 3),
        "cpu_seconds": round(made.seconds["cpu"], 3),
        "operations": len(made.rows),
        "kernels": kernels,
        "compiled": "none" if not kernels else "parts" if opaque else "whole",
        "share": round(share(made.rows, weights_of(made.rows, options.compute, options.card)), 4),
        "opaque": sorted({row.operation for row in opaque}),
        "reasons": {row.operation: row.reason for row in opaque},
    }


def _said(whole: Answer) -> Values:
    """What the language does not say."""
    return {"unsaid": {r.operation: r.reason for r in whole.rows if r.kernel is None}}


def bound_of(whole: Answer, name: str, card: str) -> Values:
    """The speed of light of an imported problem; nothing where nothing of it is understood.

    `sol_ms` is the bound as declared, `sol_tf32_ms` and `sol_f32_ms` with products of f32 in those formats.
    `missing` names what it leaves out.
    """
    try:
        sol = analyse_import(whole, name, name, get_card(card))
    except DiagnosticError:
        return {}
    return {
        "missing": list(sol.missing),
        "sol_ms": _ms(sol, "as declared"),
        "sol_tf32_ms": _ms(sol, "f32 products in tf32"),
        "sol_f32_ms": _ms(sol, "f32 products in f32"),
        "binding": sol.bound.binding,
        "amounts": {x.unit: x.amount for x in sol.bound.limits if x.amount},
        "facts": list(sol.facts),
    }


def _ms(sol: Sol, assumption: str) -> float:
    bound = next((a.bound for a in sol.assumptions if a.name == assumption), sol.bound)
    return bound.seconds * 1e3
