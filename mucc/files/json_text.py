"""JSON that every reader takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast


def json_text(value: Any, indent: int | None = 2) -> str:
    """A value as JSON, ended by a line end. Numbers that are not finite, which JSON lacks, become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False) + "\n"


def canonical(value: object) -> str:
    """JSON that equal values share."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("Sequence[Any]", value)]
    return value
