"""Elements of results that are read in the memory of a stopped process, right when a call has returned.

Whoever computes a result when it is first read, or in a thread meanwhile, has not computed these elements by
then. They are compared with what was handed over. A result was not there either if the process does not tell
where it lies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from random import Random, SystemRandom
from typing import Any, NamedTuple

from mucc.agent.audit.described import bytes_of, padded
from mucc.agent.isolation.line import Line
from mucc.api.json_types import Json, from_json

ELEMENTS = 64
"""Elements of each result that are read."""

LARGEST = 16
"""Bytes of an element at the most."""

MOST = 32
"""Results of a call whose elements are read: the message that tells where they are is short."""


Place = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""Where a result lies: its address, the bytes of an element, its shape, and its strides."""

NOWHERE = (0, 1, (0,), (1,))
"""The place in memory that is noted for a result without memory, such as a Python number."""


class Spot(NamedTuple):
    """An element of a result: its address in the process that computed it, its size in bytes, and where it
    lies in the memory that results are handed over in."""

    address: int
    size: int
    at: int


def told(values: Sequence[Any]) -> bytes:
    """Return where results lie, in JSON, for the judge; null for a result that has no memory to read."""
    return json.dumps([_place(value) for value in values[:MOST]]).encode()


class Peek:
    """The judge's side: what it has the parent read, and the calls whose results were not there."""

    def __init__(self, line: Line):
        self.unready: list[str] = []
        self._line = line
        self._rng = SystemRandom()
        self._told: Sequence[Place | None] | None = None
        self._spots: Sequence[Spot] = ()
        self._data: Sequence[str | None] = ()

    def ask(self, said: bytes) -> None:
        """Have the parent stop the process, and read elements of results that lie where `said` tells."""
        self._told = places(said)
        self._spots = spots(self._told, self._rng)
        if self._spots:
            self._line.say({"peek": [(spot.address, spot.size) for spot in self._spots]})

    def hear(self) -> None:
        """Receive what the parent has read, where it was asked."""
        self._data = self._line.heard()["data"] if self._spots else ()

    def compare(self, case: str, described: Sequence[Json], handed_over: Any) -> None:
        """Note a call whose results were others than those that were handed over, or lay nowhere."""
        if self._told is None:
            return
        if hides_some(self._told, described) or differs(self._spots, self._data, handed_over):
            self.unready.append(case)
        self._told, self._spots, self._data = None, (), ()


def _place(value: Any) -> list[object] | None:
    import torch

    if not isinstance(value, torch.Tensor):
        return list(NOWHERE)
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.device.type != "cpu":
        return None
    # The bytes of a conjugate or negative view are others than those of its values.
    address = 0 if value.is_conj() or value.is_neg() or not value.numel() else value.data_ptr()
    return [address, value.itemsize, list(value.shape), list(value.stride())]


def places(said: bytes) -> tuple[Place | None, ...]:
    """Return where results lie, as `told` has said it. Raises ValueError for what is no place."""
    return from_json(tuple[Place | None, ...], json.loads(said))


def hides_some(told: Sequence[Place | None], described: Sequence[Json]) -> bool:
    """Whether results were handed over of which it was not told where they lie."""
    sizes = [max(bytes_of(one), 0) for one in described[:MOST]]
    return any(n >= len(told) or _bytes(told[n]) != size for n, size in enumerate(sizes) if size)


def _bytes(place: Place | None) -> int:
    """Return the bytes of the elements of a result tensor; 0 for one without memory, such as a number."""
    if place is None:
        return 0
    address, size, shape, _ = place
    return size * math.prod(shape) if address > 0 else 0


def spots(told: Sequence[Place | None], rng: Random) -> list[Spot]:
    """Draw the elements of result tensors that the judge reads, given where the tensors lie in memory."""
    found, at = list[Spot](), 0
    for place in told:
        if place is None:
            break  # where the next results lie in the memory of all is not known
        address, size, shape, strides = place
        count = math.prod(shape)
        if address > 0 and 0 < size <= LARGEST and count > 0:
            for _ in range(ELEMENTS):
                n = rng.randrange(count)
                found.append(Spot(address + size * _offset(n, shape, strides), size, at + size * n))
        at += padded(size * count)
    return found


def _offset(n: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements behind the first one the n-th lies in memory."""
    offset = 0
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        n, place = divmod(n, size)
        offset += place * stride
    return offset


def differs(read: Sequence[Spot], data: Sequence[str | None], handed_over: Any) -> bool:
    """Whether elements, in hexadecimal digits, are others than those that were handed over; None stands for
    memory that cannot be read, which nobody can have computed."""
    memory = memoryview(handed_over.numpy())
    return any(
        text is None or bytes.fromhex(text) != bytes(memory[spot.at : spot.at + spot.size])
        for spot, text in zip(read, data, strict=False)
        if spot.at + spot.size <= len(memory)
    )
