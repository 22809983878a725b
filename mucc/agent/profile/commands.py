"""Run commands of mucc for the agent."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence


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
        lines = run.stderr.strip().splitlines()
        raise CommandFailed(f"{what}: {lines[0] if lines else f'it ended with status {run.returncode}'}")
    return run.stdout
