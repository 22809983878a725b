"""What a candidate's process says of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mucc.api.json_types import Json

ALIGNMENT = 64
"""Results lie in memory one behind the other, each from a multiple of so many bytes on."""

BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}
"""Bytes of an element, for the types that results may have."""


MOST = 1 << 12
"""Results of a call at the most: each costs the judge some work."""


LARGEST = 1 << 48
"""Elements of a result at the most: to multiply numbers of any length takes any time."""


def descriptions(said: object) -> list[Json]:
    """Return what a candidate's process says of its results. Raises ValueError for what is none."""
    found = cast("list[object]", said) if isinstance(said, list) else [None]
    if len(found) > MOST or not all(isinstance(one, dict) for one in found):
        raise ValueError("no description of results")
    return cast("list[Json]", found)


def aliases(described: Sequence[Json]) -> set[int]:
    """Return the inputs whose memory results share."""
    said = [one.get("aliases") for one in described]
    lists = [cast("list[object]", one) for one in said if isinstance(one, list)]
    return {n for one in lists for n in one if isinstance(n, int)}


def dense_share(described: Sequence[Json]) -> float:
    """Return the share of the results' bytes that a call has written, at the most.

    Elements of an expanded result share memory: to copy it writes what the call itself has left out.
    """
    sizes = [max(bytes_of(one), 0) for one in described]
    written = [0 if one.get("shares_elements") else size for one, size in zip(described, sizes, strict=True)]
    return sum(written) / sum(sizes) if any(sizes) else 1.0


def padded(size: int) -> int:
    """Return the bytes that a result of so many takes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def bytes_of(said: Json) -> int:
    """Return the bytes of a result that a candidate's process describes, -1 for a form that is none."""
    name, shape = said.get("dtype"), said.get("shape")
    if name is None:
        return 0
    if not isinstance(name, str) or name not in BYTES or not isinstance(shape, list):
        return -1
    count = 1
    for n in cast("list[object]", shape):
        if type(n) is not int or n < 0:
            return -1
        count *= n
        if count > LARGEST:
            return -1
    return count * BYTES[name]


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
