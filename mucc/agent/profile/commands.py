"""Run commands of mucc for the agent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from mucc.api.json_types import DiagnosticJson, from_json


class CommandFailed(Exception):
    """A command of mucc failed; the text says why."""


def run_mucc(arguments: Sequence[str], seconds: float, program: str) -> str:
    """Return the output of a command for a program on its standard input. Raises CommandFailed."""
    command = [sys.executable, "-m", "mucc", *arguments]
    what = f"mucc {' '.join(arguments)}"
    try:
        run = subprocess.run(
            command, input=program, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{what} took more than {seconds:g} s") from None
    except OSError as error:
        raise CommandFailed(f"{what}: {error}") from None
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"it ended with status {run.returncode}"]
        errors = (d for d in reported(run.stderr) if d.get("severity", "error") == "error")
        said = [f"error[{d['code']}]: {d['message']}" for d in errors]
        raise CommandFailed(f"{what}: {(said or lines)[0]}")
    return run.stdout


def reported(stderr: str) -> list[DiagnosticJson]:
    """Return the diagnostics that a command wrote as JSON; none if it wrote something else."""
    try:
        return from_json(list[DiagnosticJson], json.loads(stderr or "[]"))
    except ValueError:
        return []
