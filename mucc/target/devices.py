"""Known cards, with figures calibrated on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mucc.diagnostics.core import Diagnostic, DiagnosticError, did_you_mean
from mucc.files.user_folders import data_folder
from mucc.target import get_target, meant_by, target_names
from mucc.target.facts import Device, Target


class Card(NamedTuple):
    """A device with the target that it belongs to."""

    target: Target
    device: Device


def cards() -> dict[str, Card]:
    """Return all known cards by short name."""
    targets = (get_target(name) for name in target_names())
    return {device.key: Card(target, device) for target in targets for device in target.facts.devices}


def get_card(name: str) -> Card:
    """Find a card by short name (`h200`) or driver's name (`NVIDIA H200`), with its calibration.

    Raises MU5401 where there is none.
    """
    known = cards()
    wanted = name.lower().replace("-", "_").replace(" ", "_")
    found = known.get(wanted) or next(
        (c for c in known.values() if c.device.name.lower() == name.lower()), None
    )
    if found is None:
        meant = did_you_mean(wanted, known) or _first_of(meant_by(name), known)
        helps = (f"did you mean '{meant}'?",) if meant else (f"cards are {', '.join(known)}",)
        raise DiagnosticError(Diagnostic("MU5401", f"no card is called '{name}'", helps=helps))
    return calibrated(found)


def _first_of(target: str | None, known: Mapping[str, Card]) -> str | None:
    """Return the first card of a target."""
    return next((key for key, card in known.items() if card.target.name == target), None)


def calibrated(card: Card) -> Card:
    """Replace a card's measured rates by those of `mucc device calibrate`, if stored."""
    path = calibration_path(card.device)
    try:
        rates: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))["rates"]
        found = {name: float(rate) for name, rate in rates.items()}
    except FileNotFoundError:
        return card
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        message = f"'{path}' holds no calibration: {problem or type(problem).__name__}"
        helps = ("delete it, or run `mucc device calibrate` again",)
        raise DiagnosticError(Diagnostic("MU5402", message, helps=helps)) from None
    return card._replace(device=card.device._replace(measured={**card.device.measured, **found}))


def calibration_path(device: Device) -> Path:
    """Return the path of a card's calibration."""
    return Path(data_folder()) / "devices" / f"{device.key}.json"


def store(device: Device, rates: Mapping[str, float], versions: Mapping[str, str], date: str) -> Path:
    """Store measured rates: operations per second by format, `dram_bandwidth` in bytes per second."""
    from mucc.files.atomic import replace_file

    path = calibration_path(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"card": device.name, "date": date, "versions": dict(versions), "rates": dict(rates)}
    replace_file(str(path), (json.dumps(content, indent=2) + "\n").encode())
    return path
