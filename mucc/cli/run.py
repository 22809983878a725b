"""`mucc run FILE --dims M=4096,...`: compile, run, compare with the float64 interpreter, and time."""

from __future__ import annotations

import gc
import secrets
import sys
from dataclasses import dataclass, field

from mucc.cli import files
from mucc.cli.parsing import DEFAULT_TARGET, Parser, add_diagnostics, add_target, usage_error
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import ExitStatus
from mucc.files.json_text import json_text


@dataclass
class Arguments:
    """The parsed command line."""

    file: str = ""
    dims: list[str] = field(default_factory=list[str])
    kernel: str | None = None
    target: str = DEFAULT_TARGET
    device: str | None = None
    iters: int = 50
    seed: int | None = None
    json: bool = False
    no_cache: bool = False
    nvcc: str | None = None
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc run`."""
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
    return p


def _parsed(argv: list[str]) -> Arguments:
    args = parser().parse(argv, Arguments())
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
    """Run one kernel, or check what it was lowered to. Raises MU6060 where an output is wrong."""
    args = _parsed(argv)
    gc.enable()  # unlike a compilation, a run makes large tensors that should go when they can
    from mucc.build.artefact import Request, compile_source
    from mucc.compiler.source import decode
    from mucc.library.dims import fault, parse_dims
    from mucc.library.errors import MuccError
    from mucc.library.signature import Manifest
    from mucc.runtime import run
    from mucc.runtime.dims import check_promises, choose_kernel, complete_dims

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
    problem = "--device cpu was given" if asked else run.gpu_problem(args.target)
    if args.device == "cuda" and problem:
        raise fault(
            "MU6070", f"cannot run on a GPU: {problem}", "leave out --device to check the lowered program"
        )
    seed = secrets.randbits(31) if args.seed is None else args.seed
    request = Request(data, source.name, "so", args.target, nvcc=args.nvcc, cached=not args.no_cache)
    try:
        if problem:
            run.check_memory(info, dims)
            report = run.run_on_cpu(compilation, info, dims, seed, reporter.progress)
            report.notes.append(f"nothing ran on a GPU: {problem}")
            if not asked:
                report.notes.append(run.load_note(request, reporter.progress))
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
