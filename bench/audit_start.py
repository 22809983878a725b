"""Time the start of both processes of an audit, confined, once torch is loaded: wall time, and CPU time of
each process.

    python -m bench.audit_start [--times 20] [--record NAME] SAMPLE

The sample is a file in `test/agent`, such as `cheats/honest`; its process can read the sources beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.audit_costs import SAMPLES
from bench.common import at_least_one, cpu_label, run_main, write_result
from mucc.agent.audit.auditing import PRELOADED
from mucc.agent.audit.solutions import sources_beside
from mucc.agent.isolation.process import Child
from mucc.agent.isolation.zygote import Zygote
from mucc.api import processes

REST = 1.5
"""Seconds between starts, in which spare processes for the next audit are made."""

LIMITS = (60.0, 1 << 36)
"""Seconds and bytes that a process may take."""


def spent_ms(*pids: int) -> float:
    """Return the CPU time that processes have taken so far, in ms."""
    ns = 0
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            ns += int(path.read_text().split()[0])
    return ns / 1e6


def start(zygote: Zygote, solution: str) -> dict[str, float]:
    """Start the two processes of an audit; return what that took in ms."""
    with tempfile.TemporaryDirectory() as folder:
        server = zygote.start().pid
        waiting = {pid: spent_ms(pid) for pid in processes.descendants(server)}
        own, theirs, began = time.thread_time(), spent_ms(server), time.perf_counter()
        found: dict[str, float] = {}
        with Child(zygote, "mucc.agent.audit.judge", folder, *LIMITS) as judge:
            found["judge_ms"] = (time.perf_counter() - began) * 1e3
            readable = sources_beside(solution)
            with Child(zygote, "mucc.agent.audit.candidate", folder, *LIMITS, readable=readable) as other:
                found["wall_ms"] = (time.perf_counter() - began) * 1e3
                found["parent_cpu_ms"] = (time.thread_time() - own) * 1e3
                found["server_cpu_ms"] = spent_ms(server) - theirs
                for name, pid in (("judge", judge.pid), ("candidate", other.pid)):
                    found[f"{name}_cpu_ms"] = spent_ms(pid) - waiting.get(pid, 0.0)
    found["cpu_ms"] = sum(ms for name, ms in found.items() if name.endswith("_cpu_ms"))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Start the processes some times, and print or record the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sample")
    parser.add_argument("--times", type=at_least_one, default=20)
    parser.add_argument("--record", default="", help="name of the result")
    args = parser.parse_args(argv)
    solution = SAMPLES / f"{args.sample}.py"
    if not solution.exists():
        raise SystemExit(f"there is no sample {solution}")
    rows: list[dict[str, Any]] = []
    with Zygote(PRELOADED) as zygote:
        zygote.layers()
        for n in range(args.times + 1):
            time.sleep(REST)
            row = start(zygote, str(solution))
            if n:  # the first one loads modules
                rows.append({name: round(ms, 2) for name, ms in row.items()})
    figures = {f"audit_start.{name}": statistics.median(row[name] for row in rows) for name in rows[0]}
    figures["audit_start.least_wall_ms"] = min(row["wall_ms"] for row in rows)
    print(json.dumps(figures, indent=1))
    if args.record:
        write_result(cpu_label(), args.record, rows, figures, module="audit_start")


if __name__ == "__main__":
    run_main(main)
