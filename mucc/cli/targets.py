"""`mucc targets`: list target architectures, with the mainloops and formats of contractions on each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.reporting import Reporter
from mucc.kernels.interface import Offer
from mucc.kernels.registry import kinds
from mucc.target import get_target, target_names
from mucc.target.facts import Target


@dataclass
class Arguments:
    """The arguments of `mucc targets`."""

    json: bool = options.json("print the list as JSON, with the cards of each target")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, "List the GPUs that can be compiled for.", usage="[options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Print each target with its mainloops, their number formats and schedulers."""
    targets = [get_target(name) for name in sorted(target_names(), key=_number)]
    if args.json:
        import json

        sys.stdout.write(json.dumps([_as_json(t) for t in targets], indent=2) + "\n")
        return 0
    for target in targets:
        sys.stdout.write("\n".join([f"{target.name}  {target.facts.title}", *_families(target)]) + "\n")
    return 0


def _number(name: str) -> int:
    return int(name.removeprefix("sm_").rstrip("af"))


def _offers(target: Target) -> list[Offer]:
    return [offer for kind in kinds() for offer in kind.offers(target.name)]


def _families(target: Target) -> Iterator[str]:
    for offer in _offers(target):
        more = "; sparse operands" if offer.sparse else ""
        mainloops, schedulers = ", ".join(offer.mainloops), ", ".join(offer.schedulers)
        yield f"    {mainloops}: {' '.join(offer.computes)}; {schedulers}{more}"


def _as_json(target: Target) -> dict[str, object]:
    cards = [{"key": device.key, "name": device.name} for device in target.facts.devices]
    families = [offer._asdict() for offer in _offers(target)]
    return {"name": target.name, "title": target.facts.title, "cards": cards, "families": families}
