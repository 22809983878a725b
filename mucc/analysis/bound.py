"""How fast a card could do an amount of work: the speed of light (SOL)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from mucc.target.facts import Device, Multiprocessor

DRAM, FP32, SPECIAL = "dram", "fp32", "special"
"""Device memory; 32-bit arithmetic outside the tensor cores; the special-function units."""


class Limit(NamedTuple):
    """One unit: how much it has to do, in operations or bytes, and how much it does in a second."""

    unit: str
    amount: int
    rate: float

    @property
    def seconds(self) -> float:
        """0 where the rate is not known."""
        return self.amount / self.rate if self.rate else 0.0


class Bound(NamedTuple):
    """What no implementation is faster than: every unit works at its rate, all of them at the same time."""

    limits: tuple[Limit, ...]
    """The slowest first."""

    @property
    def seconds(self) -> float:
        return self.limits[0].seconds if self.limits else 0.0

    @property
    def binding(self) -> str:
        """The unit that has the most to do; empty where there is nothing to do."""
        return self.limits[0].unit if self.seconds else ""

    def limit(self, unit: str) -> Limit | None:
        """That of one unit."""
        return next((x for x in self.limits if x.unit == unit), None)


class Rates:
    """What a card does in a second: the datasheet's, or what was `measured` where that is known or more.

    A bound takes the larger of the two, for no kernel may be faster than it. What is within reach takes what
    was measured, and the datasheet's rate where nothing was.
    """

    def __init__(self, device: Device, sm: Multiprocessor, measured: bool = False):
        self.device, self.sm, self.measured = device, sm, measured

    def __getitem__(self, unit: str) -> float:
        """Operations, or bytes of `dram`, per second; 0 where neither is known.

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
        """The bound of so many operations by unit, and so many bytes to and from device memory."""
        limits = [Limit(unit, count, self[unit]) for unit, count in {**operations, DRAM: moved}.items()]
        return Bound(tuple(sorted(limits, key=lambda x: -x.seconds)))

    def ridge(self, unit: str) -> float:
        """Operations for each byte of device memory at which a unit and the memory take equally long."""
        return self[unit] / self[DRAM] if self[DRAM] else math.inf
