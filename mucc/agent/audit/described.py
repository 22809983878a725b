"""What a candidate's process says of its results."""

from __future__ import annotations

from typing import cast

from mucc.api.json_types import Json


def descriptions(said: object) -> list[Json]:
    """Return what a candidate's process says of its results. Raises ValueError for what is none."""
    found = cast("list[object]", said) if isinstance(said, list) else [None]
    if not all(isinstance(one, dict) for one in found):
        raise ValueError("no description of results")
    return cast("list[Json]", found)
