"""`mucc run FILE --dims M=…`: compile, run, compare with the interpreter, time. See `mucc.runtime.run`."""

from __future__ import annotations

import gc

from mucc.cli.reporting import Reporter


def main(argv: list[str], reporter: Reporter) -> int:
    """Hand over to the runtime."""
    gc.enable()  # unlike a compilation, a run makes large tensors that should go when they can
    from mucc.runtime.run import main as run

    return run(argv, reporter)
