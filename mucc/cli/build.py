"""`mucc FILE -o OUT`: compile programs to libraries or machine code, or print an earlier level."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from mucc.build.toolchain.flags import HOSTS, Kind
from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import flag, option, repeated
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.compiler.source import STDIN, decode
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source
from mucc.diagnostics.internal import internal_error
from mucc.diagnostics.usage import check_known, usage_error

if TYPE_CHECKING:
    from mucc.build.pool import Pool
    from mucc.compiler.explain_fusion import Fusion
    from mucc.compiler.explain_schedule import Explanation
    from mucc.library.dims import Size

TEXT_KINDS = {
    "ast": "the syntax tree",
    "mu": "the program as IR",
    "stages": "the IR after stage formation and fusion",
    "cutlass": "the resolved kernels",
    "graph": "the kernels and the tensors between them, for Graphviz (DOT, or SVG by -o NAME.svg)",
    "schedule": "the schedule that was chosen, as source that can be pasted back",
    "cu": "CUTLASS C++",
    "header": "the C header of the .so",
    "manifest": "the manifest inside the .so, as JSON",
}
NVCC_KINDS: dict[str, Kind] = {"ptx": "ptx", "cubin": "cubin", "so": "so"}
EMIT = {**TEXT_KINDS, "ptx": "PTX", "cubin": "machine code of the GPU", "so": "the loadable library"}

BY_SUFFIX = {
    ".cu": "cu",
    ".ptx": "ptx",
    ".cubin": "cubin",
    ".h": "header",
    ".so": "so",
    ".dot": "graph",
    ".svg": "graph",
}
"""The kind of output by the suffix of `-o NAME`, where --emit is not given."""

DESCRIPTION = "Compile a .mcu program into a loadable .so, or print one of the levels on the way."


EPILOG = "\n".join(("kinds of --emit:", *(f"  {kind:<9} {text}" for kind, text in EMIT.items())))


@dataclass
class Arguments:
    """The arguments of `mucc build`."""

    files: list[str] = options.programs("a .mcu file, or - for stdin")
    output: str | None = options.output(
        "where to write (default: FILE.so in this directory; text goes to stdout)"
    )
    emit: str | None = option(
        None,
        choices=tuple(EMIT),
        metavar="KIND",
        help="what to make, see below (default: as the name of OUT ends, or so)",
    )
    target: str = options.target()
    dims: list[str] = options.typical_dims()
    no_tuned: bool = options.no_tuned()
    explain_schedule: bool = flag(
        help="say what each contraction's schedule should cost, and why; builds nothing"
    )
    explain_fusion: bool = flag(
        help="say which kernel computes each operation, and what that saves; builds nothing"
    )
    json: bool = options.json("print JSON, with --explain-schedule or --explain-fusion")
    print_ir_after_all: bool = flag(help="print the IR after every pass to stderr")
    print_ir_after: list[str] = repeated(
        metavar="PASS",
        help="print the IR after this pass to stderr; may be given several times",
        complete=candidates.words(candidates.pass_names),
    )
    save_temps: str | None = option(
        None,
        metavar="[=DIR]",
        help="keep IR, C++, nvcc's intermediate files and its log in DIR (default: FILE.temps)",
        alone="",
        complete=candidates.files(options.PROGRAM),
    )
    no_cache: bool = options.no_cache()
    nvcc: str | None = options.nvcc()
    plain_nvcc: bool = flag(
        help="compile each program with one nvcc command, not in parts that the cache can reuse"
    )
    lineinfo: bool = options.lineinfo()
    host: str | None = option(
        None,
        choices=tuple(HOSTS),
        metavar="TRIPLE",
        help=f"build the .so for {' or '.join(HOSTS)} (default: this machine)",
    )
    ray: str | None = options.ray(f"build on {options.RAY}")
    jobs: int | None = options.jobs("compilers that run at a time (default: as memory allows)", alone="0")
    timeout: float | None = option(
        None, type=float, metavar="SECONDS", help="stop a compiler after this time"
    )
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()

    @cached_property
    def sizes(self) -> tuple[Size, ...]:
        """Parse the typical values of open dims. Raises MU6050 and MU6089."""
        from mucc.compiler.typical_dims import sizes_of

        return sizes_of(self.dims) if self.dims else ()

    @property
    def explained(self) -> tuple[str, ...]:
        """The options that ask for explanations."""
        asked = {"--explain-schedule": self.explain_schedule, "--explain-fusion": self.explain_fusion}
        return tuple(name for name, given in asked.items() if given)

    @property
    def print_ir(self) -> TextIO | None:
        """The stream that gets the IR after passes; None to print no IR."""
        return sys.stderr if self.print_ir_after_all or self.print_ir_after else None

    @property
    def print_after(self) -> tuple[str, ...]:
        """The names of the passes after which IR is printed; empty for all passes."""
        return () if self.print_ir_after_all else tuple(self.print_ir_after)


@command(Arguments, DESCRIPTION, usage="FILE [-o OUT] [options]", epilog=EPILOG)
def main(args: Arguments, reporter: Reporter) -> int:
    """Build every input file; errors go to the reporter."""
    if not args.files:
        raise usage_error("no input file", "give the name of a .mcu file: mucc kernel.mcu -o kernel.so")
    if len(args.files) > 1 and args.output is not None:
        raise usage_error(
            f"-o {args.output} names one output, but there are {len(args.files)} input files",
            "leave out -o to get one output for each file, or run mucc once for each",
        )
    if args.json and not args.explained:
        raise usage_error(
            "--json goes with --explain-schedule or --explain-fusion",
            "--diagnostics=json is for errors and warnings",
        )
    if len(args.explained) > 1:
        raise usage_error(f"{' and '.join(args.explained)} are two questions", "ask one at a time")
    for asked in args.explained:
        if args.emit or args.output:
            raise usage_error(f"{asked} prints to stdout and makes no file", "leave out -o and --emit")
        _explain(args, reporter)
        return 0
    if args.print_ir and reporter.json:
        raise usage_error("--print-ir-after-all and --diagnostics=json both want stderr", "use one of them")
    if args.print_ir_after:
        _check_passes(args.print_ir_after)
    if args.timeout is not None and not args.timeout > 0:
        raise usage_error("--timeout needs a number of seconds above 0")
    if args.jobs is not None and args.jobs < 0:
        raise usage_error("-j needs a number of jobs above 0, or none")
    steps = [_Step.of(path, args) for path in args.files]
    if args.ray is not None and any(step.kind in NVCC_KINDS for step in steps):
        from mucc.cli.clusters import use_cluster

        use_cluster(args.ray, reporter, args.nvcc)
    outputs = [step.output for step in steps if step.output != STDIN]
    for step in steps:
        if outputs.count(step.output) > 1:
            raise usage_error(
                f"two programs would be written to '{step.output}'",
                "run mucc once for each, with -o",
            )
    if len(steps) == 1 or not any(step.kind in NVCC_KINDS for step in steps):
        for step in steps:
            try:
                _write(step, _compile(step, args, reporter), reporter)
            except DiagnosticError as error:
                reporter.add(error.diagnostics)
        return 0
    _build_many(steps, args, reporter)
    return 0


@dataclass(frozen=True, slots=True)
class _Step:
    """An input file, the kind of its output, and the path of its output."""

    path: str
    kind: str
    output: str

    @staticmethod
    def of(path: str, args: Arguments) -> _Step:
        if args.output == "":
            raise usage_error("-o is followed by an empty name", "leave out -o, or name a file after it")
        kind = args.emit or _kind_of(args.output)
        output = args.output or _default_output(path, kind)
        if output == STDIN and kind in ("so", "cubin"):
            raise usage_error(f"a {kind} cannot go to stdout", f"add -o {_stem(path)}.{kind}")
        if output != STDIN:
            files.check_output(output, () if path == STDIN else (path,))
        return _Step(path, kind, output)


@dataclass(frozen=True, slots=True)
class _Output:
    """The output for an input file, with its warnings."""

    data: bytes
    warnings: tuple[Diagnostic, ...]
    source: Source | None = None
    cached: bool = False


def _build_many(steps: list[_Step], args: Arguments, reporter: Reporter) -> None:
    """Build several programs in parallel. An error in one does not stop the others."""
    from mucc.build.pool import Cancelled, Pool

    display = reporter.display()
    with Pool(args.jobs or None, display=display, verbose=args.verbose) as pool:
        outcomes = pool.map(lambda step: _compile(step, args, reporter, pool), steps, lambda step: step.path)
        for step, outcome in zip(steps, outcomes, strict=True):
            with display.paused():
                try:
                    _write(step, outcome.get(), reporter)
                except DiagnosticError as error:
                    reporter.add(error.diagnostics)
                except (BrokenPipeError, Cancelled):
                    raise
                except Exception as error:
                    reporter.add([internal_error(error, args.verbose, step.path)])


def _explain(args: Arguments, reporter: Reporter) -> None:
    """Print why each contraction of the files has its schedule, or what runs in each kernel."""
    from mucc.compiler.program import compile_source

    found: list[Explanation | Fusion] = []
    more: list[str] = []
    for path in args.files:
        try:
            source = files.read_source(path)
            compilation = compile_source(source, args.target, sizes=args.sizes, tuned=not args.no_tuned)
        except DiagnosticError as error:
            reporter.add(error.diagnostics)
            continue
        reporter.add(compilation.sink.diagnostics, source)
        if args.explain_fusion:
            from mucc.compiler import explain_fusion

            found += explain_fusion.explain(compilation)
        else:
            from mucc.compiler import explain_schedule

            explained, chosen = explain_schedule.explain(compilation), explain_schedule.choices(compilation)
            found += explained
            more += [choice.as_text() for choice in chosen]
            if not explained and not chosen:
                more.append(f"{path}: no kernel has settings, so there is no schedule to explain\n")
    if args.json:
        from mucc.files.json_text import json_text

        sys.stdout.write(json_text([e.as_json() for e in found]))
    else:
        sys.stdout.write("\n".join((*(e.as_text() for e in found), *more)))


def _check_passes(names: list[str]) -> None:
    from mucc.passes import get_all_passes

    check_known("pass", names, get_all_passes())


def _compile(step: _Step, args: Arguments, reporter: Reporter, pool: Pool | None = None) -> _Output:
    """Compile one input file."""
    data = files.read_bytes(step.path)
    if step.kind in NVCC_KINDS:
        return _build(step.path, data, NVCC_KINDS[step.kind], args, reporter, pool)
    return _emit_text(step.path, data, step.kind, args)


def _write(step: _Step, output: _Output, reporter: Reporter) -> None:
    """Report warnings, and write the output."""
    reporter.add(output.warnings, output.source)
    if output.cached and reporter.verbose:
        reporter.progress(f"{step.path}: found in the cache")
    if step.output == STDIN:
        files.write_stdout(output.data)
    else:
        files.write_output(step.output, output.data, executable=step.kind == "so")


def _kind_of(output: str | None) -> str:
    """Choose the kind of output by its name; a name without suffix, or like `x.so.1`, is a library."""
    name = os.path.basename(output or "")
    suffix = os.path.splitext(name)[1]
    if suffix and suffix not in BY_SUFFIX and ".so." not in name:
        raise usage_error(
            f"-o {output} does not say what to make: nothing ends in '{suffix}'",
            f"let its name end in {', '.join(BY_SUFFIX)}, or say --emit=KIND",
        )
    return BY_SUFFIX.get(suffix, "so")


def _stem(path: str) -> str:
    return "kernel" if path == STDIN else os.path.splitext(os.path.basename(path))[0]


def _default_output(path: str, kind: str) -> str:
    if kind not in ("so", "cubin"):
        return STDIN
    if path == STDIN:
        raise usage_error("the program comes from stdin, so the output needs a name", f"add -o kernel.{kind}")
    return f"{_stem(path)}.{kind}"


def _emit_text(path: str, data: bytes, kind: str, args: Arguments) -> _Output:
    """Emit a level that needs no toolchain."""
    from mucc.build.artefact import compile_source

    source = decode(data, path)
    if kind in ("ast", "mu") and args.print_ir is None:
        from mucc.compiler.driver import front_text
        from mucc.target import get_target

        # These levels are the same for all targets and sizes, but a wrong option is an error all the same.
        _ = get_target(args.target)
        try:
            text = front_text(source, kind, args.sizes)
        except DiagnosticError as error:
            from mucc.compiler.program import placed

            raise DiagnosticError(placed(error.diagnostics, source)) from error
        return _Output(text.rstrip("\n").encode() + b"\n", ())
    compilation = compile_source(
        source, args.target, args.print_ir, args.print_after, sizes=args.sizes, tuned=not args.no_tuned
    )
    lines = args.lineinfo and kind == "cu"
    text = compilation.cu(lines=True) if lines else compilation.emit(kind)
    data = text.rstrip("\n").encode() + b"\n"
    if kind == "graph" and (args.output or "").endswith(".svg"):
        from mucc.compiler.graph import draw

        data = draw(text)
    return _Output(data, tuple(compilation.sink.diagnostics), source)


def _build(
    path: str, data: bytes, kind: Kind, args: Arguments, reporter: Reporter, pool: Pool | None
) -> _Output:
    """Build a program with the toolchain."""
    from mucc.build.artefact import Request, build

    artefact = build(
        Request(
            data,
            "<stdin>" if path == STDIN else path,
            kind,
            args.target,
            nvcc=args.nvcc,
            plain=args.plain_nvcc,
            lines=args.lineinfo,
            host=args.host or "",
            cached=not args.no_cache,
            timeout=args.timeout,
            verbose=args.verbose,
            save_temps=args.save_temps if args.save_temps != "" else f"{_stem(path)}.temps",
            print_ir=args.print_ir,
            print_after=args.print_after,
            sizes=args.sizes,
            tuned=not args.no_tuned,
        ),
        reporter.progress,
        pool or (lambda: _pool(args, reporter)),
    )
    return _Output(artefact.data, artefact.warnings, cached=artefact.cached)


def _pool(args: Arguments, reporter: Reporter) -> Pool:
    """Make the pool for a single program."""
    from mucc.build.pool import Pool

    return Pool(args.jobs or None, display=reporter.display(), verbose=args.verbose)
