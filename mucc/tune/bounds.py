"""What no kernel is faster than."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mucc.target.base import Device


def bound_us(device: Device, flops: Mapping[str, int], moved: int) -> float | None:
    """What no kernel is faster than on a card: by operations of each unit, or by bytes of memory.

    Rates are the datasheet's, or what was measured where that is more.
    """
    times = [moved / _rate(device, "dram_bandwidth")]
    for unit, count in flops.items():
        times.append(count / _rate(device, unit.rpartition(".")[2]))
    found = max(times) * 1e6
    return found if 0 < found < math.inf else None


def _rate(device: Device, name: str) -> float:
    """Per second; without a bound where it is not known."""
    return max(device.datasheet.get(name, 0.0), device.measured.get(name, 0.0)) or math.inf
