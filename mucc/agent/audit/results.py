"""Results in memory that the judge owns. Imports torch."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from typing import Any, cast

from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

ALIGNMENT = 64

TYPES = frozenset(
    [
        *("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16"),
        *("uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
        *("float8_e4m3fnuz", "float8_e5m2fnuz"),
    ]
)
"""Types of elements that results may have."""


def padded(size: int) -> int:
    """Return the bytes that a result of so many takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


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


def bytes_of(said: Json) -> int:
    """Return the bytes of a result that a candidate's process describes, -1 for a form that is none."""
    name, shape = said.get("dtype"), said.get("shape")
    if name is None:
        return 0
    if not isinstance(name, str) or name not in TYPES or not isinstance(shape, list):
        return -1
    count = 1
    for n in cast("list[object]", shape):
        if type(n) is not int or n < 0:
            return -1
        count *= n
    return count * getattr(torch, name).itemsize


def room_for(described: Sequence[Json], most: int) -> int:
    """Return the bytes that results take together, at `most` so many."""
    return min(sum(padded(max(bytes_of(said), 0)) for said in described), most)


def ranges(described: Sequence[Json], most: int) -> list[tuple[int, int]]:
    """Return where results lie that take memory, first byte and end, within the first `most` bytes."""
    at, found = 0, list[tuple[int, int]]()
    for said in described:
        size = max(bytes_of(said), 0)
        if size and at + size <= most:
            found.append((at, at + size))
        at += padded(size)
    return found
