"""`mucc run FILE --dims M=4096,...`: compile, run, compare with the float64 interpreter, and time."""

from __future__ import annotations

import importlib
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mucc.diagnostics.core import DiagnosticError, ExitStatus
from mucc.dims import fault, parse_dims
from mucc.json_text import json_text
from mucc.runtime.dims import check_promises, choose_kernel, complete_dims
from mucc.runtime.errors import MuccError
from mucc.runtime.report import Report
from mucc.signature import KernelInfo, Manifest

if TYPE_CHECKING:
    from mucc.cli.reporting import Reporter
    from mucc.driver import Compilation


@dataclass
class Arguments:
    """The parsed command line."""

    file: str = ""
    dims: list[str] = field(default_factory=list[str])
    kernel: str | None = None
    target: str = "sm_90a"
    device: str | None = None
    iters: int = 50
    seed: int | None = None
    json: bool = False
    no_cache: bool = False
    nvcc: str | None = None
    diagnostics: str = "text"
    verbose: bool = False


def no_gpu() -> str | None:
    """Why nothing can run on a GPU here; None where it can."""
    try:
        torch: Any = importlib.import_module("torch")
    except ModuleNotFoundError:
        return "torch is not installed"
    if torch.version.cuda is None:
        return "the installed torch is built without CUDA"
    if not torch.cuda.is_available():
        return "there is no usable NVIDIA GPU"
    return None


def gpu_problem(target: str) -> str | None:
    """Why a kernel for `target` cannot run here; None where it can."""
    if reason := no_gpu():
        return reason
    torch: Any = importlib.import_module("torch")
    major, minor = torch.cuda.get_device_capability()
    wanted = int(target.removeprefix("sm_").rstrip("af"))
    # What is for one architecture alone says so in its name; other code runs on later GPUs too.
    fits = 10 * major + minor >= wanted if target[-1].isdigit() else 10 * major + minor == wanted
    return None if fits else f"the GPU is sm_{major}{minor}, the kernel is for {target}"


def _parse(argv: list[str]) -> Arguments:
    from mucc.cli.parsing import Parser, add_diagnostics, add_target, usage_error

    p = Parser(
        "run",
        "Compile, run on random inputs, compare with the float64 interpreter, and time.",
        usage="mucc run FILE --dims M=4096,N=4096,K=4096 [options]",
    )
    p.add_argument("file", nargs="?", metavar="FILE", help="a .mcu file, or - for stdin")
    p.add_argument(
        "--dims", action="append", metavar="M=4096,...", help="a value for every free dim of the kernel"
    )
    p.add_argument("--kernel", metavar="NAME", help="which kernel of the file, where it holds several")
    p.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        help="cuda: run it; cpu: interpret what it was lowered to, compile nothing (default: cuda if it can)",
    )
    p.add_argument("--iters", type=int, metavar="N", help="timed launches (default: 50)")
    p.add_argument(
        "--seed", type=int, metavar="N", help="seed of the inputs (default: a new one, which is printed)"
    )
    p.add_argument("--json", action="store_true", help="print the result as JSON")
    p.add_argument(
        "--no-cache", action="store_true", help="neither use nor fill the cache of compiled kernels"
    )
    p.add_argument("--nvcc", metavar="PATH", help="the nvcc to use, or the CUDA toolkit that holds it")
    add_target(p)
    add_diagnostics(p)
    args = p.parse(argv, Arguments())
    if not args.file:
        raise usage_error(
            "no input file", "give the name of a .mcu file: mucc run kernel.mcu --dims M=64,N=64,K=64"
        )
    if args.iters < 1:
        raise usage_error("--iters needs a number of at least 1")
    if args.seed is not None and args.seed < 0:
        raise usage_error("--seed needs a number of at least 0")
    return args


def main(argv: list[str], reporter: Reporter) -> int:
    """`mucc run`. Returns 1 where an output is wrong."""
    from mucc.build import Request, compile_source
    from mucc.cli import files
    from mucc.source import decode

    args = _parse(argv)
    given = parse_dims(args.dims or [])
    data = files.read_bytes(args.file)
    source = decode(data, args.file)
    compilation = compile_source(source, args.target)
    reporter.add(compilation.sink.diagnostics, source)
    manifest = Manifest.parse(compilation.emit("manifest"))
    info = choose_kernel(manifest, args.kernel)
    dims = complete_dims(info, given)
    check_promises(info, dims)
    asked = args.device == "cpu"
    problem = "--device cpu was given" if asked else gpu_problem(args.target)
    if args.device == "cuda" and problem:
        raise fault(
            "MU6070", f"cannot run on a GPU: {problem}", "leave out --device to check the lowered program"
        )
    seed = secrets.randbits(31) if args.seed is None else args.seed
    request = Request(data, source.name, "so", args.target, nvcc=args.nvcc, cached=not args.no_cache)
    try:
        if problem:
            _check_memory(info, dims)
            report = _on_cpu(compilation, info, dims, seed, reporter.progress)
            report.notes.append(f"nothing ran on a GPU: {problem}")
            if not asked:
                report.notes.append(_load_note(request, reporter.progress))
        else:
            from mucc.runtime.run_gpu import run_on_gpu

            report = run_on_gpu(compilation, info, dims, seed, request, args.iters, reporter.progress)
    except MuccError as error:
        raise fault(error.code, error.message) from None
    sys.stdout.write(json_text(report.as_json()) if args.json else report.as_text())
    if report.good:
        return ExitStatus.GOOD
    bad = ", ".join(v.name for v in report.verdicts if not v.good)
    raise fault(
        "MU6060",
        f"{info.name}: {bad} differs from the float64 interpreter",
        f"the same inputs again: --seed {seed}",
    )


def _check_memory(info: KernelInfo, dims: dict[str, int]) -> None:
    """Raise MU5109 where float64 copies of the arguments alone are more than the machine has room for."""
    from math import prod

    from mucc.machine import available_memory

    needed = 8 * sum(prod(a.extents(dims)) for a in (*info.inputs, *info.outputs))
    room = available_memory()
    if room is not None and needed > room:
        sizes = ",".join(f"{name}={max(value // 16, 1)}" for name, value in dims.items())
        raise fault(
            "MU5109",
            f"interpreting takes {needed / 2**30:.0f} GiB and more, and {room / 2**30:.0f} GiB are free",
            f"smaller sizes check the program as well: --dims {sizes}",
        )


def _on_cpu(
    compilation: Compilation,
    info: KernelInfo,
    dims: dict[str, int],
    seed: int,
    progress: Callable[[str], None],
) -> Report:
    """Compare the lowered program with the source, both interpreted."""
    from random import Random

    import numpy as np

    from mucc.dialects.mu.arrays import NumpyArrays
    from mucc.runtime.indices import draw_indices
    from mucc.runtime.verify import compare, input_scales

    arrays = NumpyArrays()
    random = np.random.default_rng(seed)
    scales = input_scales(info, dims)
    inputs: list[Any] = []
    for arg in info.inputs:
        if arg.role == "scalar":
            inputs.append(float(np.float32(random.uniform(0.5, 1.5))))
            continue
        if arg.indices:
            numbers = draw_indices(arg, dims, Random(int(random.integers(1 << 31))))
            inputs.append(np.array(numbers, dtype=np.float64).reshape(arg.extents(dims)))
            continue
        values = random.standard_normal(arg.extents(dims)) * scales[arg.name]
        if arg.layout == "sparse":
            inputs.append(_pruned(values, arg.dtype))
            continue
        inputs.append(arrays.round_to(values, arg.dtype))
    progress("interpreting the program and what it was lowered to")
    with np.errstate(all="ignore"):
        expected = compilation.interpret(info.name, inputs)
        lowered = compilation.interpret_lowered(info.name, inputs)
        verdicts = [
            compare(a.name, a.dtype, arrays.round_to(got, a.dtype), arrays.round_to(want, a.dtype), np)
            for a, got, want in zip(info.outputs, lowered, expected, strict=True)
        ]
    checked = "the lowered program, interpreted on the CPU"
    return Report(info.name, info.signature, dims, seed, "cpu", checked, verdicts)


def _pruned(values: Any, dtype: str) -> Any:
    """Random numbers with the 2:4 pattern (1:2 of f32), rounded to a dtype."""
    import numpy as np

    from mucc.dialects.mu.arrays import NumpyArrays
    from mucc.runtime.sparse import prune

    stored = np.float32 if dtype == "f32" else np.int8 if dtype in ("s8", "u8") else np.float16
    rounded = NumpyArrays().round_to(values, dtype)
    return prune(rounded.astype(stored)).astype(np.float64)


def _load_note(request: Any, progress: Callable[[str], None]) -> str:
    """Build the library and load it, as far as this machine can; says how far that was."""
    import tempfile
    from pathlib import Path

    from mucc.build import build
    from mucc.runtime.module import load

    try:
        artefact = build(request, progress)
    except DiagnosticError as error:
        if not all(d.code.startswith("MU5") for d in error.diagnostics):
            raise
        return f"the .so was not built: {error.diagnostics[0].message}"
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        path = Path(folder) / f"{request.stem}.so"
        path.write_bytes(artefact.data)
        module = load(path)
    found = ", ".join(k.name for k in module)
    return f"the .so was built ({len(artefact.data) >> 10} KiB) and loads; it holds {found}"
