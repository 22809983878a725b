"""What must hold of programs that the language takes: every target, both interpreters, the host's C++."""

from __future__ import annotations

import random
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path

from bench.fuzz.chains import UNROUNDED
from bench.fuzz.checks import (
    DEFECT,
    LEVELS,
    PATIENCE,
    Failure,
    Outcome,
    emitted,
    examine,
    limited,
    verdict,
)
from bench.fuzz.layers import JOINED, of_any_size
from bench.fuzz.levels import UndrawableError, rounds_nothing, same_at_each_level, same_in_each_entry
from bench.fuzz.sources import Drawn
from bench.gpu_fuzz.programs import ALL_TARGETS
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.compiler.program import compile_source
from mucc.diagnostics.core import DiagnosticError, Severity, Source
from mucc.library.dims import Size
from mucc.library.signature import KernelInfo, Manifest
from mucc.measure.dims import check_promises, complete_dims

SIZES = (1, 2, 3, 5, 8, 16, 33, 64, 128, 256)
MOST_ELEMENTS = 2_000_000
"""Elements of all tensors of a kernel that is interpreted, at most."""
ENTRIES_SHARE = 0.2
"""The share of chains and layers that are compiled for several sizes too."""
TRIES = 60
"""Random sizes that are tried before a kernel's promises count as not to be met by small ones."""


def examine_program(drawn: Drawn, host: bool) -> Outcome:
    """Take a program through the checks of sources, for all targets, and interpret it; see `examine`.

    With `host` g++ reads the C++ of the host's half too.
    """
    data = drawn.text.encode()
    outcome = examine(data, drawn.target, drawn.dims, LEVELS, command=False)
    if outcome.is_finding:
        return outcome
    source = Source("f.mcu", drawn.text)
    try:
        with limited(4 * PATIENCE):
            for target in ALL_TARGETS:
                if target != drawn.target:
                    found = verdict(source, target, {})
                    emitted(source, target, {}, ("cu",), any(d.severity is Severity.ERROR for d in found))
            if outcome.kind == "good":
                compilation = compile_source(source, drawn.target, dims=drawn.dims, tuned=False)
                interpreted(compilation)
                if host:
                    parsed_by_gxx(compilation)
    except Failure as failure:
        return Outcome(failure.kind, "", str(failure)[:2000])
    except Exception as error:
        import traceback

        place = "".join(traceback.format_exception(error)[-3:])
        return Outcome("crash", type(error).__name__, place[-2000:])
    return outcome


def small_dims(info: KernelInfo, rng: random.Random) -> dict[str, int] | None:
    """Small sizes that keep a kernel's promises; None where none were found."""
    free = [name for name, value in info.dims.items() if value is None]
    for _ in range(TRIES):
        dims = {name: rng.choice(SIZES) for name in free}
        try:
            complete = complete_dims(info, dims)
            check_promises(info, complete)
        except DiagnosticError:
            continue
        return complete
    return None


def interpreted(compilation: Compilation) -> None:
    """What a program was lowered to computes what the program says."""
    from mucc.measure.run import run_on_cpu

    for info in Manifest.parse(compilation.manifest).kernels:
        rng = random.Random(compilation.source.text)
        dims = small_dims(info, rng)
        if dims is None or _elements(info, dims) > MOST_ELEMENTS:
            continue
        report = run_on_cpu(compilation, info, dims, rng.randrange(1 << 16), lambda _: None)
        if bad := [v.name for v in report.verdicts if not v.good]:
            raise Failure("lowered", f"{info.name} {dims}: {', '.join(bad)} differ")


def examine_chain(drawn: Drawn) -> Outcome:
    """Compile a chain of operations or a layer, and interpret it after each pass.

    Of a program whose results have 32 bits kernels round nothing that the program does not round. Of a layer
    the judge of results takes what the kernels compute, with their roundings.
    """
    joined = of_any_size() if JOINED in drawn.text else nullcontext()
    with joined:
        return _guarded(lambda: _chain_holds(Source("f.mcu", drawn.text), drawn), 2 * PATIENCE)


def _chain_holds(source: Source, drawn: Drawn) -> None:
    compilation = compile_text(source, Options(drawn.target, dims=drawn.dims, tuned=False))
    compilation.emit("cu")
    (info,) = Manifest.parse(compilation.manifest).kernels
    dims = small_dims(info, random.Random(drawn.text))
    if dims is not None and _elements(info, dims) <= MOST_ELEMENTS:
        same_at_each_level(source, drawn.target, dims, drawn.text, drawn.dims)
        if UNROUNDED in drawn.text:
            rounds_nothing(compilation, info, dims, drawn.text)
        if drawn.origin == "layers":
            interpreted(compilation)
        if random.Random(f"entries {drawn.text}").random() < ENTRIES_SHARE:
            _entries(source, drawn.target, info, dims)


def examine_schedule(drawn: Drawn) -> Outcome:
    """Take a program with a drawn schedule through the checks of sources, and interpret it; see `examine`.

    What the compiler takes is compiled for several sizes too.
    """
    joined = of_any_size() if JOINED in drawn.text else nullcontext()
    with joined:
        outcome = examine(drawn.text.encode(), drawn.target, drawn.dims, LEVELS, command=False)
        if outcome.kind != "good":
            return outcome
        return _guarded(lambda: _computed(Source("f.mcu", drawn.text), drawn), 4 * PATIENCE)


def _computed(source: Source, drawn: Drawn) -> None:
    compilation = compile_source(source, drawn.target, dims=drawn.dims, tuned=False)
    interpreted(compilation)
    (info, *others) = Manifest.parse(compilation.manifest).kernels
    dims = small_dims(info, random.Random(drawn.text))
    if not others and dims is not None and _elements(info, dims) <= MOST_ELEMENTS:
        with suppress(UndrawableError):
            same_at_each_level(source, drawn.target, dims, drawn.text, drawn.dims)
            _entries(source, drawn.target, info, dims)


def _guarded(trial: Callable[[], None], seconds: float) -> Outcome:
    """Run a trial: good, refused with its code, or the kind of its failure."""
    try:
        with limited(seconds):
            trial()
    except Failure as failure:
        return Outcome(failure.kind, "", str(failure)[:2000])
    except DiagnosticError as error:
        code = next(d.code for d in error.diagnostics if d.severity is Severity.ERROR)
        return Outcome("defect" if code.startswith(DEFECT) else "refused", code, str(error)[:2000])
    except UndrawableError:
        return Outcome("refused", "indices")
    except Exception as error:
        import traceback

        return Outcome("crash", type(error).__name__, "".join(traceback.format_exception(error)[-3:])[-2000:])
    return Outcome("good")


def _entries(source: Source, target: str, info: KernelInfo, dims: Mapping[str, int]) -> None:
    """Compile a program for few and for many rows, and compare what each entry computes."""
    free = [name for name, value in info.dims.items() if value is None]
    if free:
        sizes = tuple(Size(dict.fromkeys(free, count)) for count in (2, 64, 20_000))
        compilation = compile_text(source, Options(target, sizes=sizes, tuned=False))
        compilation.emit("cu")
        same_in_each_entry(compilation, dims, source.text)


def _elements(info: KernelInfo, dims: Mapping[str, int]) -> int:
    from math import prod

    return sum(prod(arg.extents(dims)) for arg in (*info.inputs, *info.outputs))


@cache
def _gxx() -> tuple[str, ...] | None:
    """The command that reads a host half; None where the toolchain is missing."""
    from mucc.build.toolchain.assembly import host_flags
    from mucc.build.toolchain.discover import find_toolchain

    try:
        toolchain = find_toolchain()
        paths = toolchain.tools()
    except DiagnosticError:
        return None
    words = ("{cxx}", *host_flags(toolchain), "-fsyntax-only", "half.cpp")
    return tuple(word.format(**paths) for word in words)


def parsed_by_gxx(compilation: Compilation) -> None:
    """g++ takes the program's host code, which has no CUTLASS, and the host half of every skeleton."""
    if (gxx := _gxx()) is None:
        return
    parts = compilation.parts()
    halves = [((), parts.program), *((("-include", "mucc_shim.h"), s.host) for s in parts.skeletons)]
    for included, text in halves:
        command = (*gxx, *included)
        with tempfile.TemporaryDirectory(prefix="mucc-fuzz-") as folder:
            (Path(folder) / "half.cpp").write_text(text)
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure("host", done.stderr[-1500:])
