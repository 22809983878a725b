"""Write JSON that conforms to the standard."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, cast


def json_text(value: Any, indent: int | None = 2) -> str:
    """Write a value as JSON with a line end. Infinities and NaN, which JSON lacks, become null."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(value), indent=indent, allow_nan=False) + "\n"


def canonical(value: object) -> str:
    """Write canonical JSON: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("Sequence[Any]", value)]
    return value
