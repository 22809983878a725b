"""How long commands go on after a signal, and what they leave behind: `python -m bench.signals`.

Compilers are scripts that sleep, with children that sleep, so that nothing is measured but mucc. Needs torch
for the commands that run problems.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.common import ROOT, cpu_label, run_main, versions, write_result
from mucc.process import processes

HANG = 300.0
"""Seconds after which a command counts as hanging."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

KERNEL = """
kernel {name}[M, N, K](x: bf16[M, K], w: bf16[K, N]) -> bf16[M, N]
    where K % 8 == 0, N % 8 == 0
{{
    return relu(x @ w)
}}
"""

COMPILER = """#!/bin/sh
case "$*" in
  *--version*) echo "Cuda compilation tools, release 13.0, V13.0.88"; exit ;;
  *-dumpversion*) echo 12.2.0; exit ;;
esac
{before}
sleep 600 &
sh -c 'sleep 600' &
echo half > kernel.so
: > {marks}/$$.new; mv {marks}/$$.new {marks}/$$
wait
"""
"""A compiler that never ends, with children and grandchildren; a file in `marks` says when they are there."""

PROBLEM = """
import subprocess, time
from pathlib import Path
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    subprocess.Popen(["sleep", "600"])
    Path({mark!r}).touch()
    time.sleep(600)

def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class Case:
    """A command line, and how many compilers work when the signal comes; 0 where it waits for input."""

    name: str
    words: tuple[str, ...]
    compilers: int = 0
    module: str = "mucc"


CASES = (
    Case("compile", ("a.mcu", "-o", "a.so"), 2),
    Case("compile -j", ("a.mcu", "b.mcu", "c.mcu", "-j", "4"), 4),
    Case("compile in one piece", ("a.mcu", "-o", "a.so", "--plain-nvcc"), 1),
    Case("tune", ("tune", "a.mcu", "--dims", "M=64,N=64,K=64", "--build-only", "plan", "-j", "2"), 2),
    Case("warm", ("cache", "warm", "-j", "2"), 2),
    Case("import", ("import", "problem.py", "-o", "p.mcu", "--verify"), 1),
    Case("audit", ("audit", "problem.py", "problem.py", "--device", "cpu"), 1, "mucc.agent"),
    Case("run", ("run", "a.mcu", "--device", "cpu", "--dims", "M=4096,N=4096,K=4096"), -1),
    Case("check", ("check", "-")),
    Case("sol", ("sol", "-", "--dims", "M=8,N=8,K=8")),
)
"""-1: the command computes by itself, and the signal comes a second after its start."""


class Workplace:
    """A folder with sources and compilers."""

    def __init__(self, folder: Path):
        self.folder, self.marks = folder, folder / "marks"
        for name in ("marks", "tmp", "cache", "cutlass/cutlass"):
            (folder / name).mkdir(parents=True)
        for name in "abc":
            (folder / f"{name}.mcu").write_text(KERNEL.format(name=name))
        (folder / "problem.py").write_text(PROBLEM.format(mark=str(self.marks / "problem")))
        (folder / "cutlass" / "cutlass" / "version.h").write_text("#define CUTLASS_MAJOR 4\n")
        make_compilers(folder)
        self.env = environment(folder)

    def measure(self, case: Case, number: signal.Signals) -> dict[str, object]:
        """Run a command until it is at work, send the signal, and see how it ends."""
        process = subprocess.Popen(
            [sys.executable, "-m", case.module, *case.words],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._wait(process, case)
        family = processes.descendants(process.pid)
        started = time.perf_counter()
        process.send_signal(number)
        process.wait(HANG)
        seconds = time.perf_counter() - started
        now = processes.table()
        left = [p for p in family.values() if processes.same(now.get(p.pid), p)]
        _, said = process.communicate()
        return {
            "command": case.name,
            "signal": number.name,
            "seconds": round(seconds, 3),
            "status": process.returncode,
            "says_so": f"interrupted by {number.name}" in said,
            "processes": len(family),
            "processes_left": len(left),
            "files_left": len(list(self._left())),
        }

    def _wait(self, process: subprocess.Popen[str], case: Case) -> None:
        until = time.monotonic() + HANG
        if case.compilers < 0:
            time.sleep(1.0)
        while not (len(finished(self.marks)) >= case.compilers if case.compilers else _reads(process.pid)):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{case.name} did not get to work: {process.communicate()[1]}")
            time.sleep(0.01)

    def _left(self) -> Iterator[Path]:
        yield from (p for p in (self.folder / "tmp").iterdir() if not p.name.startswith("torchinductor"))
        yield from (self.folder / "cache").rglob("*.tmp")
        yield from (self.folder / "cache").glob("locks/*-*")
        yield from self.folder.glob("*.so*")


def make_compilers(folder: Path, before: str = "") -> None:
    """Write a toolkit of compilers that never end to `folder/cuda`; their scripts run `before` first."""
    cuda = folder / "cuda"
    for name in ("bin", "lib64"):
        (cuda / name).mkdir(parents=True, exist_ok=True)
    (cuda / "lib64" / "libcudart_static.a").touch()
    for name in ("nvcc", "ptxas", "fatbinary", "g++"):
        path = cuda / "bin" / name
        path.write_text(COMPILER.format(marks=folder / "marks", before=before))
        path.chmod(0o755)


def finished(marks: Path) -> list[str]:
    """The names of the marks that are whole: a compiler writes one elsewhere, and moves it there."""
    return [name for name in os.listdir(marks) if not name.endswith(".new")]


def environment(folder: Path) -> dict[str, str]:
    """Variables that have mucc take its compilers from `folder`, and write nowhere else."""
    return {
        **os.environ,
        "MUCC_NVCC": str(folder / "cuda"),
        "MUCC_CUTLASS": str(folder / "cutlass"),
        "MUCC_CXX": str(folder / "cuda" / "bin" / "g++"),
        "MUCC_CACHE_DIR": str(folder / "cache"),
        "MUCC_TUNING_DB": str(folder / "tuning.db"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": str(ROOT),
    }


def _reads(pid: int) -> bool:
    """Whether a process waits in a read of stdin."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")
    except OSError:
        return False


def main(argv: list[str] | None = None) -> int:
    """Measure every command with every signal, and write the result."""
    p = argparse.ArgumentParser(prog="python -m bench.signals", description=__doc__)
    p.add_argument("--repeat", type=int, default=3, metavar="N", help="times that each is measured (3)")
    p.add_argument("--dry-run", action="store_true", help="write no result")
    args = p.parse_args(argv)
    if args.repeat < 1:
        p.error("--repeat is above 0")
    rows: list[dict[str, object]] = []
    for case in CASES:
        for number in SIGNALS:
            for _ in range(args.repeat):
                with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
                    row = Workplace(Path(folder)).measure(case, number)
                rows.append({**row, "load": round(os.getloadavg()[0], 1)})
                print(row, flush=True)
    seconds = [float(str(row["seconds"])) for row in rows]
    summary = {
        "signals.commands": len(CASES),
        "signals.runs": len(rows),
        "signals.worst_s": max(seconds),
        "signals.median_s": round(statistics.median(seconds), 3),
        "signals.silent": sum(not row["says_so"] for row in rows),
        "signals.processes_left": sum(int(str(row["processes_left"])) for row in rows),
        "signals.files_left": sum(int(str(row["files_left"])) for row in rows),
    }
    print(summary)
    if not args.dry_run:
        write_result(cpu_label(), "signals", rows, summary, extra_versions=versions("torch"))
    return 0


if __name__ == "__main__":
    run_main(main)
