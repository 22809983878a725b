"""The samples of the tests: solutions that cheat, by families, and honest ones of many styles.

A sample may import what lies beside it alone, so each kind is laid out in a folder with the helpers of all.
Lines of its own say what a sample needs that other machines lack: `# needs: MODULE`, and `# for: cpu`, which
an import of `native`, the helper for a CPU, says as well. Samples without such lines are for both devices.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.common import ROOT

FOLDER = ROOT / "test" / "agent"

HELPERS = (
    "problem",
    "native",
    "work",
    "pytorch_helper",
    "frames_helper",
    "kernels",
    "constant_problem",
    "constant_solution",
    "only_64_rows",
)
"""Helpers among the files of samples, which are not samples themselves."""

PROBLEM = "_problem"
"""What the name of a problem ends with that one sample has for itself."""

NO_GAIN = (
    "deferral_watching",
    "deferral_native",
    "deferral_protected_memory",
    "deferral_huge_pages",
    "expanded_result",
    "expanded_with_gaps",
)
"""Samples whose trick gains nothing any more, so that they need not be rejected: they follow inputs in main
memory, where those of a GPU are not; on a CPU they are stopped while inputs come. Or one computes all when
its results are first read, which counts: measured with 64 to 256 MiB (decision 90). One that does so piece by
piece is rejected where the parent stops it before all is copied (decision 99), which may come late on a busy
machine. Or one leaves it to the copy to write its result, also among gaps, which is charged for that."""

HONEST_WHEN_PROFILED = (
    "library_unless_profiled_by_a_variable",
    "library_unless_asked_natively",
    "cheat_pytorch_unless_profiled",
    "cheat_graph_unless_profiled",
    "cheat_cublas_unless_profiled",
)
"""Samples that do their own work in all timed calls on a GPU, as PyTorch's profiler is on there, so that they
need not be rejected there either."""

SHARED = ("problem.py", "work.py", "work.cu", "native.py")
"""Helpers of samples that cheat which honest ones need as well."""


class Candidate(NamedTuple):
    """A solution, what it solves, whether it is honest, and why it cannot run here, if it cannot."""

    name: str
    kind: str
    problem: Path
    solution: Path
    honest: bool
    unfit: str = ""


def samples(device: str, folder: Path) -> Iterator[Candidate]:
    """Lay the samples out in a folder, and yield them, also those that are unfit for the device."""
    yield from _of("cheats", device, folder)
    yield from _of("honest", device, folder)
    if device == "cuda":
        yield from _of("cuda", device, folder)


def _of(kind: str, device: str, folder: Path) -> Iterator[Candidate]:
    place = folder / kind
    shutil.copytree(FOLDER / kind, place, ignore=shutil.ignore_patterns("__pycache__"))
    if kind == "honest":
        for name in SHARED:
            shutil.copy(FOLDER / "cheats" / name, place / name)
    if device == "cuda" and kind != "cuda":
        _built(place, folder)
    for path in sorted(place.glob("*.py")):
        if is_helper(path) or path.stem in NO_GAIN:
            continue
        if device == "cuda" and path.stem in HONEST_WHEN_PROFILED:
            continue
        honest = kind == "honest" or path.stem.startswith("honest")
        own = path.with_name(f"{path.stem}{PROBLEM}.py")
        unfit = why_unfit(path.read_text(encoding="utf-8"), device)
        yield Candidate(
            path.stem, "sample", own if own.exists() else place / "problem.py", path, honest, unfit
        )


def is_helper(path: Path) -> bool:
    """Whether a file is no sample itself: it helps samples, or is the problem of one."""
    return path.stem in HELPERS or path.stem.endswith(PROBLEM)


def why_unfit(text: str, device: str) -> str:
    """Return why a sample cannot run here on `cpu` or `cuda`, as its text says; "" where it can."""
    if device != "cpu" and re.search(r"^(# for: cpu$|from native import )", text, re.MULTILINE):
        return "for a CPU"
    needed = re.findall(r"^# needs: (\w+)$", text, re.MULTILINE)
    return ", ".join(f"needs {name}" for name in needed if importlib.util.find_spec(name) is None)


def _built(place: Path, folder: Path) -> None:
    """Build the kernels for a GPU beside the samples; one that lies in their folder already is taken."""
    built = folder / "linear_relu.so"
    there = FOLDER / "cheats" / "linear_relu.so"
    if there.exists():
        shutil.copy(there, place / "linear_relu.so")
        return
    if not built.exists():
        source = FOLDER / "cheats" / "work.cu"
        flags = ["-O2", "-shared", "-Xcompiler", "-fPIC", "-arch=native"]
        subprocess.run(["nvcc", *flags, "-o", str(built), str(source)], check=True)
    shutil.copy(built, place / "linear_relu.so")
