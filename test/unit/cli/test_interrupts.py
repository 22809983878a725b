"""Signals end every command: with a message and a status, and with no process or half file left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
from processes import HANG, gone, wait_for

from bench.signals import KERNEL, environment, finished, make_compilers
from mucc.build.cache.entries import SUFFIX
from mucc.process import processes
from mucc.process.processes import Process

PROBLEM = """
import subprocess, sys, time
from pathlib import Path
import torch

def busy():
    subprocess.Popen(["sleep", "600"])
    Path({marks!r}, "problem").touch()
    time.sleep(600)

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    busy()
    return [torch.randn(8, 8)]

def get_init_inputs():
    return []
"""


@dataclass
class Place:
    """A folder to work in, with compilers that never end."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict[str, str])
    started: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    @property
    def marks(self) -> Path:
        return self.folder / "marks"

    def compilers(self, before: str = "") -> None:
        """Make the compilers; `before` is what their scripts do first."""
        make_compilers(self.folder, before)

    def start(self, *words: str, python: tuple[str, ...] = ("-m", "mucc")) -> subprocess.Popen[str]:
        """A command that runs now."""
        process = subprocess.Popen(
            [sys.executable, *python, *words],
            cwd=self.folder / "here",
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # The tests may run under nohup, whose children ignore SIGHUP.
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
        )
        self.started.append(process)
        return process

    def wait(self, process: subprocess.Popen[str], count: int = 1) -> None:
        """Until so many compilers, or problems, are at work."""

        def marked() -> bool:
            assert process.poll() is None, process.communicate()
            return len(finished(self.marks)) >= count

        wait_for(marked)

    def left(self) -> list[str]:
        """What a command has left behind: files that it should not have."""
        found = [str(p) for p in (self.folder / "tmp").iterdir() if not p.name.startswith("torchinductor")]
        found += [str(p) for p in (self.folder / "cache").rglob("*.tmp")]
        found += [str(p) for p in (self.folder / "cache").glob(f"locks/*-*{SUFFIX}")]
        return found + [str(p) for p in (self.folder / "here").iterdir() if p.suffix not in (".mcu", ".py")]


@pytest.fixture
def place(tmp_path: Path) -> Generator[Place]:
    for name in ("marks", "tmp", "cache", "here", "cutlass/cutlass", "cuda"):
        (tmp_path / name).mkdir(parents=True)
    for name in "abc":
        (tmp_path / "here" / f"{name}.mcu").write_text(KERNEL.format(name=name))
    (tmp_path / "here" / "problem.py").write_text(PROBLEM.format(marks=str(tmp_path / "marks")))
    version = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n"
    (tmp_path / "cutlass" / "cutlass" / "version.h").write_text(version)
    place = Place(tmp_path, environment(tmp_path))
    place.compilers()
    yield place
    for process in place.started:
        if process.poll() is None:  # the test has failed
            process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str], *numbers: signal.Signals) -> tuple[int, str, str, list[Process]]:
    """Send signals: the status, stdout, stderr, and which of its processes are left.

    Those that were killed end when they get a processor; others sleep for longer than is waited for them.
    """
    before = processes.descendants(process.pid)
    for number in numbers:
        process.send_signal(number)
    out, err = process.communicate(timeout=HANG)
    now = processes.table()
    left = [p for p in before.values() if processes.same(now.get(p.pid), p) and not gone(p.pid)]
    return process.returncode, out, err, left


BUILDS: dict[str, tuple[int, list[str]]] = {
    "one": (2, ["a.mcu", "-o", "a.so"]),
    "plain": (1, ["a.mcu", "-o", "a.so", "--plain-nvcc"]),
    "several": (4, ["a.mcu", "b.mcu", "c.mcu", "-j", "4"]),
    "uncached": (2, ["a.mcu", "--no-cache"]),
    "ptx": (1, ["a.mcu", "-o", "a.ptx"]),
    "warm": (2, ["cache", "warm", "-j", "2"]),
    "tune": (2, ["tune", "a.mcu", "--dims", "M=64,N=64,K=64", "--build-only", "../plan", "-j", "2"]),
}


SENT = [("one", signal.SIGINT), *zip(BUILDS, cycle([signal.SIGTERM, signal.SIGINT]), strict=False)]
"""Each way to build with one of two signals, which the same handler takes; the plainest with both."""


@pytest.mark.parametrize(("command", "number"), SENT)
def test_a_build_ends(place: Place, command: str, number: signal.Signals):
    jobs, words = BUILDS[command]
    process = place.start(*words)
    place.wait(process, jobs)
    status, out, err, left = ended(process, number)
    assert (status, out, left) == (128 + number, "", [])
    assert err == f"error[MU5119]: interrupted by {number.name}\n"
    assert place.left() == []


def test_a_build_in_json_mode_ends(place: Place):
    process = place.start("a.mcu", "-o", "a.so", "--diagnostics", "json")
    place.wait(process, 2)
    status, _, err, left = ended(process, signal.SIGHUP)
    assert (status, left) == (129, [])
    (found,) = json.loads(err)
    assert (found["code"], found["message"]) == ("MU5119", "interrupted by SIGHUP")


def test_a_second_signal_ends_what_unwinds(place: Place):
    process = place.start("a.mcu", "b.mcu", "-j", "2")
    place.wait(process, 2)
    status, _, err, left = ended(process, signal.SIGTERM, signal.SIGINT, signal.SIGINT)
    assert status in (130, 143)  # signals that wait for a process come in the order of their numbers
    assert err.count("MU5119") == 1 and left == [] and place.left() == []


def test_a_compiler_that_ignores_signals_and_leaves_its_group_ends(place: Place):
    place.compilers("trap '' INT TERM HUP; setsid sh -c 'setsid sleep 600 & sleep 600' &")
    process = place.start("a.mcu", "-o", "a.so")
    place.wait(process, 2)
    status, _, _, left = ended(process, signal.SIGTERM)
    assert (status, left) == (143, [])


@pytest.mark.parametrize("words", [["check", "-"], ["-", "-o", "a.so"]])
def test_who_waits_for_input_ends(place: Place, words: list[str]):
    process = place.start(*words)
    wait_for(lambda: waits(process.pid))
    status, out, err, left = ended(process, signal.SIGINT)
    assert (status, out, left) == (130, "", [])
    assert err == "error[MU5119]: interrupted by SIGINT\n"


def waits(pid: int) -> bool:
    """Whether the main thread of a process sleeps in a read of stdin."""
    try:
        call, argument, *_ = Path(f"/proc/{pid}/syscall").read_text().split()
    except (OSError, ValueError):
        return False
    return call == "0" and int(argument, 16) == 0


PROBLEMS = {
    "import": ("mucc", ["import", "problem.py", "-o", "problem.mcu", "--verify"]),
    "audit": ("mucc.agent", ["audit", "problem.py", "problem.py", "--device", "cpu", "--isolation", "none"]),
}


@pytest.mark.parametrize(("command", "number"), [("import", signal.SIGINT), ("audit", signal.SIGTERM)])
def test_what_runs_a_problem_ends(place: Place, command: str, number: signal.Signals):
    pytest.importorskip("torch")
    module, words = PROBLEMS[command]
    process = place.start(*words, python=("-m", module))
    place.wait(process)
    status, out, err, left = ended(process, number)
    assert (status, out, left) == (128 + number, "", [])
    assert err == f"error[MU5119]: interrupted by {number.name}\n"
    assert place.left() == []


NAMED = """
import time
import torch

def get_inputs():
    with open("/proc/self/comm", "w") as file:
        file.write("mucc-test")
    time.sleep(600)

class Model(torch.nn.Module):
    pass
"""


def test_a_confined_problem_ends(place: Place):
    pytest.importorskip("torch")
    (place.folder / "here" / "problem.py").write_text(NAMED)
    words = ["audit", "problem.py", "problem.py", "--device", "cpu"]
    process = place.start(*words, python=("-m", "mucc.agent"))
    wait_for(lambda: any(named(pid, "mucc-test") for pid in processes.descendants(process.pid)))
    status, out, err, left = ended(process, signal.SIGTERM)
    assert (status, out, left) == (143, "", [])
    assert err == "error[MU5119]: interrupted by SIGTERM\n"
    assert place.left() == []


def named(pid: int, name: str) -> bool:
    """Whether a process has a name."""
    try:
        return Path(f"/proc/{pid}/comm").read_text() == f"{name}\n"
    except OSError:
        return False


HOOKED = """
import os, signal, sys
from mucc.cli.start import mucc

event, part = sys.argv.pop(1), sys.argv.pop(1)
armed = True

def hook(name, args):
    global armed
    if armed and name == event and part in str(args):
        armed = False
        os.kill(os.getpid(), signal.SIGTERM)

sys.addaudithook(hook)
mucc()
"""

PHASES = {
    "start": ("open", "cli/__pycache__/main."),
    "command": ("open", "cli/__pycache__/build."),
    "reading": ("open", "a.mcu"),
    "parsing": ("import", "mucc.frontend.parser"),
    "xdsl": ("import", "xdsl.ir"),
    "passes": ("import", "mucc.passes.partition"),
    "emission": ("import", "mucc.compiler.emit"),
    "temporary file": ("open", ".tmp"),
    "writing": ("os.rename", "a.cu"),
}


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_ends(place: Place, phase: str):
    (place.folder / "hooked.py").write_text(HOOKED)
    process = place.start(*PHASES[phase], "a.mcu", "-o", "a.cu", python=("../hooked.py",))
    _, err = process.communicate(timeout=HANG)
    assert process.returncode == 143, err
    assert err == "error[MU5119]: interrupted by SIGTERM\n"
    assert [name for name in place.left() if not name.endswith("a.cu")] == []
    made = place.folder / "here" / "a.cu"
    assert not made.exists() or made.read_text().endswith("}\n")


STUCK = """
import sys, time
from mucc.cli import start

def command():
    while True:
        try:
            print("ready", flush=True)
            time.sleep(600)
        except BaseException:
            continue

start.run(command)
"""


def test_what_does_not_unwind_ends_too(place: Place):
    process = place.start(python=("-c", STUCK))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    status, _, err, _ = ended(process, signal.SIGINT)
    assert status == 130 and err == "error[MU5119]: interrupted by SIGINT\n"


def test_a_signal_that_is_ignored_stays_ignored(place: Place):
    program = (
        "import signal, sys; from mucc.process import interrupts;"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "interrupts.install(); signal.raise_signal(signal.SIGHUP); interrupts.leave(7)"
    )
    assert subprocess.run([sys.executable, "-c", program], env=place.env, timeout=HANG).returncode == 7
