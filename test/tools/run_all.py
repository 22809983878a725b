"""Runs every check of the project, each to its end, and closes with a summary: what `make test` calls.

    python test/tools/run_all.py [--all]

Tests that are marked `long` run with `--all` only, which is `make test-all`; there property tests draw all of
their examples, and each command of a FileCheck test is a new interpreter instead of a fork. Checks that keep
one core busy run beside those that use all; their output follows when they have ended.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

INSTALL = [sys.executable, "test/tools/install_matrix.py", "--share"]
WORKERS = len(os.sched_getaffinity(0)) + 1
"""One more than cores: some tests wait for processes and times."""

PYTEST = [
    *(sys.executable, "-m", "pytest", "-n", str(WORKERS)),
    *("--dist", "loadscope", "--no-loadscope-reorder"),
]
SHARE = ["-m", "not long"]
ALONE = [sys.executable, "-m", "pytest", "test/gpu", "-m", "alone"]
"""Tests that need a GPU that no worker uses."""

BESIDE = {
    "install": INSTALL,
    "ruff": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "imports": ["lint-imports"],
    "pyright": ["pyright"],
}
"""What runs beside the rest, one after another."""


class Result(NamedTuple):
    """How a check ended, what it printed where that was kept, and its seconds."""

    name: str
    good: bool
    printed: str
    seconds: float


def environment() -> dict[str, str]:
    """The variables of checks: modules are compiled once, and not by each of a thousand processes.

    Pyright collects garbage less often with more room for new objects: an eighth of its time.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    room = f"{kept.get('NODE_OPTIONS', '')} --max-semi-space-size=128".strip()
    return {**kept, "NO_COLOR": "1", "NODE_OPTIONS": room}


def run(name: str, command: list[str], keep: bool = False, **variables: str) -> Result:
    """Run a check to its end; `keep` what it prints, instead of letting it through."""
    where = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if keep else {}
    started = time.monotonic()
    done = subprocess.run(command, env=environment() | variables, check=False, text=True, **where)
    return Result(name, done.returncode == 0, done.stdout or "", time.monotonic() - started)


def announced(name: str, command: list[str], **variables: str) -> Result:
    """Run a check whose output is shown as it comes."""
    print(f"== {name}: {' '.join(command)}", flush=True)
    return run(name, command, **variables)


def main() -> int:
    """Run all; the exit status says whether all passed."""
    parser = argparse.ArgumentParser(description="Run every check of the project.")
    parser.add_argument("--all", action="store_true", help="also tests that are marked long")
    whole = parser.parse_args().all
    share = [] if whole else SHARE
    with ThreadPoolExecutor(1) as beside:
        others: list[Future[Result]] = [
            beside.submit(run, name, command, keep=True) for name, command in BESIDE.items()
        ]
        results = [announced("lit", ["lit", "-sv", "test"], MUCC_TEST_FORKS=str(int(not whole)))]
        results.append(announced("pytest", [*PYTEST, *share], MUCC_TEST_SHARE=str(int(not whole))))
        if os.path.exists("/dev/nvidiactl"):
            results.append(announced("alone", ALONE))
    for other in others:
        found = other.result()
        print(f"== {found.name}: {' '.join(BESIDE[found.name])}\n{found.printed}", end="", flush=True)
        results.append(found)
    print("\n== summary")
    for name, good, _, seconds in results:
        print(f"{name:<8} {'passed' if good else 'FAILED'}  {seconds:6.1f} s")
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
