"""Counters of each launch of a call, by Nsight Compute around a process that calls the kernels."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import NamedTuple

from mucc.agent.isolation.zygote import environment
from mucc.agent.profile.child import DONE, GO, PAUSE, READY, UNUSABLE
from mucc.agent.profile.evidence import TIME
from mucc.agent.profile.sources import Launch, Reading, Request, ncu_report
from mucc.agent.profile.sources.ncu_csv import messages, parse
from mucc.api import processes
from mucc.api.machine import exclusive_gpu
from mucc.api.processes import End, Family

LAUNCHES = 64
"""Launches of a program that are profiled: each is run again for every group of counters."""

PLACES = ("/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*", "/usr/local/NVIDIA-Nsight-Compute*")

HELP = {
    "ERR_NVGPUCTRPERM": "this user may not read counters: run as root, or load the driver with"
    " NVreg_RestrictProfilingToAdminUsers=0",
    "ERR_NVCMPGPU": "this GPU is not one that ncu profiles",
    "driver resource was unavailable": "another profiler (DCGM, perhaps) holds the counters: stop it",
    "not compatible with Nsight Compute": "the driver is older than ncu wants: take the ncu of its CUDA",
    "Failed to load": "the driver has no counters here, as on many virtual machines",
    "LibraryNotLoaded": "the driver's libraries for profiling are missing in this container",
    "InvalidDevice": "ncu knows no such GPU: take a newer ncu",
}
"""What to do, by words in ncu's messages."""


def find_ncu() -> str | None:
    """Return the path of ncu: on PATH, in CUDA_HOME, or where toolkits and Nsight lie, the newest first."""
    folders = [os.environ.get("PATH", "")]
    if home := os.environ.get("CUDA_HOME"):
        folders.append(str(Path(home, "bin")))
    for pattern in PLACES:
        folders += sorted(glob(pattern), reverse=True)
    return shutil.which("ncu", path=os.pathsep.join(folders))


class Ncu:
    """Counters of launches."""

    name = "ncu"

    def read(self, asked: Request) -> Reading:
        if asked.library is None or not asked.sizes:
            return Reading()
        if asked.device == "cpu":
            return Reading(missing=["ncu: nothing may run on a GPU (device cpu), so there are no counters"])
        if (tool := find_ncu()) is None:
            return Reading(missing=["ncu: Nsight Compute was not found (it comes with the CUDA toolkit)"])
        metrics = list(dict.fromkeys((TIME, *asked.metrics)))
        ran = _run(tool, metrics, asked)
        if unknown := _unknown(ran.said):
            ran = _run(tool, [m for m in metrics if m not in unknown], asked)._replace(waited=ran.waited)
        launches = ran.launches or parse(ran.said)
        if launches:
            unknown |= {m for m in metrics if all(m not in launch.counters for launch in launches)}
        missing = [f"ncu: there is no counter {name} here" for name in sorted(unknown)]
        if not launches:
            missing.append(f"ncu: {_reason(ran)}")
        elif len(launches) == LAUNCHES:
            missing.append(f"ncu: only the first {LAUNCHES} launches were profiled")
        return Reading(launches=launches, missing=missing, waited=ran.waited)


def command(tool: str, metrics: Sequence[str], *arguments: str, report: str | None = None) -> list[str]:
    """Return the command line of ncu around our child; `report` is the file that it also writes, no suffix.

    Clocks stay as they are, so that times are those of real runs; caches are flushed before each pass, as
    they are when we measure.
    """
    return [
        tool,
        "--csv",
        "--page=raw",
        "--print-units=base",
        "--clock-control=none",
        "--cache-control=all",
        "--target-processes=application-only",
        "--profile-from-start=off",
        f"--launch-count={LAUNCHES}",
        f"--metrics={','.join(metrics)}",
        *([] if report is None else [f"--export={report}", "--force-overwrite"]),
        sys.executable,
        "-m",
        "mucc.agent.profile.child",
        *arguments,
    ]


class _Run(NamedTuple):
    """A run of ncu: its exit status, -1 after a timeout; its output; seconds of waiting for the GPU.

    `launches` are those of its report, where reports can be read.
    """

    status: int
    said: str
    waited: float
    launches: Sequence[Launch] = ()


def _run(tool: str, metrics: Sequence[str], asked: Request) -> _Run:
    """Run ncu once. The GPU is locked exclusively only while kernels run."""
    assert asked.library is not None
    with tempfile.TemporaryDirectory(prefix="mucc-") as name, open(Path(name, "log"), "w+b") as log:
        folder = Path(name)
        report = str(folder / ncu_report.NAME) if ncu_report.is_installed() else None
        child = (os.path.abspath(asked.library), json.dumps(asked.sizes), name)
        line = command(tool, metrics, *child, report=report)
        # ncu keeps a lock in TMPDIR, which another user's may hold.
        env = {**environment(), "TMPDIR": name, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        try:
            process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
            )
        except OSError as error:
            return _Run(UNUSABLE, f"==ERROR== {error}", 0.0)
        processes.watch(process.pid)
        family = Family(process.pid)
        until, waited, ended = time.monotonic() + asked.time_limit, 0.0, False
        try:
            if _came(folder / READY, family, until):
                before = time.monotonic()
                with exclusive_gpu():
                    waited = time.monotonic() - before
                    (folder / GO).touch()
                    _came(folder / DONE, family, until + waited)
            ended = family.wait(max(until + waited - time.monotonic(), 0.0), ()) is End.OF_ITSELF
        finally:
            status, _ = family.end()
            process.returncode = status
        log.seek(0)
        said = log.read().decode("utf-8", errors="replace")
        launches = ncu_report.read(folder) if report is not None else ()
    return _Run(status if ended else -1, said, waited, launches)


def _came(file: Path, family: Family, until: float) -> bool:
    """Wait for a file; False where the process ends or the time is up before."""
    while not file.exists():
        if family.wait(PAUSE, ()) is End.OF_ITSELF or time.monotonic() >= until:
            return file.exists()
    return True


def _unknown(said: str) -> set[str]:
    """Return the counters that this ncu does not know."""
    return set(re.findall(r"[Ff]ailed to find metric (?:regex:)?([\w.]+)", said))


def _reason(ran: _Run) -> str:
    """Return the reason why there are no counters, and what to do."""
    for word, help in HELP.items():
        if word in ran.said:
            return f"{word}: {help}"
    if ran.status == -1:
        return "it took too long and was ended"
    errors = messages(ran.said)
    plain = [line for line in ran.said.strip().splitlines() if line and not line.startswith("==")]
    lines = errors + plain[-1:]
    return " ".join(lines)[:300] if lines else f"it ended with status {ran.status} and no counters"
