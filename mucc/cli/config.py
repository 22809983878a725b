"""`mucc config`: print folders of the installation, for build systems."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.parameters import flag
from mucc.cli.reporting import Reporter
from mucc.files.package import PACKAGE, SUPPORT
from mucc.version import __version__

EPILOG = """\
CMake:
  cmake -Dmucc_DIR="$(mucc config --cmake-dir)" …       then find_package(mucc) and mucc_add_library(…)"""


@dataclass
class Arguments:
    """The arguments of `mucc config`."""

    cmake_dir: bool = flag(help="print the folder of the CMake package only")
    include_dir: bool = flag(help="print the folder of the C headers only")
    json: bool = options.json("print JSON")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


def folders() -> dict[str, str]:
    """Return what build systems ask for, by name."""
    return {
        "version": __version__,
        "cmake-dir": os.path.join(PACKAGE, "library", "cmake"),
        "include-dir": os.path.join(SUPPORT, "include"),
    }


@command(
    Arguments, "Print folders of this installation, for build systems.", usage="[options]", epilog=EPILOG
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the value that is asked for, or all with their names."""
    found = folders()
    asked = [
        name for name, given in (("cmake-dir", args.cmake_dir), ("include-dir", args.include_dir)) if given
    ]
    if args.json:
        import json

        sys.stdout.write(json.dumps({name: found[name] for name in asked or found}, indent=2) + "\n")
    elif asked:
        sys.stdout.write("".join(f"{found[name]}\n" for name in asked))
    else:
        sys.stdout.write("".join(f"{name:<12} {value}\n" for name, value in found.items()))
    return 0
