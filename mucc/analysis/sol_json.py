"""The JSON of `mucc sol --json` as types; `sol_report.as_json` writes it.

Times in microseconds, sizes in bytes, rates per second. A report of a part of a problem lacks fields.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class LimitJson(TypedDict):
    """The work of one unit of a card, the unit's rate, and the time that it takes."""

    amount: int | float
    rate: NotRequired[int | float]
    us: int | float


class BoundJson(TypedDict, total=False):
    """A lower bound of a time, the unit that decides it, and all units with work."""

    bound_us: int | float
    binding: str
    limits: dict[str, LimitJson]


class StageBoundJson(BoundJson, total=False):
    """The bound of a stage by itself."""

    name: str
    kind: str
    bytes: int


class HintJson(TypedDict):
    """A change of the program that lowers its bound."""

    text: str
    bound_us: int | float


class SolReport(BoundJson, total=False):
    """The speed of light of a kernel or problem. `missing` names what a bound omits that is not `whole`;
    `cached` are bytes of results that may still be in the card's cache at the end, at the most."""

    kernel: str
    device: str
    dims: dict[str, int]
    whole: bool
    missing: list[str]
    reachable: BoundJson
    assumptions: dict[str, BoundJson]
    stages: list[StageBoundJson]
    cached: int
    staged_bytes: int
    staged_us: int | float
    structure: list[str]
    hints: list[HintJson]
    measured_us: int | float
    gap: float | None
    faster_than_light: bool
    score: float
