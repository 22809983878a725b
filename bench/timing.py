"""Timing of kernels that are compared with each other, by device events."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping
from typing import Any


def time_all(torch: Any, contenders: Mapping[str, Callable[[], Any]], iters: int) -> dict[str, float]:
    """Median device time in ms of each contender, in turns, from a cold L2."""
    from mucc.agent.evaluate.timing import interleaved_ms

    found = interleaved_ms(contenders, iters, torch.device("cuda", torch.cuda.current_device()))
    return {name: statistics.median(times) for name, times in found.items()}


def card(torch: Any, device: Any = None) -> str:
    """A directory name for a GPU, the current one where none is named: `h200`; `h100` for H100 80GB HBM3."""
    words = torch.cuda.get_device_name(device).lower().split()
    return next((word for word in words if re.fullmatch(r"[a-z]+\d+\w*", word)), words[-1])


def gpu_versions(torch: Any) -> dict[str, str]:
    """What a result on a GPU says about its surroundings."""
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name()}
