"""Import every problem file of some folders, and compare what was imported with PyTorch at reduced sizes.

    python -m bench.kernelbench.imports KernelBench/level1 KernelBench/level2

Each file is imported twice, in a process of its own that finds torch loaded: with what mucc
compiles, which is timed, and whole, with all that the language says, for the comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from bench.common import RESULTS, cpu_label, versions, write_result
from mucc.cli.imports import kernel_name
from mucc.diagnostics.core import DiagnosticError
from mucc.frontend.torch_import.child import TORCH, serve
from mucc.frontend.torch_import.request import Answer, Request

LIMIT = 240.0
"""Seconds for one problem, verification included."""


def problem_files(folders: list[str]) -> list[Path]:
    """The problem files of folders, by their numbers."""

    def place(path: Path) -> tuple[str, int, str]:
        number = re.match(r"\d+", path.name)
        return path.parent.name, int(number[0]) if number else 0, path.name

    return sorted((p for folder in folders for p in Path(folder).glob("*.py")), key=place)


def _share(rows: list[dict[str, Any]], key: str) -> float:
    whole = sum(row[key] for row in rows)
    return sum(row[key] for row in rows if row["kernel"] is None) / whole if whole else 0.0


def _imported(path: Path, **options: Any) -> Answer:
    name = kernel_name(path.name)
    where = {"kernels": f"{name}.mcu", "driver": f"{name}_driver.py"}
    return serve(Request(str(path), path.name, path.read_text(), name, **where, **options))


def measure(path: Path) -> dict[str, Any]:
    """What became of one problem; runs in the process of the problem."""
    row: dict[str, Any] = {"level": path.parent.name, "problem": path.stem}
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            compiled = _imported(path)
            row |= {
                "imported": True,
                "seconds": round(compiled.seconds["total"], 3),
                "cpu_seconds": round(compiled.seconds["cpu"], 3),
                "operations": len(compiled.rows),
                "opaque": sorted({r["operation"] for r in compiled.rows if r["kernel"] is None}),
                "opaque_operations_share": round(_share(compiled.rows, "operations"), 4),
                "opaque_bytes_share": round(_share(compiled.rows, "bytes"), 4),
            }
            whole = _imported(path, whole=True, verify=True)
            row |= {
                "unsaid": {r["operation"]: r["reason"] for r in whole.rows if r["kernel"] is None},
                "unsaid_operations_share": round(_share(whole.rows, "operations"), 4),
                "agrees": whole.agrees,
                "excess": max((c.excess for c in whole.checks), default=None),
                "checked": whole.checked,
            }
        except DiagnosticError as error:
            row |= {"imported": row.get("imported", False), "agrees": False, "error": str(error)[:300]}
    return row


def _serve(path: Path, connection: Any) -> None:
    try:
        connection.send(measure(path))
    except BaseException as error:
        connection.send({"error": f"{type(error).__name__}: {error}"[:300]})
    sys.stdout.flush()
    os._exit(0)


def run(path: Path) -> dict[str, Any]:
    """Measure one problem in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(path, theirs))
    process.start()
    theirs.close()
    row: dict[str, Any] = {
        "level": path.parent.name,
        "problem": path.stem,
        "imported": False,
        "agrees": False,
    }
    try:
        row |= ours.recv() if ours.poll(LIMIT) else {"error": f"no end within {LIMIT:.0f} s"}
    except EOFError:
        row["error"] = "the process ended"
    process.kill()
    process.join()
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The figures: how many import and agree, and how long it takes, by level."""
    figures: dict[str, float] = {}
    for level in sorted({row["level"] for row in rows}):
        own = [row for row in rows if row["level"] == level]
        seconds = [row["seconds"] for row in own if "seconds" in row]
        cpu = [row["cpu_seconds"] for row in own if "seconds" in row]
        figures |= {
            f"import.{level}.problems": len(own),
            f"import.{level}.imported": sum(row["imported"] for row in own),
            f"import.{level}.agree": sum(bool(row["agrees"]) for row in own),
            f"import.{level}.said_whole": sum(row.get("unsaid") == {} for row in own),
            f"import.{level}.compiled_whole": sum(row.get("opaque") == [] for row in own),
            f"import.{level}.median_s": round(median(seconds), 3) if seconds else 0.0,
            f"import.{level}.largest_s": max(seconds, default=0.0),
            f"import.{level}.largest_cpu_s": max(cpu, default=0.0),
        }
    return figures


def _earlier() -> list[dict[str, Any]]:
    """The rows of the result that there is: `--only` replaces some of them."""
    path = RESULTS / cpu_label() / "kernelbench.imports.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def main() -> None:
    """Measure all files, print a line for each, write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--only", default="", help="replace the rows of files that match this expression")
    parser.add_argument("-j", "--jobs", type=int, default=1)
    args = parser.parse_args()
    for name in TORCH:
        import_module(name)
    files = [p for p in problem_files(args.folders) if re.search(args.only, p.name)]
    rows: list[dict[str, Any]] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for row in pool.map(run, files):
            rows.append(row)
            state = "agrees" if row["agrees"] else "DIFFERS" if row["imported"] else "FAILED"
            rest = row.get("error") or ", ".join(row.get("unsaid", {}))
            print(
                f"{row['level']} {row['problem'][:50]:50} {row.get('seconds', 0):6.2f} s {state} {rest}",
                flush=True,
            )
    done = {(row["level"], row["problem"]): row for row in [*(_earlier() if args.only else []), *rows]}
    rows = list(done.values())
    figures = summary(rows)
    print(json.dumps(figures, indent=1))
    write_result(cpu_label(), "kernelbench.imports", rows, figures, extra_versions=versions("torch"))


if __name__ == "__main__":
    main()
