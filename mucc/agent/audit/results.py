"""Results in memory that the judge owns. Imports torch."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from typing import Any

from mucc.agent.audit.described import bytes_of, padded
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

PIECE = 1 << 20
"""Bytes of the pieces that results are copied in, in an order that is drawn then: who fills one end while the
other is being copied is found out."""


def snapshot(values: Sequence[Any]) -> list[Any]:
    """Return what results hold now: on a GPU copies that are made there, as to move them to the host takes
    longer than some kernels do, which could fill one end while the other is on its way."""
    try:
        return [v.detach().clone() if isinstance(v, torch.Tensor) and v.is_cuda else v for v in values]
    except torch.OutOfMemoryError:
        return list(values)


class Results:
    """The results of a call, one behind the other in memory."""

    def __init__(self, data: Any):
        self.data = data

    def write(self, values: Sequence[Any]) -> None:
        """Copy results into the memory, as far as there is room: whoever returns more is wrong anyway."""
        at = 0
        for value in values:
            if isinstance(value, torch.Tensor) and value.numel():
                size = value.numel() * value.element_size()
                if at + size <= self.data.numel():
                    copy(self.data[at : at + size].view(value.dtype).view(value.shape), value.detach())
                at += padded(size)

    def read(self, described: Sequence[Json]) -> list[Any]:
        """Return what lies there as flat tensors in this memory, None for what cannot be there."""
        at, found = 0, list[Any]()
        for said in described:
            size = bytes_of(said)
            if size < 0 or at + size > self.data.numel():
                found.append(None)
                continue
            dtype = getattr(torch, said["dtype"]) if size else torch.uint8
            found.append(self.data[at : at + size].view(dtype))
            at += padded(size)
        return found


def copy(target: Any, value: Any) -> None:
    """Copy a result; in main memory piece by piece, in any order, if it is large."""
    size = value.numel() * value.element_size()
    if value.device.type != "cpu" or size < 2 * PIECE or not value.is_contiguous():
        target.copy_(value, non_blocking=True)
        return
    count = PIECE // value.element_size()
    pairs = list(zip(target.view(-1).split(count), value.view(-1).split(count), strict=True))
    random.SystemRandom().shuffle(pairs)
    for there, here in pairs:
        there.copy_(here)
