"""Whether starting mucc takes longer than at an earlier commit: `python -m bench.startup CHECKOUT`.

Commands of this checkout and of another one take turns in fresh processes, so that both see the same
machine. A row has the medians of seconds of wall and of processor time of each, the median ratio of pairs,
and the number of modules that the command loads. What `pip install mucc` brings is compared, too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from bench.common import ROOT, Row, at_least_one, cpu_label, kept_bytecode, run_main, write_result
from bench.compile import lines_of_kernels

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "help": ("--help",),
    "check": ("check", "k.mcu"),
    "emit": ("k.mcu", "--emit=cu"),
    "version": ("--version",),
}

MODULES = """
import sys
from mucc.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(len(sys.modules), file=sys.stderr)
"""
"""A program that runs a command and prints the number of modules last."""


def timed(checkout: Path, words: tuple[str, ...], folder: str) -> tuple[float, float]:
    """Run a command of a checkout; seconds of wall and of processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    _run(checkout, ["-m", "mucc", *words], folder)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def modules(checkout: Path, words: tuple[str, ...], folder: str) -> int:
    """Count the modules that a command loads."""
    return int(_run(checkout, ["-c", MODULES, *words], folder).splitlines()[-1])


def _run(checkout: Path, words: list[str], folder: str) -> str:
    path = os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**kept_bytecode(), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def dependencies(checkout: Path) -> list[str]:
    """What an installation without extras needs."""
    return tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["dependencies"]


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("checkout", type=Path, help="the checkout to compare with")
    parser.add_argument("--runs", type=at_least_one, default=40, help="pairs of runs")
    parser.add_argument("--commit", default="", help="the commit of that checkout, for the record")
    options = parser.parse_args()
    checkouts = (options.checkout.resolve(), ROOT)
    rows: list[Row] = []
    summary: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
        Path(folder, "k.mcu").write_text(lines_of_kernels(100))
        for name, words in COMMANDS.items():
            for checkout in checkouts:  # compiled modules and file caches
                timed(checkout, words, folder)
            pairs: list[tuple[tuple[float, float], tuple[float, float]]] = []
            for i in range(options.runs):
                order = checkouts if i % 2 == 0 else checkouts[::-1]
                found = {checkout: timed(checkout, words, folder) for checkout in order}
                pairs.append((found[checkouts[0]], found[checkouts[1]]))
            row: dict[str, object] = {"command": " ".join(words), "runs": options.runs}
            for i, clock in enumerate(("wall", "processor")):
                row |= {f"{clock}_s_before": round(median(old[i] for old, _ in pairs), 4)}
                row |= {f"{clock}_s": round(median(new[i] for _, new in pairs), 4)}
                row |= {f"{clock}_ratio": round(median(new[i] / old[i] for old, new in pairs), 3)}
                summary[f"startup.{name}.{clock}_ratio"] = float(str(row[f"{clock}_ratio"]))
            old, new = (modules(checkout, words, folder) for checkout in checkouts)
            row |= {"modules_before": old, "modules": new}
            rows.append(row)
            print(row, flush=True)
    before, now = (dependencies(checkout) for checkout in checkouts)
    rows.append({"dependencies_before": before, "dependencies": now, "same": before == now})
    rows.append({"before": options.commit})
    print(f"dependencies are the same: {before == now}")
    write_result(cpu_label(), "startup", rows, summary)
    return 0


if __name__ == "__main__":
    run_main(main)
