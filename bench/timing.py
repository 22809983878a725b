"""Timing of kernels that are compared with each other, by device events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any


def time_all(torch: Any, contenders: Mapping[str, Callable[[], Any]], iters: int) -> dict[str, float]:
    """Median device time in ms of each contender, as `interleaved_us` takes it: in turns, from a cold L2."""
    from mucc.runtime.timing import interleaved_us

    samples = interleaved_us(list(contenders.values()), iters, torch.cuda.current_device())
    return {name: statistics.median(us) / 1e3 for name, us in zip(contenders, samples, strict=True)}


def card(torch: Any, device: Any = None) -> str:
    """A directory name for a GPU, the current one where none is named: `h200`."""
    return torch.cuda.get_device_name(device).split()[-1].lower()


def gpu_versions(torch: Any) -> dict[str, str]:
    """What a result on a GPU says about its surroundings."""
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name()}
