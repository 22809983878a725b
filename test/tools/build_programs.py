"""Compile programs side by side: `build_programs.py OUT_DIR JOBS FILE.mcu...`, each to OUT_DIR/NAME.so.

Prints one line per program, and exits with 1 when one failed. Every job needs about 4 GB of memory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def build(path: Path, out: Path) -> tuple[bool, str]:
    """Compile one program with the command line; whether it worked, and a line about it."""
    started = time.monotonic()
    command = [sys.executable, "-m", "mucc", str(path), "-o", str(out / f"{path.stem}.so")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    line = f"{path.stem:<28} {time.monotonic() - started:6.1f} s"
    return run.returncode == 0, line if run.returncode == 0 else f"{line}  FAILED\n{run.stderr[:1500]}"


def main() -> int:
    out, jobs, *files = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(int(jobs)) as pool:
        results = list(pool.map(lambda f: build(Path(f), Path(out)), files))
    print("\n".join(line for _, line in results))
    return 0 if all(good for good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
