"""Installs mucc in every way that users do, into fresh environments, and runs its commands there.

    python test/tools/install_matrix.py --python python3.11 --python python3.14 --torch --nvcc --record
    python test/tools/install_matrix.py --share

Builds a wheel and an sdist of the checkout. Each is installed by pip and by uv for each Python, without
PyTorch and, with `--torch`, beside its build for the CPU; with `--nvcc` the wheel is also installed with the
compilers, which then build a kernel. `--share` is one Python, the wheel by uv and the sdist by pip. What
cannot be had here (an interpreter, PyTorch's build for one) is a row that says why. `--record` keeps what was
recorded before of ways that are not tried now. The exit status is 1 where something failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0+cpu"
NO_TORCH = re.compile(
    r"No matching distribution found for torch|torch==\S+\+cpu has no wheels|no version of torch"
)
"""What pip and uv say where there is no such build."""

PATIENCE = 900
"""Seconds for one command."""

PROGRAM = """\
kernel k[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N]
    where K % 8 == 0, N % 8 == 0
{
    return relu(x @ w.T)
}
"""
MAP = "kernel k[M, N](x: f32[M, N]) -> f32[M, N] {\n    return relu(x)\n}\n"
PROBLEM = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2

def get_inputs():
    return [torch.rand(8, 16)]

def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class Check:
    """A command, the exit statuses that are right, and what its output must hold."""

    command: tuple[str, ...]
    good: tuple[int, ...] = (0,)
    says: str = ""


ALWAYS = (
    Check(("mucc", "--help"), says="check"),
    Check(("mucc-opt", "--help"), says="usage"),
    Check(("mucc-agent", "--help"), says="usage"),
    Check(("mucc", "check", "k.mcu")),
    Check(("mucc", "k.mcu", "--emit=cu"), says="#include"),
    Check(("mucc", "docs", "--card"), says="# mucc reference card"),
    Check(("mucc", "run", "k.mcu", "--dims", "M=8,N=16,K=32", "--device", "cpu")),
)
BARE = (Check(("mucc", "doctor", "--json"), (3,), '"can_build": false'),)
WITH_NVCC = (
    Check(("mucc", "doctor", "--json"), (0,), '"can_build": true'),
    Check(("mucc", "map.mcu", "-o", "map.so", "--no-cache")),
)
WITHOUT_TORCH = (Check(("mucc", "import", "problem.py", "-o", "p.mcu"), (1, 2, 3), "error[MU"),)
WITH_TORCH = (Check(("mucc", "import", "problem.py", "-o", "p.mcu")), Check(("mucc", "check", "p.mcu")))


@dataclass(frozen=True)
class Cell:
    """One way to install: an interpreter, an installer, what is installed, and with what."""

    python: str
    installer: str
    kind: str
    torch: bool = False
    nvcc: bool = False

    @property
    def way(self) -> str:
        """What `--only` looks at, such as `uv wheel torch`."""
        flags = [name for name, on in (("torch", self.torch), ("nvcc", self.nvcc)) if on]
        return " ".join([self.installer, self.kind, *flags])

    def requirements(self, files: dict[str, Path]) -> list[str]:
        """What the installer is given."""
        extra = "[nvcc]" if self.nvcc else ""
        return [f"mucc{extra} @ {files[self.kind].as_uri()}", *([TORCH] if self.torch else [])]

    def checks(self) -> tuple[Check, ...]:
        """What has to work then."""
        return (
            *ALWAYS,
            *(WITH_NVCC if self.nvcc else BARE),
            *(WITH_TORCH if self.torch else WITHOUT_TORCH),
        )


@dataclass
class Row:
    """What came of a cell: the interpreter's version, what failed, or why nothing was tried."""

    cell: Cell
    version: str = ""
    seconds: float = 0.0
    commands: int = 0
    failed: list[str] = field(default_factory=list[str])
    skipped: str = ""

    def line(self) -> str:
        """The row for people."""
        what = f"{self.version or self.cell.python:<8} {self.cell.way:<16}"
        if self.skipped:
            return f"{what} skipped: {self.skipped}"
        return (
            f"{what} {'FAILED' if self.failed else 'passed'} {self.commands} commands, {self.seconds:.0f} s"
        )


def run(command: list[str], folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; status 124 where it takes too long."""
    try:
        return subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"not done after {PATIENCE} s")


def environment(folder: Path) -> dict[str, str]:
    """The variables of commands in a fresh environment: nothing of this checkout or of other compilers."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "CUDA_HOME", "CUDA_PATH", "MUCC_NVCC", "MUCC_CUTLASS")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    places = [p for p in kept.get("PATH", "").split(os.pathsep) if not (Path(p) / "nvcc").exists()]
    kept["PATH"] = os.pathsep.join([str(folder / "env/bin"), *places])
    kept["MUCC_CACHE_DIR"] = str(folder / "cache")
    kept["PIP_NO_COMPILE"] = "1"  # of a hundred packages few modules are imported: they are compiled then
    if links := kept.get("PIP_FIND_LINKS"):
        kept["UV_FIND_LINKS"] = links.replace(" ", ",")  # one of the few settings of pip that uv has too
    return kept


def try_cell(cell: Cell, files: dict[str, Path]) -> Row:
    """Install into a fresh environment, and run the commands there."""
    row = Row(cell)
    with tempfile.TemporaryDirectory(prefix="mucc-install-") as name:
        folder = Path(name)
        env = environment(folder)
        probe = run([cell.python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], folder, env)
        if probe.returncode:
            row.skipped = "there is no such interpreter"
            return row
        row.version = probe.stdout.strip()
        started = time.monotonic()
        for command in installing(cell, files):
            done = run(command, folder, env)
            if done.returncode:
                if cell.torch and NO_TORCH.search(done.stderr):
                    row.skipped = "no build of PyTorch for the CPU and this Python can be had"
                    return row
                row.failed.append(f"{' '.join(command)}: {done.stderr[-2000:]}")
                return row
        for filename, text in (("k.mcu", PROGRAM), ("map.mcu", MAP), ("problem.py", PROBLEM)):
            (folder / filename).write_text(text)
        for check in cell.checks():
            done = run(list(check.command), folder, env)
            row.commands += 1
            said = done.stdout + done.stderr
            if done.returncode not in check.good or check.says not in said or "Traceback" in said:
                row.failed.append(f"{' '.join(check.command)}: status {done.returncode}: {said[-2000:]}")
        row.seconds = round(time.monotonic() - started, 1)
    return row


def installing(cell: Cell, files: dict[str, Path]) -> Iterator[list[str]]:
    """The commands that make an environment and install into it."""
    wanted = cell.requirements(files)
    if cell.installer == "pip":
        yield [cell.python, "-m", "venv", "env"]
        yield ["env/bin/python", "-m", "pip", "install", "-q", "--retries", "1", *wanted]
    else:
        uv = [sys.executable, "-m", "uv"]
        yield [*uv, "venv", "-q", "--python", cell.python, "env"]
        yield [*uv, "pip", "install", "-q", "--python", "env/bin/python", *wanted]


NO_SOURCES = (".git", ".venv", ".hypothesis", ".*_cache", "__pycache__", "*.egg-info", "node_modules")
"""What a checkout has that is made there, beside `build` and `dist` at its root."""


def sources(folder: Path) -> Path:
    """Copy the checkout, in which nothing is built: tests may be at work there."""

    def ignored(path: str, names: list[str]) -> set[str]:
        made = {"build", "dist"} if Path(path) == ROOT else set[str]()
        return made.intersection(names) | shutil.ignore_patterns(*NO_SOURCES)(path, names)

    return shutil.copytree(ROOT, folder / "checkout", symlinks=True, ignore=ignored)


def distributions(folder: Path) -> dict[str, Path]:
    """A wheel and an sdist of the checkout, built by uv."""
    checkout = sources(folder)
    for kind in ("wheel", "sdist"):
        command = [sys.executable, "-m", "uv", "build", "-q", f"--{kind}", "-o", str(folder), str(checkout)]
        subprocess.run(command, check=True, timeout=PATIENCE)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def cells(args: argparse.Namespace) -> list[Cell]:
    """What is to be tried."""
    if args.share:
        return [Cell(sys.executable, "uv", "wheel"), Cell(sys.executable, "pip", "sdist")]
    pythons = args.python or [sys.executable]
    torches = (False, True) if args.torch else (False,)
    ways = (
        (python, installer, kind, torch)
        for torch, installer, python, kind in itertools.product(
            torches, ("uv", "pip"), pythons, ("wheel", "sdist")
        )
    )
    with_nvcc = [Cell(python, "uv", "wheel", nvcc=True) for python in pythons if args.nvcc]
    return [cell for cell in (*(Cell(*way) for way in ways), *with_nvcc) if re.search(args.only, cell.way)]


def reachable() -> bool:
    """Whether uv gets at a package index."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-deps", "-"]
    done = subprocess.run(command, input="setuptools", capture_output=True, text=True, check=False)
    return done.returncode == 0


def record(rows: list[Row]) -> None:
    """Keep the rows in bench/results, beside those of ways that were not tried now."""
    sys.path.insert(0, str(ROOT))
    from bench.common import RESULTS, cpu_label, result

    path = RESULTS / cpu_label() / "install.json"
    arguments = [Path(a).name if os.sep in a else a for a in sys.argv[1:]]
    command = shlex.join(["python", "test/tools/install_matrix.py", *arguments])
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    now = [asdict(row) | {"command": command} for row in rows]
    for row in now:
        row["cell"]["python"] = row["version"] or Path(row["cell"]["python"]).name
    tried = [row["cell"] for row in now]
    made = [row for row in before if row["cell"] not in tried] + now
    made.sort(key=lambda row: [int(part) for part in row["version"].split(".") if part])
    summary = {
        "install.ways": len(made),
        "install.failed": sum(bool(row["failed"]) for row in made),
        "install.skipped": sum(bool(row["skipped"]) for row in made),
    }
    contents = result(cpu_label(), "install", made, summary) | {"command": command}
    path.write_text(json.dumps(contents, indent=1) + "\n")


def main() -> int:
    """Try all; the exit status says whether all passed."""
    parser = argparse.ArgumentParser(description="install mucc in every way that users do, and run it")
    parser.add_argument("--python", action="append", help="an interpreter (may be repeated)")
    parser.add_argument("--torch", action="store_true", help="also beside PyTorch for the CPU")
    parser.add_argument("--nvcc", action="store_true", help="also with the compilers (about 0.5 GB)")
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="the ways that it matches, as they are listed"
    )
    parser.add_argument("--share", action="store_true", help="two ways only")
    parser.add_argument("--record", action="store_true", help="write bench/results/<machine>/install.json")
    args = parser.parse_args()
    if not reachable():
        print("skipped: no package index can be reached")
        return 0
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="mucc-dist-") as name:
        files = distributions(Path(name))
        for cell in cells(args):
            rows.append(row := try_cell(cell, files))
            print(row.line(), *row.failed, sep="\n  ", flush=True)
            if args.record:
                record(rows)
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
