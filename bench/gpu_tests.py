"""Run the tests that need a GPU, and record what came out.

    python -m bench.gpu_tests [PYTEST ARGUMENTS]
    python -m bench.gpu_tests --build-only [JOBS]
    python -m bench.gpu_tests --merge REPORT.xml...

With `--build-only` the programs of these tests are built into the cache, so many jobs at a time (all cores by
default); that needs no GPU. With `--merge` reports of pytest (`--junitxml`) become one result, with the last
outcome of each test. Without arguments all of `test/gpu` runs. With several workers (`-n`) tests that need
the GPU for themselves, marked `alone`, run after all others, in a process of their own, and have a report of
their own beside that of `--junitxml`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.common import ROOT, run_main, write_result
from bench.timing import card

FOLDER = "test/gpu"

MESSAGE = 2000
"""Characters that a result keeps of a failure."""


def outcome(case: ET.Element) -> str:
    """What became of a test: passed, skipped, failed or error."""
    for kind in ("skipped", "failure", "error"):
        if case.find(kind) is not None:
            return "failed" if kind == "failure" else kind
    return "passed"


def row(case: ET.Element) -> dict[str, Any]:
    """The name, outcome and seconds of a test, and of one that did not pass why."""
    kept = {
        "test": case.get("name"),
        "outcome": outcome(case),
        "seconds": round(float(case.get("time", "0")), 2),
    }
    why = next((e for e in case if e.tag in ("failure", "error", "skipped")), None)
    if why is not None:
        kept["why"] = (why.get("message") or why.text or "")[:MESSAGE]
    return kept


def programs() -> list[Path]:
    """The programs that the tests build, those of few kernels first."""
    folders = (ROOT / FOLDER / "programs", ROOT / "examples")
    paths = [path for folder in folders for path in folder.glob("*.mcu")]
    return sorted(paths, key=lambda path: (path.read_text(encoding="utf-8").count("kernel "), path.name))


def build(paths: Sequence[Path], jobs: int | None) -> int:
    """Build programs into the cache; the exit status is 1 where one has errors."""
    from mucc.build import artefact
    from mucc.build.pool import Pool

    # What tests/conftest.py sets: nothing measured on this machine changes what is compiled.
    os.environ["MUCC_TUNING_DB"] = os.path.join(tempfile.gettempdir(), "mucc-tests-have-none", "tuning.db")
    began, failed = time.monotonic(), 0
    with Pool(cores=jobs) as pool:

        def make(path: Path) -> bool:
            return artefact.build(artefact.Request(path.read_bytes(), path.name), pool=pool).cached

        for path, made in zip(paths, pool.map(make, paths, str), strict=True):
            word = "built" if made.error is None else str(made.error)
            failed += made.error is not None
            print(f"{time.monotonic() - began:6.1f} s  {path.name}: {word}", flush=True)
    return int(failed > 0)


def merge(reports: Sequence[Path]) -> Path:
    """Write the result of reports of pytest: the last outcome of each test."""
    cases = {(c.get("classname"), c.get("name")): c for r in reports for c in ET.parse(r).iter("testcase")}
    rows = [row(case) for case in cases.values()]
    counts = {f"gpu_tests.{k}": 0.0 for k in ("passed", "failed", "error", "skipped")}
    for one in rows:
        counts[f"gpu_tests.{one['outcome']}"] += 1
    torch: Any = importlib.import_module("torch")
    label = card(torch) if torch.cuda.is_available() else "no-gpu"
    versions = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    return write_result(label, "gpu_tests", rows, counts, extra_versions=versions)


class Run(NamedTuple):
    """A run of pytest: its arguments, and the path of its JUnit report."""

    arguments: list[str]
    report: Path


def runs(arguments: Sequence[str], folder: Path) -> list[Run]:
    """The runs of pytest, with reports in `folder` unless the arguments name one.

    A worker has a CUDA context from its first test on the GPU to its end, so that no lock could give the GPU
    to tests that need it alone: they run when workers have ended.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-n", "--numprocesses")
    parser.add_argument("-m", dest="marks")
    parser.add_argument("--junitxml", "--junit-xml", type=Path, default=folder / "report.xml")
    found, others = parser.parse_known_args(arguments)
    report: Path = found.junitxml
    if found.numprocesses in (None, "0", "1"):
        return [Run([*arguments, f"--junitxml={report}"], report)]
    chosen = f"({found.marks}) and " if found.marks else ""
    alone = report.with_stem(f"{report.stem}-alone")
    return [
        Run([*others, "-n", found.numprocesses, "-m", f"{chosen}not alone", f"--junitxml={report}"], report),
        Run([*others, "-n", "0", "-m", f"{chosen}alone", f"--junitxml={alone}"], alone),
    ]


NONE_COLLECTED = 5
"""The exit status of pytest that ran no test."""


def main() -> int:
    """Run, print pytest's own report, write the result; the exit status is that of the first bad run."""
    match sys.argv[1:]:
        case ["--build-only", *jobs]:
            return build(programs(), int(jobs[0]) if jobs else None)
        case ["--merge", *reports]:
            print(merge([Path(r) for r in reports]))
            return 0
        case arguments:
            pass
    folders = [] if any(FOLDER in a for a in arguments) else [FOLDER]
    with tempfile.TemporaryDirectory() as directory:
        made = runs([*folders, *arguments], Path(directory))
        statuses = [
            subprocess.run([sys.executable, "-m", "pytest", *run.arguments], cwd=ROOT, check=False).returncode
            for run in made
        ]
        print(merge([run.report for run in made]))
    ran = [status for status in statuses if status != NONE_COLLECTED]
    return next(filter(None, ran), 0) if ran else NONE_COLLECTED


if __name__ == "__main__":
    run_main(main)
