"""`mucc run FILE --dims M=4096,...`: compile, run, compare with the float64 interpreter, and time."""

from __future__ import annotations

import gc
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.parameters import flag, option
from mucc.cli.reporting import Reporter
from mucc.cli.subject import compiled_subject
from mucc.compiler import files
from mucc.diagnostics.core import ExitStatus
from mucc.diagnostics.usage import usage_error
from mucc.files.json_text import json_text


@dataclass
class Arguments:
    """The arguments of `mucc run`."""

    file: str = options.program("a .mcu file, or - for stdin")
    dims: list[str] = options.dims("a value for every free dim of the kernel")
    kernel: str | None = options.kernel("which kernel of the file, where it holds several")
    device: str | None = option(
        None,
        choices=("cuda", "cpu"),
        help="cuda: run it; cpu: interpret what it was lowered to, compile nothing (default: cuda if it can)",
    )
    iters: int = option(50, metavar="N", help="timed launches")
    seed: int | None = option(
        None, type=int, metavar="N", help="seed of the inputs (default: a new one, which is printed)"
    )
    profile: bool = flag(help="time each device kernel as well, beside its bound; needs a GPU")
    trace: str | None = option(
        None, metavar="FILE", help="write a trace of the launches for Perfetto (ui.perfetto.dev); needs a GPU"
    )
    lineinfo: bool = options.lineinfo()
    json: bool = options.json("print the result as JSON")
    no_cache: bool = options.no_cache()
    nvcc: str | None = options.nvcc()
    target: str = options.target()
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


def _check(args: Arguments) -> None:
    """Raise MU5001 for missing or illegal arguments."""
    if not args.file:
        raise usage_error(
            "no input file", "give the name of a .mcu file: mucc run kernel.mcu --dims M=64,N=64,K=64"
        )
    if args.iters < 1:
        raise usage_error("--iters needs a number of at least 1")
    if args.trace is not None:
        if args.trace == "":
            raise usage_error("--trace is followed by an empty name", "name a file: --trace trace.json")
        files.check_output(args.trace, (args.file,))
    if args.seed is not None and args.seed < 0:
        raise usage_error("--seed needs a number of at least 0")


def _writer(path: str) -> Callable[[str], None]:
    """Return what writes a trace to a file."""

    def write(text: str) -> None:
        files.write_output(path, text.encode())

    return write


def _gpu_problem(args: Arguments) -> str | None:
    """Return why nothing can run on a GPU; None where it can. Raises MU6070 where the options ask for one."""
    from mucc.library.dims import fault
    from mucc.measure import run

    problem = "--device cpu was given" if args.device == "cpu" else run.gpu_problem(args.target)
    if args.device == "cuda" and problem:
        raise fault(
            "MU6070", f"cannot run on a GPU: {problem}", "leave out --device to check the lowered program"
        )
    if (args.profile or args.trace is not None) and problem:
        advice = "`mucc FILE --emit=graph --dims ...` says what each kernel takes at least"
        raise fault("MU6070", f"cannot time kernels on a GPU: {problem}", advice)
    return problem


@command(
    Arguments,
    "Compile, run on random inputs, compare with the float64 interpreter, and time.",
    usage="FILE --dims M=4096,N=4096,K=4096 [options]",
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Run a kernel on the GPU, or interpret its lowered form. Raises MU6060 for a wrong output."""
    _check(args)
    gc.enable()  # unlike a compilation, a run allocates large tensors, to be freed as soon as possible
    from mucc.build.artefact import Request
    from mucc.library.dims import fault
    from mucc.library.errors import MuccError
    from mucc.measure import run

    data, source, compilation, info, dims = compiled_subject(
        args.file, args.target, args.kernel, args.dims, reporter
    )
    problem = _gpu_problem(args)
    seed = secrets.randbits(31) if args.seed is None else args.seed
    request = Request(
        data,
        source.name,
        "so",
        args.target,
        nvcc=args.nvcc,
        cached=not args.no_cache,
        lines=args.lineinfo,
    )
    try:
        if problem:
            run.check_memory(info, dims)
            report = run.run_on_cpu(compilation, info, dims, seed, reporter.progress)
            report.notes.append(f"nothing ran on a GPU: {problem}")
            if args.device != "cpu":
                report.notes.append(run.load_note(request, reporter.progress))
        else:
            from mucc.measure.run_gpu import run_on_gpu

            report = run_on_gpu(
                *(compilation, info, dims, seed, request, args.iters, reporter.progress),
                profiled=args.profile,
                traced=_writer(args.trace) if args.trace is not None else None,
            )
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
