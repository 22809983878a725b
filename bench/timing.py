"""Timing of kernels that are compared with each other, by device events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any


def time_all(torch: Any, contenders: Mapping[str, Callable[[], Any]], iters: int) -> dict[str, float]:
    """Median device time in ms of each contender, in turns, from a cold L2."""
    from mucc.agent.evaluate.timing import interleaved_ms

    found = interleaved_ms(contenders, iters, torch.device("cuda", torch.cuda.current_device()))
    return {name: statistics.median(times) for name, times in found.items()}


def card(torch: Any, device: Any = None) -> str:
    """Return the directory name for a GPU, the current one where none is named: `h200`, `h100_sxm`.

    It is the short name of a known card, else the last word of the driver's name.
    """
    from mucc.target.devices import cards

    name = torch.cuda.get_device_name(device)
    known = (key for key, found in cards().items() if found.device.name == name)
    return next(known, name.split()[-1].lower())


def gpu_versions(torch: Any) -> dict[str, str]:
    """What a result on a GPU says about its surroundings."""
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name()}
