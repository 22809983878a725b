"""`mucc import PROBLEM.py`: convert a PyTorch module to a `.mcu` program and a Python driver that runs it."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import flag, option, repeated
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.compiler.source import STDIN
from mucc.diagnostics.core import Diagnostic, Severity
from mucc.diagnostics.usage import usage_error
from mucc.files.json_text import json_text

if TYPE_CHECKING:
    from mucc.torch.importer.request import Answer, OperationRow, Request

COMPUTES = ("f32", "tf32", "tf32x3")
ROUNDS = ("fused", "eager")


DESCRIPTION = """\
Import a PyTorch module: FILE defines Model, get_inputs() and get_init_inputs(), as KernelBench's
problems do. Writes the .mcu program of what mucc compiles, and a driver in Python that runs it,
with PyTorch for the rest. FILE runs in a process of its own with bounded time and memory."""


@dataclass
class Arguments:
    """The arguments of `mucc import`."""

    file: str = options.program("a problem file (.py)", options.PROBLEM)
    output: str | None = options.output("the .mcu file to write (default: stdout)")
    driver: str | None = option(
        None,
        metavar="FILE",
        help="the driver to write (default: OUT with _driver.py; none without -o)",
        complete=candidates.files(options.PROBLEM),
    )
    name: str | None = option(None, metavar="NAME", help="what the kernel is called (default: after FILE)")
    whole: bool = flag(help="put all that the language can express into kernels, compiled or not yet")
    compute: str | None = option(
        None,
        choices=COMPUTES,
        help="format of f32 products (default: as torch is set up: f32, and tf32 for convolutions)",
    )
    round: str = option(
        "fused",
        choices=ROUNDS,
        help="f16 and bf16: round what is stored and converted (fused), or every result (eager)",
    )
    list: bool = flag(help="print what becomes of each operation, and its share")
    verify: bool = flag(help="compare with PyTorch on random inputs, on the CPU, in float64")
    scale_down: bool = flag(help="import at small sizes, by reducing the numbers in FILE")
    dynamic: builtins.list[str] = repeated(
        metavar="X:0=M,...",
        help="dynamic extents: axes of arguments with names of dims; auto for all that can",
    )
    time_limit: float = options.time_limit(120.0, "seconds that FILE may take")
    memory_limit: int = options.memory_limit("memory that FILE may take beside torch")
    json: bool = options.json("print everything as one JSON object")
    target: str = options.target()
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="FILE [-o OUT.mcu] [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Import a problem file."""
    request = _request(args)
    from mucc.torch.importer.sandbox import run

    answer = run(request, args.time_limit)
    _report(args, request, answer, reporter)
    _write(args, request, answer)
    return 0


def _request(args: Arguments) -> Request:
    """Build the request from the arguments. Raises MU5001, MU4001, and MU5010 to MU5015 for files."""
    from mucc.frontend.lexer import is_name
    from mucc.target import get_target
    from mucc.torch.importer.request import Request, driver_name

    if not args.file:
        raise usage_error("no problem file", "mucc import problem.py -o problem.mcu")
    if args.file == STDIN:
        raise usage_error("a problem comes from a file, which its driver names, not from stdin")
    if args.list and args.json:
        raise usage_error("--list and --json both want stdout", "--json has what --list prints")
    options.check_limits(args.time_limit, args.memory_limit)
    get_target(args.target)
    if args.name is not None and not is_name(args.name):
        help = "names are ASCII letters, digits and _, and no reserved words"
        raise usage_error(f"'{args.name}' cannot be the name of a kernel", help)
    text = files.read_source(args.file).text
    driver = driver_name(args.output) if args.output and args.driver is None else args.driver
    for path in (args.output, driver):
        if path is not None:
            files.check_output(path, (args.file,))
    if args.output and driver and os.path.realpath(args.output) == os.path.realpath(driver):
        raise usage_error(f"the program and its driver would both be written to '{driver}'")
    return Request.of(
        args.file,
        text,
        output=args.output,
        driver=driver,
        name=args.name,
        target=args.target,
        whole=args.whole,
        compute=args.compute,
        round=args.round,
        verify=args.verify,
        scale_down=args.scale_down,
        dynamic=tuple(args.dynamic),
        memory=args.memory_limit << 20,
    )


def _report(args: Arguments, request: Request, answer: Answer, reporter: Reporter) -> None:
    """Report which operations became kernels, and the results of verification; errors go to the reporter."""
    if not answer.text:
        reporter.add(
            [
                Diagnostic(
                    "MU7031",
                    f"nothing of {os.path.basename(request.path)} becomes a kernel yet",
                    severity=Severity.WARNING,
                    helps=("--whole writes the program all the same; --list gives the reasons",),
                )
            ]
        )
    for note in answer.notes:
        reporter.add([Diagnostic("MU7022", note, severity=Severity.WARNING)])
    for check in answer.checks:
        if check.excess > 1:
            reporter.add(
                [
                    Diagnostic(
                        "MU7040",
                        f"{check.name} differs from PyTorch's by {check.largest:.3g}, "
                        f"{check.excess:.3g} times what is tolerated",
                        notes=(f"inputs: {', '.join(answer.checked)}", *_unsteady(check.noise)),
                    )
                ]
            )
    if args.json:
        return
    opaque = [row for row in answer.rows if row.kernel is None]
    kernels = len({row.kernel for row in answer.rows} - {None})
    line = f"{os.path.basename(request.path)}: {kernels} kernel{'s' if kernels != 1 else ''}"
    if opaque:
        operations, moved = _shares(opaque, answer.rows)
        line += (
            f"; {len(opaque)} of {len(answer.rows)} operations stay with PyTorch: "
            f"{operations:.1%} of the arithmetic, {moved:.1%} of the bytes"
        )
    reporter.line(line)
    if not args.list:
        for row in opaque:
            reporter.line(f"  {row.name} = {row.operation}: {row.reason}")
    if answer.checks and answer.agrees:
        worst = max(c.excess for c in answer.checks)
        reporter.line(f"agrees with PyTorch at {', '.join(answer.checked)}: {worst:.2g} of what is tolerated")


def _unsteady(noise: float) -> tuple[str, ...]:
    from mucc.torch.importer.request import BEARABLE

    if noise <= BEARABLE:
        return ()
    return (
        f"PyTorch's own f32 results are off by {noise:.0%} of their size at these inputs: "
        "rounding decides them, and right cannot be told from wrong",
    )


def _shares(rows: list[OperationRow], all_rows: list[OperationRow]) -> tuple[float, float]:
    """Return the shares of some rows in the arithmetic and in the bytes of all rows."""

    def share(amounts: Iterable[int], all_amounts: Iterable[int]) -> float:
        whole = sum(all_amounts)
        return sum(amounts) / whole if whole else 0.0

    return (
        share((r.operations for r in rows), (r.operations for r in all_rows)),
        share((r.bytes for r in rows), (r.bytes for r in all_rows)),
    )


def _write(args: Arguments, request: Request, answer: Answer) -> None:
    if args.output and answer.text:
        files.write_output(args.output, answer.text.encode())
    if args.output or args.driver:
        files.write_output(request.driver, answer.driver.encode())
    if args.json:
        sys.stdout.write(json_text(answer.to_json()))
    elif args.list:
        sys.stdout.write(table(answer.rows))
    elif not args.output:
        files.write_stdout(answer.text.encode())


def table(rows: list[OperationRow]) -> str:
    """Print a line for each operation: its share of the work, its kernel or why it has none."""
    lines: list[tuple[str, str, str, str]] = [("operation", "arithmetic", "bytes", "where")]
    for row in rows:
        arithmetic, moved = (f"{share:.1%}" for share in _shares([row], rows))
        where = row.kernel or f"PyTorch: {row.reason}"
        lines.append((f"{row.name} = {row.operation}", arithmetic, moved, str(where)))
    widths = [max(len(line[n]) for line in lines) for n in range(3)]
    return "".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}  {d}\n" for a, b, c, d in lines)
