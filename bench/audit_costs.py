"""What audits take, phase by phase, when torch was loaded before; or whole processes of several checkouts.

    python -m bench.audit_costs --device cuda [--times 5] SAMPLE...
    python -m bench.audit_costs --device cpu --tree new=. --tree old=../before [--audits 4] SAMPLE...

Samples are names of files in `test/agent`, such as `cuda/honest`. With `--tree` processes that audit a
sample once and some times more run in turns, one of each checkout after the other: the difference is what an
audit takes after the first, in seconds of wall time and of processors, all processes together. The result is
recorded, with what `--tree` calls the checkouts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.audit import card_of
from bench.common import ROOT, at_least_one, run_main, write_result
from mucc.agent.audit import Options
from mucc.agent.audit.auditing import Auditor

SAMPLES = ROOT / "test" / "agent"

AUDITS = """
import sys
from mucc.agent.audit import Options
from mucc.agent.audit.auditing import Auditor
with Auditor() as auditor:
    for _ in range(int(sys.argv[1])):
        verdict = auditor.audit(*sys.argv[2:4], Options(device=sys.argv[4], bound=False))
        assert verdict.accepted, verdict.as_text()
"""


class Cost(NamedTuple):
    """Seconds of a process with all that it started."""

    wall: float
    cpu: float


def whole(tree: Path, sample: str, device: str, audits: int) -> Cost:
    """Audit a sample so often in a process of its own, by the modules of a checkout."""
    solution = SAMPLES / f"{sample}.py"
    argv = [sys.executable, "-c", AUDITS, str(audits)]
    argv += [str(solution.with_name("problem.py")), str(solution), device]
    others = os.environ.get("PYTHONPATH", "")
    started = time.monotonic()
    process = subprocess.Popen(
        argv, cwd=tree, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), others])}
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"audits by {tree} ended with status {process.returncode}")
    return Cost(time.monotonic() - started, used.ru_utime + used.ru_stime)


def compared(
    trees: Mapping[str, Path], sample: str, device: str, audits: int, times: int
) -> list[dict[str, Any]]:
    """Return a row for each pair of processes, the checkouts in turns."""
    rows: list[dict[str, Any]] = []
    for turn in range(times):
        for name, tree in trees.items():
            one, more = (whole(tree, sample, device, n) for n in (1, 1 + audits))
            row = {"sample": sample, "tree": name, "turn": turn, "first_s": one.wall, "first_cpu_s": one.cpu}
            row |= {"audit_s": (more.wall - one.wall) / audits, "audit_cpu_s": (more.cpu - one.cpu) / audits}
            rows.append({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def medians(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the medians of all times, by checkout and sample."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for kind in ("first_s", "first_cpu_s", "audit_s", "audit_cpu_s"):
            found.setdefault(f"audit_costs.{row['tree']}.{row['sample']}.{kind}", []).append(row[kind])
    return {name: round(statistics.median(values), 4) for name, values in found.items()}


def phases(sample: str, device: str, times: int) -> dict[str, float]:
    """Return the medians of an audit's phases in seconds, after a first one that loads torch."""
    rows: list[dict[str, float]] = []
    path = SAMPLES / f"{sample}.py"
    with Auditor() as auditor:
        for _ in range(times + 1):
            started = time.monotonic()
            verdict = auditor.audit(
                str(path.with_name("problem.py")), str(path), Options(device=device, bound=False)
            )
            rows.append({"whole": time.monotonic() - started, **verdict.seconds})
            print(sample, verdict.label.value, round(rows[-1]["whole"], 3), file=sys.stderr, flush=True)
    names = sorted({key for row in rows for key in row})
    return {key: round(statistics.median(row.get(key, 0.0) for row in rows[1:]), 4) for key in names}


def named(text: str) -> tuple[str, Path]:
    """Parse NAME=FOLDER, for argparse. Raises ArgumentTypeError."""
    name, _, folder = text.partition("=")
    if not name or not (Path(folder) / "mucc").is_dir():
        raise argparse.ArgumentTypeError(f"a checkout is NAME=FOLDER, and not {text!r}")
    return name, Path(folder).resolve()


def main(argv: Sequence[str] | None = None) -> None:
    """Audit each sample some times, and print or record the medians in seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("samples", nargs="+")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--times", type=at_least_one, default=5)
    parser.add_argument("--tree", type=named, action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--audits", type=at_least_one, default=4, help="audits after the first")
    args = parser.parse_args(argv)
    if not args.tree:
        print(json.dumps({name: phases(name, args.device, args.times) for name in args.samples}))
        return
    rows = [
        row
        for sample in args.samples
        for row in compared(dict(args.tree), sample, args.device, args.audits, args.times)
    ]
    figures = medians(rows)
    print(json.dumps(figures, indent=1))
    write_result(card_of(args.device), "audit_costs", rows, figures, module="audit_costs")


if __name__ == "__main__":
    run_main(main)
