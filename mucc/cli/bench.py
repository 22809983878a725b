"""`mucc bench FILE --dims M=… --against torch,inductor`: time a kernel beside other implementations."""

from __future__ import annotations

import gc
import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import option
from mucc.cli.reporting import Reporter
from mucc.cli.streams import printing_to_stderr
from mucc.cli.subject import compiled_subject
from mucc.compiler import files
from mucc.diagnostics.core import DiagnosticError, ExitStatus
from mucc.diagnostics.usage import usage_error
from mucc.files.json_text import json_text

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation
    from mucc.measure.against import Function

DESCRIPTION = "Check and time a kernel and other implementations of it, in one run with interleaved launches."

EPILOG = """\
contenders of --against:
  torch      the program written in PyTorch, call by call
  inductor   the same through torch.compile with max-autotune
  NAME       KERNEL in the file STEM.NAME.py beside the program, such as linear.helion.py, linear.cutedsl.py;
             STEM.torch.py replaces what is written for torch and inductor
Contenders that are not installed, or compute something else, are named without a time."""

WRITTEN = ("torch", "inductor")


@dataclass
class Arguments:
    """The arguments of `mucc bench`."""

    file: str = options.program("a .mcu file")
    dims: list[str] = options.dims("a value for every free dim of the kernel")
    kernel: str | None = options.kernel("which kernel of the file, where it holds several")
    against: str = option("torch,inductor", metavar="NAME,...", help="contenders, see below")
    iters: int = option(50, metavar="N", help="timed calls of each")
    first_call: float | None = option(
        None,
        type=float,
        metavar="SECONDS",
        help="leave out contenders whose first call, which compiles and tunes them, takes longer",
    )
    seed: int | None = option(None, type=int, metavar="N", help="seed of the inputs (default: a new one)")
    plot: str | None = option(
        None, metavar="OUT.svg", help="draw the times as bars", complete=candidates.files()
    )
    json: bool = options.json("print the result as JSON")
    no_cache: bool = options.no_cache()
    nvcc: str | None = options.nvcc()
    target: str = options.target()
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(
    Arguments, DESCRIPTION, usage="FILE --dims M=4096,… [--against torch,inductor] [options]", epilog=EPILOG
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Build the kernel, gather the contenders, and print times. Raises MU6070 without a GPU."""
    names = _names(args)
    gc.enable()
    from mucc.build.artefact import Request, build
    from mucc.library.dims import fault
    from mucc.library.errors import MuccError
    from mucc.measure import run

    data, source, compilation, info, dims = compiled_subject(
        args.file, args.target, args.kernel, args.dims, reporter
    )
    if problem := run.gpu_problem(args.target):
        help = "`mucc run FILE --dims ...` compares the kernel with the interpreter on the CPU"
        raise fault("MU6070", f"cannot time kernels on a GPU: {problem}", help)
    from mucc.measure.against import Timed, plot, table, timed
    from mucc.runtime.module import load

    with printing_to_stderr():
        functions, absent = _contenders(names, args, compilation, info.name, reporter)
    seed = secrets.randbits(31) if args.seed is None else args.seed
    request = Request(
        data, source.name, "so", args.target, nvcc=args.nvcc, cached=not args.no_cache, dims=dims
    )
    try:
        with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
            path = Path(folder) / "kernel.so"
            path.write_bytes(build(request, reporter.progress).data)
            kernel = load(path)[info.name]
            with printing_to_stderr():  # tuners print what they find
                results = timed(
                    compilation, kernel, dims, seed, functions, args.iters, reporter.progress, args.first_call
                )
    except MuccError as error:
        raise fault(error.code, error.message) from None
    results += [Timed(name, problem=why) for name, why in absent.items()]
    shown = ", ".join(f"{name}={value}" for name, value in dims.items())
    if args.plot is not None:
        files.write_output(args.plot, plot(f"{info.name} at {shown}", results).encode())
    if args.json:
        rows = [r._asdict() for r in results]
        sys.stdout.write(json_text({"kernel": info.name, "dims": dims, "seed": seed, "results": rows}))
    else:
        sys.stdout.write(f"{info.name} at {shown}, seed {seed}\n{table(results)}")
    if results[0].time_us is not None:
        return ExitStatus.GOOD
    raise fault("MU6060", f"{info.name}: {results[0].problem}", f"the same inputs again: --seed {seed}")


def _names(args: Arguments) -> list[str]:
    """Return the names of the contenders. Raises MU5001 for illegal arguments."""
    if not args.file:
        raise usage_error(
            "no input file", "give the name of a .mcu file: mucc bench kernel.mcu --dims M=64,N=64"
        )
    if args.iters < 1:
        raise usage_error("--iters needs a number of at least 1")
    if args.first_call is not None and not args.first_call > 0:
        raise usage_error("--first-call needs a number of seconds above 0")
    if args.plot is not None:
        if not args.plot.lower().endswith(".svg"):
            raise usage_error(f"--plot draws SVG, but '{args.plot}' does not end in .svg", "--plot times.svg")
        files.check_output(args.plot, (args.file,))
    names = [name.strip() for name in args.against.split(",")]
    if not all(name.isidentifier() for name in names) or "mucc" in names:
        raise usage_error(
            f"--against takes names of contenders, not '{args.against}'", "as in --against torch,inductor"
        )
    return list(dict.fromkeys(names))


def _contenders(
    names: list[str], args: Arguments, compilation: Compilation, kernel: str, reporter: Reporter
) -> tuple[dict[str, Function], dict[str, str]]:
    """Return the functions to compare with, and why others are missing."""
    from mucc.measure.against import compiled, function_of
    from mucc.torch.exporter import torch_function

    functions: dict[str, Function] = {}
    absent: dict[str, str] = {}
    for name in names:
        stem = "torch" if name in WRITTEN else name
        function, why = function_of(Path(args.file).with_suffix(f".{stem}.py"), kernel)
        if function is None and name in WRITTEN and why.startswith("there is no file"):
            try:
                function = torch_function(compilation.mu, kernel)
            except DiagnosticError as error:
                why = str(error.diagnostics[0].message)
        if function is None:
            absent[name] = why
        else:
            functions[name] = compiled(function) if name == "inductor" else function
    return functions, absent
