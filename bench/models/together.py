"""Measure many models in processes of their own: they compile at once, and are timed one after the other."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.models.gate import is_ready, let_go

POLL = 0.1


def measured_together(
    command: Callable[[str, Path], Sequence[str]],
    keys: Sequence[str],
    seconds: float,
    share: float = 0.6,
) -> list[str]:
    """Run `command(key, gate)` for each model; returns the models that were measured.

    Models that are ready when `share` of the seconds is over, or all are, are timed; later ones when those
    are, while time is left. Those that still compile are stopped meanwhile. What is not done at the end is
    ended.
    """
    began = time.monotonic()
    done: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder)
        running = {key: subprocess.Popen(command(key, gate), stdin=subprocess.DEVNULL) for key in keys}
        try:
            while running and (spent := time.monotonic() - began) < seconds:
                for key in [k for k, process in running.items() if process.poll() is not None]:
                    del running[key]
                ready = [key for key in running if is_ready(gate, key)]
                if not ready or (len(ready) < len(running) and spent < share * seconds):
                    time.sleep(POLL)
                    continue
                process = running.pop(ready[0])
                compiling = [p for key, p in running.items() if key not in ready]
                try:
                    _signal(compiling, signal.SIGSTOP)
                    let_go(gate, ready[0])
                    process.wait(timeout=seconds - spent)
                    done.append(ready[0])
                except subprocess.TimeoutExpired:
                    running[ready[0]] = process
                finally:
                    _signal(compiling, signal.SIGCONT)
        finally:
            for key, process in running.items():
                print(f"{key}: not measured within {seconds:g} s", file=sys.stderr, flush=True)
                process.kill()
                process.wait()
    return done


def _signal(processes: Sequence[subprocess.Popen[bytes]], number: int) -> None:
    """Send a signal to processes that have not ended."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
