"""What all benchmarks share: the form of a result, and where it is written."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mucc.build.toolchain.doctor import installed
from mucc.cli import start
from mucc.diagnostics.core import DiagnosticError, bounded
from mucc.files.atomic import replace_file

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

Row = Mapping[str, object]


def run_main(main: Callable[[], object]) -> NoReturn:
    """Run a benchmark as a process of its own, as commands run: signals end it, and what is wrong with its
    arguments, files or streams is one line and status 2. `--ray ADDRESS` has all builds done on a cluster."""

    def command() -> int:
        try:
            _take_cluster(sys.argv)
            status = main()
            sys.stdout.flush()
            return status if isinstance(status, int) else 0
        except SystemExit as leave:
            if isinstance(leave.code, int | None):
                return leave.code or 0
            problem: object = leave.code
        except (DiagnosticError, OSError, re.error) as error:
            problem = error
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            print(f"{os.path.basename(sys.argv[0])}: {bounded(str(problem))}", file=sys.stderr)
        return 2

    start.run(command)


def _take_cluster(words: list[str]) -> None:
    """Take `--ray ADDRESS` out of a command line, and use that cluster; `bench.farm` has its own option."""
    if Path(words[0]).stem == "farm" or "--ray" not in words[:-1]:
        return
    from mucc.build.cluster.connection import VARIABLE
    from mucc.build.cluster.runner import runner_for

    place = words.index("--ray")
    address = words[place + 1]
    del words[place : place + 2]
    for warning in runner_for(address).cluster.warnings:
        print(warning, file=sys.stderr)
    os.environ[VARIABLE] = address


def at_least_one(text: str) -> int:
    """Parse the number of an option such as `-j`, for argparse. Raises ArgumentTypeError for what is none."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError("needs a number of at least 1")
    return number


def kept_bytecode() -> dict[str, str]:
    """The environment of processes that keep the bytecode of modules, as installed packages have it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_label() -> str:
    """A directory name for this machine where no GPU takes part: `cpu-x86_64-2`, architecture and cores."""
    return f"cpu-{platform.machine()}-{len(os.sched_getaffinity(0))}"


def versions(*distributions: str) -> dict[str, str]:
    """The versions of Python, of mucc, and of further distributions that are installed."""
    return {"python": platform.python_version(), **installed("mucc", "xdsl", *distributions)}


def commit() -> str:
    """The commit that was measured, `+` where the checkout differs from it; outside git MUCC_COMMIT says."""

    def git(*arguments: str) -> str:
        try:
            run = subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return ""
        return run.stdout.strip() if run.returncode == 0 else ""

    if not (head := git("rev-parse", "--short=12", "HEAD")):
        return os.environ.get("MUCC_COMMIT", "")
    # A result file is no reason to call the checkout changed: benchmarks write them one after another.
    changed = git("status", "--porcelain", "--", ".", ":!bench/results")
    return head + ("+" if changed else "")


def write_result(
    card: str,
    name: str,
    rows: Sequence[Row],
    summary: Mapping[str, float],
    *,
    extra_versions: Mapping[str, str] | None = None,
    module: str = "",
) -> Path:
    """Write `results/<card>/<name>.json` and return its path.

    `rows` are the measurements one by one; `summary` maps dotted figure names to numbers.
    """
    path = RESULTS / card / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    made = result(card, name, rows, summary, extra_versions=extra_versions, module=module)
    replace_file(str(path), (json.dumps(made, indent=1) + "\n").encode())
    return path


def command_line(module: str, words: Sequence[str]) -> str:
    """The command that a result names: files outside of the working directory by their names alone."""
    named = [re.sub(r"^(\w+=)?/.*", lambda m: (m[1] or "") + Path(m[0]).name, word) for word in words]
    return shlex.join(["python", "-m", module, *named])


def layer_line(
    row: Mapping[str, Any], width: int, columns: Sequence[str], numbers: Callable[[Mapping[str, Any]], str]
) -> str:
    """Format a row of a table of layers: its name, `numbers`, ratios in `columns`, and what went wrong.

    Of a layer that has no times, say why.
    """
    key = f"{row['group']}/{row['name']}"
    if "mucc_ms" not in row:
        return f"{key:{width}} {row.get('error', 'not measured')}"
    over = "".join(f"{row[c]:9.2f}" if c in row else f"{'-':>9}" for c in columns)
    failed = "".join(f"  {name}: {why[:60]}" for name, why in row["failed"].items())
    wrong = "" if row["good"] else f"  WRONG by {row['error']:.1e}, PyTorch by {row['torch_error']:.1e}"
    return f"{key:{width}} {numbers(row)}{over}{wrong}{failed}"


def result(
    card: str,
    name: str,
    rows: Sequence[Row],
    summary: Mapping[str, float],
    *,
    extra_versions: Mapping[str, str] | None = None,
    module: str = "",
) -> dict[str, Any]:
    """The contents of a result of `python -m bench.<name>`, with what it was measured with and when; `module`
    is the benchmark where results have other names."""
    return {
        "card": card,
        "versions": {**versions(), **(extra_versions or {})},
        "command": command_line(f"bench.{module or name}", sys.argv[1:]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "rows": list(rows),
        "summary": dict(summary),
    }
