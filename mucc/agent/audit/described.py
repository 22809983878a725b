"""What a candidate's process says of its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from mucc.agent.audit.results import bytes_of
from mucc.api.json_types import Json


def descriptions(said: object) -> list[Json]:
    """Return what a candidate's process says of its results. Raises ValueError for what is none."""
    found = cast("list[object]", said) if isinstance(said, list) else [None]
    if not all(isinstance(one, dict) for one in found):
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
