"""Runs every check of the project, each to its end, and closes with a summary: what `make test` calls."""

from __future__ import annotations

import os
import subprocess
import sys
import time

CHECKS = {
    "ruff": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "pyright": ["pyright"],
    "imports": ["lint-imports"],
    "lit": ["lit", "-sv", "test"],
    "pytest": [sys.executable, "-m", "pytest", "-n", "auto"],
    "install": [sys.executable, "test/tools/install_matrix.py", "--share"],
}


def main() -> int:
    """Run all; the exit status says whether all passed."""
    results: list[tuple[str, bool, float]] = []
    for name, command in CHECKS.items():
        print(f"== {name}: {' '.join(command)}", flush=True)
        started = time.monotonic()
        good = subprocess.run(command, env={**os.environ, "NO_COLOR": "1"}, check=False).returncode == 0
        results.append((name, good, time.monotonic() - started))
    print("\n== summary")
    for name, good, seconds in results:
        print(f"{name:<8} {'passed' if good else 'FAILED'}  {seconds:6.1f} s")
    return 0 if all(good for _, good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
