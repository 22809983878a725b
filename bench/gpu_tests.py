"""Run the tests that need a GPU, and record what came out: `python -m bench.gpu_tests [PYTEST ARGUMENTS]`."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from bench.common import ROOT, run_main, write_result
from bench.timing import card


def outcome(case: ET.Element) -> str:
    """What became of a test: passed, skipped, failed or error."""
    for kind in ("skipped", "failure", "error"):
        if case.find(kind) is not None:
            return "failed" if kind == "failure" else kind
    return "passed"


def main() -> int:
    """Run, print pytest's own report, write the result; the exit status is pytest's."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.xml")
        command = [sys.executable, "-m", "pytest", "test/gpu", f"--junitxml={report}", *sys.argv[1:]]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        cases = list(ET.parse(report).iter("testcase"))
    rows = [
        {"test": c.get("name"), "outcome": outcome(c), "seconds": round(float(c.get("time", "0")), 2)}
        for c in cases
    ]
    counts = {f"gpu_tests.{k}": 0.0 for k in ("passed", "failed", "error", "skipped")}
    for row in rows:
        counts[f"gpu_tests.{row['outcome']}"] += 1
    torch: Any = importlib.import_module("torch")
    label = card(torch) if torch.cuda.is_available() else "no-gpu"
    versions = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    print(write_result(label, "gpu_tests", rows, counts, extra_versions=versions))
    return status


if __name__ == "__main__":
    run_main(main)
