"""`mucc sol FILE`: report the speed of light of a program on a card, and the resource that limits it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import option
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity, Source
from mucc.diagnostics.usage import usage_error
from mucc.files.json_text import json_text

if TYPE_CHECKING:
    from mucc.analysis.sol import Sol
    from mucc.target.devices import Card
    from mucc.torch.importer.request import Answer

IMPORT_SECONDS = 120.0
"""The time limit of importing a problem file, in seconds."""


@dataclass
class Arguments:
    """The arguments of `mucc sol`."""

    file: str = options.program(
        "a .mcu file, - for stdin, or a PyTorch problem file (.py)", options.PROGRAM, options.PROBLEM
    )
    dims: list[str] = options.open_dims()
    device: str = options.card_or("h200", "the card; see `mucc device`")
    kernel: str | None = options.kernel("only this kernel of the file")
    measured: float | None = options.measured()
    baseline: float | None = option(
        None, type=float, metavar="MS", help="the time of a baseline, for the SOL score"
    )
    plot: str | None = option(
        None, metavar="PNG", help="draw a roofline (needs matplotlib)", complete=candidates.files()
    )
    json: bool = options.json("print the report as JSON")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(
    Arguments,
    "The speed of light: the least time that a card needs for a program, however it is implemented.",
    usage="FILE --dims M=4096,... [options]",
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the report of every kernel."""
    if not args.file:
        raise usage_error("no input file", "give the name of a .mcu file: mucc sol kernel.mcu --dims M=4096")
    for name in ("measured", "baseline"):
        value: float | None = getattr(args, name)
        if value is not None and not 0 < value < float("inf"):
            raise usage_error(f"--{name} must be a time in milliseconds above 0, got {value:g}")
    if args.dims and args.file.endswith(options.PROBLEM):
        raise usage_error("--dims is for .mcu files: a problem file has the sizes of its get_inputs()")
    if args.plot is not None:
        files.check_output(args.plot, (args.file,))
    from mucc.analysis import sol_report
    from mucc.library.dims import parse_dims
    from mucc.sol.program import analyse_import, analyse_source
    from mucc.target.devices import get_card
    from mucc.torch.importer.request import kernel_name

    card = get_card(args.device)
    answer = _imported(args.file, reporter) if args.file.endswith(".py") else None
    name = kernel_name(args.file)
    if answer is not None and args.kernel is None:
        found = [analyse_import(answer, name, args.file, card)]
    else:
        source = Source(f"{name}.mcu", answer.text) if answer else files.read_source(args.file)
        found = analyse_source(source, card, parse_dims(args.dims), args.kernel)
    if args.measured is not None and len(found) > 1:
        names = ", ".join(s.kernel for s in found)
        raise usage_error("--measured is the time of one kernel", f"say which with --kernel: {names}")
    for sol in found:
        reporter.add(list(sol_report.warnings(sol, args.measured)))
    if args.json:
        reports = [sol_report.as_json(s, args.measured, args.baseline) for s in found]
        sys.stdout.write(json_text(reports[0] if len(reports) == 1 else reports))
    else:
        texts = [sol_report.as_text(s, args.measured, args.baseline) for s in found]
        sys.stdout.write("\n".join(texts))
    if args.plot:
        _plot(args, found, card)
    return 0


def _imported(path: str, reporter: Reporter) -> Answer:
    """Import a PyTorch problem file; operations without a bound are reported as a warning (MU5409)."""
    from mucc.sol.program import calls_of
    from mucc.torch.importer.request import Request
    from mucc.torch.importer.sandbox import run

    request = Request.of(path, files.read_source(path).text, whole=True, structure=True)
    answer = run(request, IMPORT_SECONDS)
    if left := calls_of(answer).missing:
        message = f"the bound is not whole: it leaves out {', '.join(left)}"
        reporter.add([Diagnostic("MU5409", message, severity=Severity.WARNING)])
    return answer


def _plot(args: Arguments, found: Sequence[Sol], card: Card) -> None:
    from mucc.analysis.roofline import draw

    assert args.plot is not None
    form = os.path.splitext(args.plot)[1].removeprefix(".").lower() or "png"
    try:
        data = draw(form, found, card, args.measured)
    except ImportError as problem:
        helps = ("pip install matplotlib",)
        raise DiagnosticError(Diagnostic("MU5404", "--plot needs matplotlib", helps=helps)) from problem
    except ValueError:
        message = f"cannot write '{args.plot}': matplotlib knows no format '{form}'"
        helps = ("let its name end in .png, .svg or .pdf",)
        raise DiagnosticError(Diagnostic("MU5405", message, helps=helps)) from None
    files.write_output(args.plot, data)
