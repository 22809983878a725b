"""How long the command line takes, whole processes: help, check of 100 lines, and a build from the cache.

    python -m bench.compile [--runs N]

No nvcc runs here: the cache is filled with a stand-in for the artefact, of the size of a real one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.common import ROOT, cpu_label, write_result

ARTEFACT_BYTES = 1_200_000
"""The size of a `.so` with one CUTLASS kernel."""

KERNEL = """\
// Kernel {i}: a linear layer with its activation.
kernel linear_{i}[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N]
    where K % 8 == 0, N % 8 == 0
{{
    y = x @ w.T + b
    return {f}(y)
}}
"""
FUNCTIONS = ("gelu", "relu", "silu", "tanh", "sigmoid", "mish", "softplus", "elu")


def program(lines: int = 100) -> str:
    """A program of about so many lines: kernels like those that people write."""
    text = ""
    for i, f in enumerate(FUNCTIONS * lines):
        text += ("\n" if i else "") + KERNEL.format(i=i, f=f)
        if text.count("\n") >= lines:
            return text
    raise AssertionError("more kernels than lines")


def seconds(command: list[str], environment: Mapping[str, str], runs: int) -> list[float]:
    """Wall-clock seconds of each of `runs` processes, after one that warms the file cache."""
    times: list[float] = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - started)
    return times[1:]


def fill_cache(directory: str, source: Path) -> None:
    """Answer the request of `source` beforehand, as a build of it would."""
    from mucc.build import Request, decisive_flags
    from mucc.cache import Cache, Entry, request_key
    from mucc.toolchain.discover import find_toolchain

    decisive = decisive_flags(Request(b"", str(source)))
    cache = Cache(directory)
    cache.build("artefacts", "00" * 32, lambda: Entry(os.urandom(ARTEFACT_BYTES), ()))
    cache.store_request(
        request_key(source.read_bytes(), decisive, find_toolchain().fingerprint()), "00" * 32, ()
    )


def main() -> None:
    """Measure, write the result, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21, help="processes for each figure (default: 21)")
    runs: int = parser.parse_args().runs
    mucc = str(Path(sys.executable).with_name("mucc"))
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "MUCC_CACHE_DIR": os.path.join(directory, "cache")}
        small, long = Path(directory, "k.mcu"), Path(directory, "long.mcu")
        small.write_text((ROOT / "examples" / "linear_gelu.mcu").read_text())
        long.write_text(program())
        fill_cache(environment["MUCC_CACHE_DIR"], small)
        cases = {
            "compile.python_s": [sys.executable, "-c", "pass"],
            "compile.help_s": [mucc, "--help"],
            "compile.check_s": [mucc, "check", str(long)],
            "compile.cached_s": [mucc, str(small), "-o", os.path.join(directory, "k.so")],
        }
        rows: list[dict[str, object]] = []
        summary: dict[str, float] = {}
        for name, command in cases.items():
            times = seconds(command, environment, runs)
            shown = " ".join(os.path.basename(word) if os.sep in word else word for word in command)
            median = statistics.median(times)
            rows.append(
                {"name": name, "command": shown, "runs": runs, "min_s": min(times), "median_s": median}
            )
            summary[name] = round(median, 4)
            print(f"{name:<18} {median:.3f} s median, {min(times):.3f} s min   {shown}")
    print(write_result(cpu_label(), "compile", rows, summary))


if __name__ == "__main__":
    main()
