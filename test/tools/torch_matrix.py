"""Runs the tests of the importer and the torch.compile backend with several minor versions of PyTorch.

    python test/tools/torch_matrix.py
    python test/tools/torch_matrix.py --torch 2.13 test/unit/torch/test_backend.py
    python test/tools/torch_matrix.py --cuda --torch 2.14
    python test/tools/torch_matrix.py --python /opt/env/bin/python

Each version is installed, in its build for the CPU, beside this checkout into a fresh environment of uv. A
version of which no such build can be had here is a row that says so. With `--cuda` builds with CUDA are
taken, which PyPI has, of half a gigabyte each; instead of CUDA's libraries, several gigabytes more, empty
ones are made (`cuda_stand_ins.py`). `--python` runs the tests where one is installed. Prints the table of
docs/pytorch.md. The exit status is 1 where a test failed. With `--index ""` builds come from what uv is set
up to (`UV_FIND_LINKS`, its own index).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from cuda_stand_ins import stand_in
from install_matrix import ROOT, environment, run

MINORS = ("2.12", "2.13", "2.14")
"""The minor versions that mucc supports, the last three when this was written."""

INDEX = "https://download.pytorch.org/whl/cpu"
"""Where builds of PyTorch for the CPU are."""

TESTS = ("test/unit/torch",)
NEEDED = ("pytest", "hypothesis", "numpy", "lit", "filecheck")
"""What the tests need beside mucc and PyTorch."""

VERSION = "from importlib.metadata import version; print(version('torch'))"
NEEDS = "from importlib.metadata import requires; print(*requires('torch'), sep='\\n')"
PACKAGES = "import sysconfig; print(sysconfig.get_path('platlib'))"
CUDA = re.compile(r"(cuda|nvidia|triton)\b|.*\bextra *==")
"""What PyTorch requires and the tests do not."""

PATIENCE = 3600
"""Seconds for the tests with one version."""


@dataclass(frozen=True)
class Row:
    """What came of one minor version: the version installed, or why there is none, and pytest's counts."""

    minor: str
    version: str = ""
    skipped: str = ""
    counts: str = ""
    is_good: bool = True
    seconds: float = 0.0

    @property
    def line(self) -> str:
        """The row of a Markdown table."""
        if self.skipped:
            return f"| {self.minor} | not run: {self.skipped} |"
        result = "pass" if self.is_good else "FAIL"
        return f"| {self.version} | {result}: {self.counts} in {self.seconds:.0f} s |"


def try_minor(minor: str, tests: list[str], index: str, cuda: bool) -> Row:
    """Install a minor version of PyTorch into a fresh environment, and run tests there."""
    index = "" if cuda else index
    with tempfile.TemporaryDirectory(prefix="mucc-torch-") as name:
        folder = Path(name)
        env = environment(folder)
        uv = [sys.executable, "-m", "uv"]
        install = [*uv, "pip", "install", "-q", "--python", "env/bin/python"]
        where = ["--index", index, "--index-strategy", "unsafe-best-match"] if index else []
        for command in (
            [*uv, "venv", "-q", "--python", sys.executable, "env"],
            [*install, f"torch=={minor}.*", *where, "--only-binary", "torch", "--no-deps"],
        ):
            if (done := run(command, folder, env)).returncode:
                return Row(minor, skipped=reason(done.stderr))
        version = printed(VERSION, folder, env)
        if not cuda and not version.endswith("+cpu"):
            return Row(minor, skipped=f"{version or 'what can be had'} is no build for the CPU")
        beside = pure(printed(NEEDS, folder, env)) if cuda else [f"torch=={version}"]
        if (done := run([*install, *where, *beside, *NEEDED, "-e", str(ROOT)], folder, env)).returncode:
            return Row(minor, version, is_good=False, counts=done.stderr[-500:])
        if cuda:
            stand_in(Path(printed(PACKAGES, folder, env), "torch/lib"))
        return tested(Row(minor, version), str(folder / "env/bin/python"), env, tests)


def try_python(python: str, tests: list[str]) -> Row:
    """Run tests with an interpreter that has PyTorch, of any build, and what the tests need."""
    env = dict(os.environ)
    version = run([python, "-c", VERSION], ROOT, env).stdout.strip()
    return tested(Row(version, version), python, env, tests) if version else Row(python, skipped="no torch")


def tested(row: Row, python: str, env: dict[str, str], tests: list[str]) -> Row:
    """Run tests by an interpreter; returns a row with what came of them."""
    env["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT, ROOT / "test/lib")))
    started = time.monotonic()
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "not long", "-W", "ignore"]
    done = subprocess.run(
        [python, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    sys.stderr.write(done.stdout[-3000:] if done.returncode else "")
    return replace(row, counts=counted(done), is_good=not done.returncode, seconds=time.monotonic() - started)


def printed(program: str, folder: Path, env: dict[str, str]) -> str:
    """Return what a program of one line prints in a fresh environment, where PyTorch is not imported."""
    return run(["env/bin/python", "-c", program], folder, env).stdout.strip()


def pure(required: str) -> list[str]:
    """Return what PyTorch requires beside CUDA's libraries and its optional parts, of all that, by lines."""
    return [line for line in required.splitlines() if not CUDA.match(line)]


def reason(message: str) -> str:
    """Return why an installer found no build, in a few words."""
    if re.search(r"Failed to fetch|error sending request|dns error|Could not connect", message):
        return "the index of builds cannot be reached"
    return "no such build for this Python can be had"


def counted(done: subprocess.CompletedProcess[str]) -> str:
    """Return pytest's last line without its time, such as `208 passed, 3 skipped`."""
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return re.sub(r" in [\d.]+s.*$", "", last.strip("= ")) or f"status {done.returncode}"


def main() -> int:
    """Try all versions; the exit status says whether all tests passed."""
    parser = argparse.ArgumentParser(description="run the tests around PyTorch with several versions of it")
    parser.add_argument("--torch", action="append", metavar="MINOR", help="such as 2.12 (may be repeated)")
    parser.add_argument(
        "--python", action="append", metavar="PATH", help="an interpreter with PyTorch (may be repeated)"
    )
    parser.add_argument("--cuda", action="store_true", help="take builds with CUDA, without its libraries")
    parser.add_argument("--index", default=INDEX, help="the package index with builds for the CPU")
    parser.add_argument("tests", nargs="*", help=f"files of tests (default: {' '.join(TESTS)})")
    args = parser.parse_args()
    rows: list[Row] = []
    print("| torch | result |\n|---|---|")
    tests = args.tests or [*TESTS]
    for python in args.python or ():
        rows.append(row := try_python(python, tests))
        print(row.line, flush=True)
    for minor in args.torch or (() if args.python else MINORS):
        rows.append(row := try_minor(minor, tests, args.index, args.cuda))
        print(row.line, flush=True)
    return 0 if all(row.is_good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
