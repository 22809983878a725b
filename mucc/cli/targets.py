"""`mucc targets`: the GPUs that can be compiled for, and what contractions have on each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from mucc.cli.parsing import Parser, add_diagnostics
from mucc.cli.reporting import Reporter
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.base import Family, GemmTarget
from mucc.target import target_names


@dataclass
class Arguments:
    """The parsed command line."""

    json: bool = False
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc targets`."""
    p = Parser("targets", "List the GPUs that can be compiled for.")
    p.add_argument(
        "--json", action="store_true", help="print the list as JSON, with the cards of each target"
    )
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Print each target with its mainloops, the formats that they multiply in, the schedulers they take."""
    args = parser().parse(argv, Arguments())
    targets = [gemm_target(name) for name in sorted(target_names(), key=_number)]
    if args.json:
        import json

        sys.stdout.write(json.dumps([_as_json(t) for t in targets], indent=2) + "\n")
        return 0
    for target in targets:
        sys.stdout.write("\n".join([f"{target.name}  {target.facts.title}", *_families(target)]) + "\n")
    return 0


def _number(name: str) -> int:
    return int(name.removeprefix("sm_").rstrip("af"))


def _computes(target: GemmTarget, family: Family) -> list[str]:
    """The formats that a family's kernels multiply in on a target."""
    return [c for c in target.facts.multiprocessor.computes if c in family.computes]


def _families(target: GemmTarget) -> Iterator[str]:
    for family in target.families:
        formats = " ".join(_computes(target, family))
        more = "; sparse operands" if family.takes_sparse else ""
        yield f"    {', '.join(family.mainloops)}: {formats}; {', '.join(family.schedulers)}{more}"


def _as_json(target: GemmTarget) -> dict[str, object]:
    families = [
        {
            "mainloops": list(family.mainloops),
            "computes": _computes(target, family),
            "schedulers": list(family.schedulers),
            "sparse": family.takes_sparse,
        }
        for family in target.families
    ]
    cards = [{"key": device.key, "name": device.name} for device in target.facts.devices]
    return {"name": target.name, "title": target.facts.title, "cards": cards, "families": families}
