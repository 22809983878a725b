"""The speed of light (SOL): the least time of an amount of work on a card."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from mucc.target.facts import Device, Multiprocessor

DRAM, FP32, SPECIAL = "dram", "fp32", "special"
"""Device memory; 32-bit arithmetic outside the tensor cores; the special-function units."""


class Limit(NamedTuple):
    """The work of one unit, in operations or bytes, and its rate per second."""

    unit: str
    amount: int
    rate: float

    @property
    def seconds(self) -> float:
        """The time in seconds; 0 for an unknown rate."""
        return self.amount / self.rate if self.rate else 0.0


class Bound(NamedTuple):
    """A lower bound of time: every unit works at its full rate, all in parallel."""

    limits: tuple[Limit, ...]
    """The units, the slowest first."""

    @property
    def seconds(self) -> float:
        return self.limits[0].seconds if self.limits else 0.0

    @property
    def binding(self) -> str:
        """The name of the slowest unit; empty without work."""
        return self.limits[0].unit if self.seconds else ""

    def seconds_with(self, cached: int) -> float:
        """Return the seconds where so many bytes stay in the card's cache instead of going to memory."""
        moved = self.limit(DRAM)
        if moved is None or not moved.rate:
            return self.seconds
        others = (x.seconds for x in self.limits if x is not moved)
        return max(max(0, moved.amount - cached) / moved.rate, *others, 0.0)

    def limit(self, unit: str) -> Limit | None:
        """Return the time of one unit."""
        return next((x for x in self.limits if x.unit == unit), None)


class Rates:
    """The rates of a card: the datasheet's, or `measured` ones where known or higher.

    A bound takes the larger of the two, for no kernel may be faster than it. What is within reach takes what
    was measured, and the datasheet's rate where nothing was.
    """

    def __init__(self, device: Device, sm: Multiprocessor, measured: bool = False):
        self.device, self.sm, self.measured = device, sm, measured

    def __getitem__(self, unit: str) -> float:
        """Return operations, or bytes of `dram`, per second; 0 if unknown.

        Units are `dram`, `fp32`, `special`, and `tensor.<format>`. A format that the tensor cores lack is
        multiplied in one that they have.
        """
        match unit:
            case "dram":
                return self._rate("dram_bandwidth")
            case "fp32":
                return self._rate("f32")
            case "special":
                return self.sm.special_per_cycle * self.device.multiprocessors * self.device.clock(self.sm)
            case _:
                compute = unit.rpartition(".")[2]
                return self._rate(compute) or self._rate("bf16")

    def _rate(self, name: str) -> float:
        stated, found = self.device.datasheet.get(name, 0.0), self.device.measured.get(name, 0.0)
        return (found or stated) if self.measured else max(stated, found)

    def bound(self, operations: Mapping[str, int], moved: int) -> Bound:
        """Compute the bound of operations by unit and of bytes to and from device memory."""
        limits = [Limit(unit, count, self[unit]) for unit, count in {**operations, DRAM: moved}.items()]
        return Bound(tuple(sorted(limits, key=lambda x: -x.seconds)))

    def ridge(self, unit: str) -> float:
        """Compute the operations per byte at which a unit and memory take equally long."""
        return self[unit] / self[DRAM] if self[DRAM] else math.inf
