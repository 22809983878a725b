"""`mucc bundle MODEL.py`: build the kernels that torch.compile asks for, for machines without a compiler."""

from __future__ import annotations

import os
from dataclasses import dataclass

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import flag, option
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.diagnostics.core import Diagnostic, ExitStatus, Severity
from mucc.diagnostics.usage import usage_error

DESCRIPTION = """\
Build the kernels that torch.compile(model, backend="mucc") asks for, without a GPU. FILE defines
Model, get_inputs() and get_init_inputs(), as for mucc import. They go into the cache, and with -o into
a folder as well: copied to a machine without a compiler, MUCC_CACHE_SHARED=FOLDER has the model
find them there."""

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass
class Arguments:
    """The arguments of `mucc bundle`."""

    file: str = options.program("a problem file (.py)", options.PROBLEM)
    output: str | None = option(
        None, "-o", metavar="FOLDER", help="pack the kernels there", complete=candidates.folders()
    )
    device: str = option(
        "h200",
        metavar="CARD",
        help="the card that runs the model",
        complete=candidates.words(candidates.card_names),
    )
    mode: str = option(
        "default", choices=MODES, help="the mode of torch.compile; max-autotune builds all that it measures"
    )
    train: bool = flag(help="forward and backward")
    jobs: int | None = options.jobs("compilers that run at a time")
    time_limit: float = options.time_limit(300.0, "seconds that FILE and its compilation may take")
    memory_limit: int = options.memory_limit("memory that FILE may take beside torch")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="FILE [-o FOLDER] [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Build the kernels of a model, and pack them."""
    from mucc.target.devices import get_card
    from mucc.torch.backend.bundle import TUNING, bundle
    from mucc.torch.importer.request import Request, Tracing

    if not args.file:
        raise usage_error("no problem file", "mucc bundle model.py -o folder")
    if args.jobs is not None and args.jobs < 1:
        raise usage_error("--jobs needs a number above 0")
    options.check_limits(args.time_limit, args.memory_limit)
    get_card(args.device)
    text = files.read_source(args.file).text
    tracing = Tracing(args.device, args.mode, args.train)
    request = Request.of(args.file, text, memory=args.memory_limit << 20, tracing=tracing)
    found = bundle(request, args.output, jobs=args.jobs, time_limit=args.time_limit)
    name = os.path.basename(args.file)
    if not found.kernels:
        message = f"mucc expects to gain nothing in {name} on {args.device}: Inductor compiles all of it"
        reporter.add([Diagnostic("MU7064", message, severity=Severity.WARNING)])
    count = len(found.kernels) - len(found.problems)
    line = f"{name}: {count} kernel{'' if count == 1 else 's'} for {args.device}, {found.built} built now"
    if args.output:
        line += f"; where it runs, set MUCC_CACHE_SHARED to {args.output}"
        if found.is_tuned:
            line += f" and MUCC_TUNING_DB to {os.path.join(args.output, TUNING)}"
    reporter.line(line)
    reporter.add(found.problems)
    return ExitStatus.GOOD
