"""`mucc doctor`: report which tools this machine has, which are missing, and how to install them."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import ExitStatus

DESCRIPTION = (
    "Show what was found on this machine and what is missing. Exit status 3 where nothing can be built."
)

_LACKING = {"build": "missing", "run": "no", "comfort": "no"}


@dataclass
class Arguments:
    """The arguments of `mucc doctor`."""

    json: bool = options.json("print JSON")
    nvcc: str | None = options.nvcc("examine this nvcc or CUDA toolkit")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="[options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the findings; the exit status is 3 if no kernel can be built."""
    from mucc.build.toolchain.doctor import examine
    from mucc.version import __version__

    findings = examine(args.nvcc)
    buildable = all(f.found for f in findings if f.needed_for == "build")
    if args.json:
        import json

        report = {"mucc": __version__, "can_build": buildable, "findings": [asdict(f) for f in findings]}
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        width = max(len(f.name) for f in findings)
        for f in findings:
            mark = "ok" if f.found else _LACKING[f.needed_for]
            sys.stdout.write(f"{f.name:<{width}}  {mark:<7}  {f.detail}\n")
            if not f.found:
                sys.stdout.write(f"{'':<{width}}           -> {f.mend}\n")
        verdict = "kernels can be compiled here" if buildable else "kernels cannot be compiled here"
        gpu = any(f.name == "GPU" and f.found for f in findings)
        sys.stdout.write(f"\n{verdict}; {'they can' if gpu else 'they cannot'} be run here\n")
    return ExitStatus.GOOD if buildable else ExitStatus.TOOLCHAIN
