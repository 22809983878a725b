"""How long compiling takes: whole processes and in process, cold, warm and cached, and against others.

    python -m bench.compile [--runs N] [--cold-runs N] [--only PART] [--record NAME] [--rivals | --no-rivals]

Every figure is a median of wall-clock seconds. What is compiled is a linear layer with bias and activation.
Cold means an empty cache; a new body is another activation with a constant that was never there, on a
skeleton that the cache holds; a new skeleton is another tile, where the cache holds all else; plain is
`--plain-nvcc`, one nvcc for everything. Cold and plain builds take turns. Of light kernels, which have no
skeleton, a layer norm with such activations is compiled, for known extents and for open ones; new in all
respects is one of other extents. The same of attention, whose score functions are new, and of a convolution,
also from an empty cache for sm_80. Where there is a GPU the linear layer is given to other compilers too.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.common import cpu_label, kept_bytecode, run_main, versions, write_result

KERNEL = """\
// Kernel {i}: a linear layer with its activation.
kernel linear_{i}[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N]
    where K % 8 == 0, N % 8 == 0
{{
    y = x @ w.T + b
    return {value}
}}
"""
LIGHT = """\
kernel norm{dims}(x: f32[{shape}], g: f32[{columns}], c: f32[{columns}]) -> f32[{shape}] {{
    y = layer_norm(x) * g + c
    return {value}
}}
"""
ATTENTION = """\
kernel attend{dims}(q: {type}, k: {type}, v: {type}) -> {type} {{
    y = q @ permute(k, (0, 1, 3, 2)) * 0.088
    return cast(softmax({value}, axis=-1), bf16) @ v
}}
"""
CONVOLUTION = """\
kernel layer{dims}(x: {x}, w: bf16[128, 3, 3, 128], b: f32[128]) -> {x} {{
    y = conv(permute(x, (0, 3, 1, 2)), permute(w, (0, 3, 1, 2)), pad=1) + b[:, None, None]
    return permute({value}, (0, 2, 3, 1))
}}
"""
FUNCTIONS = ("silu", "gelu", "relu", "tanh", "sigmoid", "mish", "softplus", "elu")

SCHEDULE = """
schedule linear_0 for sm_90a {{
    tile = {tile}
}}
"""

OTHER_TILES = ("128x192x64", "128x160x64", "128x224x64", "128x96x64", "128x64x64")
"""Tiles that no default schedule has."""


def lines_of_kernels(lines: int = 100) -> str:
    """A program of about so many lines: kernels like those that people write."""
    text = ""
    for i, f in enumerate(FUNCTIONS * lines):
        text += ("\n" if i else "") + KERNEL.format(i=i, value=f"{f}(y)")
        if text.count("\n") >= lines:
            return text
    raise AssertionError("more kernels than lines")


def new_value(index: int) -> str:
    """An activation of y with a constant that was never compiled before."""
    return f"{FUNCTIONS[index % len(FUNCTIONS)]}(y) * {random.SystemRandom().uniform(0.5, 2):.9f}"


def new_body(index: int) -> str:
    """A program whose pointwise work was never compiled before."""
    return KERNEL.format(i=0, value=new_value(index))


def new_norm(index: int, columns: int | None = 4096) -> str:
    """A layer norm of rows of so many columns, or of any number, with pointwise work that is new."""
    dims, shape = ("[M, N]", "M, N") if columns is None else ("", f"16384, {columns}")
    return LIGHT.format(dims=dims, shape=shape, columns=shape.rpartition(", ")[2], value=new_value(index))


def new_score(index: int, rows: int | None = 4096) -> str:
    """Attention over so many rows, or any number, with a score function that is new."""
    dims, shape = ("[B, H, S]", "B, H, S, 128") if rows is None else ("", f"4, 16, {rows}, 128")
    return ATTENTION.format(dims=dims, type=f"bf16[{shape}]", value=new_value(index))


def new_convolution(index: int, batch: int | None = 32) -> str:
    """A 3x3 convolution of so many images, or any number, channels last, with an activation that is new."""
    dims, images = ("[B]", "B") if batch is None else ("", str(batch))
    return CONVOLUTION.format(dims=dims, x=f"bf16[{images}, 28, 28, 128]", value=new_value(index))


@dataclass(slots=True)
class Results:
    """The rows and the summary, as they come."""

    rows: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    summary: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, shown: str, times: Sequence[float], peak: float | None = None) -> float:
        """Keep and print one figure, in seconds; `peak` is that of the largest process, in bytes."""
        median = statistics.median(times)
        row: dict[str, object] = {"name": name, "command": shown, "runs": len(times)}
        row |= {"min_s": min(times), "median_s": median, "max_s": max(times)}
        memory = ""
        if peak is not None:
            row["peak_bytes"] = peak
            memory = f", {peak / 1e9:.2f} GB"
        self.rows.append(row)
        self.summary[name] = round(median, 4)
        print(f"{name:<24} {median:7.3f} s median, {min(times):.3f} s min{memory}   {shown}", flush=True)
        return median

    def ratio(self, name: str, above: str, below: str) -> None:
        """Keep and print a figure over another."""
        self.summary[name] = round(self.summary[above] / self.summary[below], 4)
        print(f"{name:<24} {self.summary[name]:7.4f}")


def process(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """The seconds of a process, and the peak in bytes of its largest child."""
    started = time.perf_counter()
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_maxrss * 1024.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs commands in a folder with caches of its own."""

    folder: Path
    results: Results

    def environment(self, cache: str) -> dict[str, str]:
        """Of a process that uses the cache of this name, and bytecode, as installed packages have."""
        return {**kept_bytecode(), "MUCC_CACHE_DIR": str(self.folder / cache), "NO_COLOR": "1"}

    def mucc(self, *words: str) -> list[str]:
        """A command line of mucc."""
        return [sys.executable, "-m", "mucc", *words] if not _script().exists() else [str(_script()), *words]

    def write(self, name: str, text: str) -> str:
        """A program in a file."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def build(self, text: str, cache: str, *options: str) -> tuple[float, float]:
        """Seconds and peak of one whole process that builds a program."""
        output = str(self.folder / "k.so")
        return process(self.mucc(self.write("k.mcu", text), "-o", output, *options), self.environment(cache))

    def command_line(self, runs: int) -> None:
        """What needs no compiler of C++."""
        small = self.write("small.mcu", new_body(0))
        long = self.write("long.mcu", lines_of_kernels())
        output = str(self.folder / "k.so")
        process(self.mucc(small, "-o", output), self.environment("main"))
        cases = {
            "compile.python_s": [sys.executable, "-c", "pass"],
            "compile.help_s": self.mucc("--help"),
            "compile.check_s": self.mucc("check", long),
            "compile.cached_s": self.mucc(small, "-o", output),
        }
        for name, command in cases.items():
            times = [process(command, self.environment("main"))[0] for _ in range(runs + 1)][1:]
            shown = " ".join(os.path.basename(word) if os.sep in word else word for word in command)
            self.results.add(name, shown, times)

    def builds(self, runs: int, cold_runs: int) -> None:
        """What compiles, from nothing to almost everything in the cache."""
        add = self.results.add
        cold: list[tuple[float, float]] = []
        plain: list[tuple[float, float]] = []
        for i in range(cold_runs):
            text = KERNEL.format(i=0, value="gelu(y)")
            cold.append(self.build(text, f"cold{i}"))
            plain.append(self.build(text, f"plain{i}", "--plain-nvcc"))
        add("compile.cold_s", "mucc k.mcu -o k.so", [t for t, _ in cold], max(p for _, p in cold))
        add(
            "compile.plain_s",
            "mucc k.mcu -o k.so --plain-nvcc",
            [t for t, _ in plain],
            max(p for _, p in plain),
        )
        new = [
            self.build(KERNEL.format(i=0, value="gelu(y)") + SCHEDULE.format(tile=tile), "cold0")
            for tile in OTHER_TILES[:cold_runs]
        ]
        add("compile.skeleton_s", "mucc other_tile.mcu -o k.so", [t for t, _ in new], max(p for _, p in new))
        bodies = [self.build(new_body(i), "cold0") for i in range(runs + 1)][1:]
        shown = "mucc other_body.mcu -o k.so"
        add("compile.body_process_s", shown, [t for t, _ in bodies], max(p for _, p in bodies))
        self.in_process("compile.body_warm_s", new_body, runs, "cold0")
        self.results.ratio("compile.body_over_nvcc", "compile.body_warm_s", "compile.plain_s")
        self.results.ratio("compile.body_process_over_nvcc", "compile.body_process_s", "compile.plain_s")
        self.results.ratio("compile.cold_over_nvcc", "compile.cold_s", "compile.plain_s")
        self.results.ratio("compile.skeleton_over_nvcc", "compile.skeleton_s", "compile.plain_s")

    def light(self, runs: int) -> None:
        """New bodies on known kernels without CUTLASS, and such kernels that are new in all respects."""
        times = [self.build(new_norm(i), "light") for i in range(runs + 1)][1:]
        shown = "mucc other_norm.mcu -o k.so"
        self.results.add(
            "compile.light_body_process_s", shown, [t for t, _ in times], max(p for _, p in times)
        )
        self.in_process("compile.light_body_warm_s", new_norm, runs, "light")
        self.in_process("compile.light_open_body_warm_s", lambda i: new_norm(i, None), runs, "light")
        self.in_process("compile.light_new_warm_s", lambda i: new_norm(i, 1024 + 8 * i), runs, "light")
        self.in_process("compile.score_warm_s", new_score, runs, "light")
        self.in_process("compile.score_open_warm_s", lambda i: new_score(i, None), runs, "light")

    def convolutions(self, runs: int, cold_runs: int) -> None:
        """Convolutions from nothing, for two targets, and new bodies on known ones."""
        for target in ("sm_90a", "sm_80"):
            cold = [
                self.build(new_convolution(0), f"conv{i}-{target}", "--target", target)
                for i in range(cold_runs)
            ]
            shown = f"mucc convolution.mcu -o k.so --target {target}"
            times, peaks = zip(*cold, strict=True)
            self.results.add(f"compile.conv_{target}_cold_s", shown, times, max(peaks))
        self.in_process("compile.conv_body_warm_s", new_convolution, runs, "conv0-sm_90a")
        self.in_process(
            "compile.conv_open_body_warm_s", lambda i: new_convolution(i, None), runs, "conv0-sm_90a"
        )

    def in_process(self, name: str, program: Callable[[int], str], runs: int, cache: str) -> None:
        """New bodies one after the other in one process that has compiled before."""
        os.environ["MUCC_CACHE_DIR"] = str(self.folder / cache)
        from mucc.build.artefact import Request, build

        def seconds(index: int) -> float:
            request = Request(program(index).encode(), "k.mcu")
            started = time.perf_counter()
            if build(request).cached:
                raise SystemExit("a body that was to be new is in the cache")
            return time.perf_counter() - started

        times = [seconds(i) for i in range(-2, runs)][2:]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
        self.results.add(name, "mucc.build.artefact.build(other body)", times, peak)
        for i, function in enumerate(FUNCTIONS):
            of = [t for j, t in enumerate(times) if j % len(FUNCTIONS) == i]
            if of:
                self.results.rows.append(
                    {"name": f"{name.partition('.')[2]} of {function}", "median_s": statistics.median(of)}
                )


def _script() -> Path:
    """The console script beside this Python."""
    return Path(sys.executable).with_name("mucc")


def gpu() -> tuple[str, Callable[[], dict[str, str]]] | None:
    """The name of the card here and what to say of its surroundings; None without one."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    from bench.timing import card, gpu_versions

    return card(torch), lambda: gpu_versions(torch)


def rivals(results: Results) -> None:
    """What other compilers take for the same layer."""
    from bench.compilers.times import measure_all

    for row in measure_all(runs=1):
        results.rows.append(dict(row))
        for key in ("cold_s", "process_s", "warm_s"):
            if isinstance(value := row.get(key), float):
                results.summary[f"compile.{row['name']}.{key}"] = round(value, 4)


def main() -> None:
    """Measure, write the result, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=16, help="processes for each short figure (default: 16)")
    parser.add_argument("--cold-runs", type=int, default=3, help="runs of what takes a minute (default: 3)")
    parser.add_argument(
        "--only", choices=("command-line", "builds", "light", "convolutions"), help="leave out the rest"
    )
    parser.add_argument("--record", default="compile", metavar="NAME", help="name of the result (compile)")
    parser.add_argument(
        "--rivals", action=argparse.BooleanOptionalAction, help="other compilers (default: with a GPU)"
    )
    arguments = parser.parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
        bench = Bench(Path(folder), results)
        if arguments.only in (None, "builds"):
            bench.builds(arguments.runs, arguments.cold_runs)
        if arguments.only in (None, "light"):
            bench.light(arguments.runs)
        if arguments.only in (None, "convolutions"):
            bench.convolutions(arguments.runs, arguments.cold_runs)
        if arguments.only in (None, "command-line"):
            bench.command_line(arguments.runs)
    found = gpu()
    if arguments.rivals or (arguments.rivals is None and found):
        rivals(results)
    label, extra = (found[0], found[1]()) if found else (cpu_label(), {})
    tools = versions("nvidia-cuda-nvcc", "nvidia-cutlass", "cuda-bindings")
    given = label, arguments.record, results.rows, results.summary
    print(write_result(*given, extra_versions={**tools, **extra}, module="compile"))


if __name__ == "__main__":
    run_main(main)
