"""`mucc device`: list known cards and their figures, or measure the GPU of this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import argument
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.diagnostics.usage import usage_error

DESCRIPTION = """\
Known cards with what the maker states and what was measured; or measure this machine's GPU.

  list        every card that is known
  show CARD   its figures
  calibrate   measure copy, products and launch here, and keep what was found for `mucc sol`"""

ACTIONS = ("list", "show", "calibrate")


@dataclass
class Arguments:
    """The arguments of `mucc device`."""

    action: str = argument("list", choices=ACTIONS, metavar="|".join(ACTIONS), help="what to do")
    card: str | None = argument(
        None,
        metavar="CARD",
        help="a card of the list, such as h200",
        complete=candidates.words(candidates.card_names),
    )
    json: bool = options.json("print figures as JSON")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="[list | show CARD | calibrate] [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """List cards, show one, or calibrate the GPU of this machine."""
    if args.action == "show" and args.card is None:
        raise usage_error("`show` takes the name of a card", "for example: mucc device show h200")
    if args.action != "show" and args.card is not None:
        raise usage_error(f"`{args.action}` takes no card, got '{args.card}'")
    match args.action:
        case "show":
            _show(args)
        case "calibrate":
            _calibrate(args)
        case _:
            _list(args)
    return 0


def _print(value: object) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _list(args: Arguments) -> None:
    from mucc.target.devices import calibration_path, cards

    found = cards()
    if args.json:
        _print({key: {"name": c.device.name, "target": c.target.name} for key, c in found.items()})
        return
    for key, card in found.items():
        note = "  calibrated here" if calibration_path(card.device).exists() else ""
        sys.stdout.write(f"{key:<11}{card.target.name:<9}{card.device.name}{note}\n")


def _show(args: Arguments) -> None:
    from mucc.target.devices import get_card

    assert args.card is not None
    target, device = get_card(args.card)
    if args.json:
        fields: dict[str, Any] = {**device._asdict(), "target": target.name}
        _print({k: dict(v) if hasattr(v, "items") else v for k, v in fields.items()})
        return
    lines = [
        f"{device.name} ({target.name})",
        f"  {device.multiprocessors} multiprocessors, {device.l2_bytes / 2**20:.4g} MiB of L2, "
        f"{device.memory_bytes / 1e9:.4g} GB of memory",
        f"  {'per second':<16}{'datasheet':>12}{'measured':>12}",
    ]
    for name in dict.fromkeys((*device.datasheet, *device.measured)):
        stated, found = device.datasheet.get(name), device.measured.get(name)
        lines.append(f"  {name:<16}{_number(stated):>12}{_number(found):>12}")
    sys.stdout.write("\n".join(lines) + "\n")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _calibrate(args: Arguments) -> None:
    import importlib
    from datetime import UTC, datetime

    from mucc.measure.run import no_gpu
    from mucc.target.devices import cards, store

    if problem := no_gpu():
        helps = ("run it where the card is: it needs a torch with CUDA",)
        raise DiagnosticError(Diagnostic("MU5408", f"there is no card to calibrate: {problem}", helps=helps))
    torch: Any = importlib.import_module("torch")
    name: str = torch.cuda.get_device_name()
    card = next((c for c in cards().values() if c.device.name == name), None)
    if card is None:
        known = ", ".join(c.device.name for c in cards().values())
        helps = (f"cards are {known}: add a file to mucc/target/data/devices",)
        raise DiagnosticError(Diagnostic("MU5401", f"no card is called '{name}'", helps=helps))
    from mucc.measure.calibrate import measure

    rates = measure((lambda text: None) if args.json else lambda text: print(f"  {text}", flush=True))
    versions = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    path = store(card.device, rates, versions, datetime.now(UTC).isoformat(timespec="seconds"))
    if args.json:
        _print(rates)
    else:
        sys.stdout.write(f"kept in {path}\n")
