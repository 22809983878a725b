"""What all benchmarks share: the form of a result, and where it is written."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mucc.atomic import replace_file
from mucc.toolchain.doctor import installed

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

Row = Mapping[str, object]


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
) -> Path:
    """Write `results/<card>/<name>.json` and return its path.

    `rows` are the measurements one by one; `summary` maps dotted figure names to numbers.
    """
    path = RESULTS / card / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    made = result(card, name, rows, summary, extra_versions=extra_versions)
    replace_file(str(path), (json.dumps(made, indent=1) + "\n").encode())
    return path


def result(
    card: str,
    name: str,
    rows: Sequence[Row],
    summary: Mapping[str, float],
    *,
    extra_versions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The contents of a result of `python -m bench.<name>`, with what it was measured with and when."""
    return {
        "card": card,
        "versions": {**versions(), **(extra_versions or {})},
        "command": " ".join(["python", "-m", f"bench.{name}", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "rows": list(rows),
        "summary": dict(summary),
    }
