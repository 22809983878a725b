"""Terminals for tests of what is shown while something runs: a stream that says it is one, and real ones."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from processes import HANG

ROOT = Path(__file__).parents[2]

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
"""What hides the cursor while something is shown, and what shows it again."""


class Terminal(io.StringIO):
    """A stream that keeps what it gets, and says that it is a terminal."""

    def isatty(self) -> bool:
        return True


class Drawable(Protocol):
    """A live display, as far as it can be drawn at any time."""

    def render(self) -> Any: ...


def drawn(live: Drawable, width: int = 120) -> str:
    """What a display shows now, as text."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, height=40)
    with console.capture() as capture:
        console.print(live.render())
    return capture.get()


def on_a_terminal(
    program: str,
    *arguments: str,
    at: bytes = b"",
    act: Callable[[subprocess.Popen[bytes]], object] = lambda process: None,
) -> tuple[int, str]:
    """Run a Python program with a terminal for stderr; its status, and what the terminal got.

    `act` is called once the terminal has got `at`.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"},
    )
    os.close(theirs)
    got, until = b"", time.monotonic() + HANG
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.05)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:  # closed at the other end
                break
            got += data
        if at and at in got:
            act(process)
            at = b""
    os.close(ours)
    return process.wait(HANG), got.decode()
