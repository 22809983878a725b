"""Dataclasses to JSON data and back, by their annotations.

What travels as JSON between two layers or processes, or lies in a file, is a dataclass, or a TypedDict where
the JSON itself is the interface. msgspec checks the data against the annotations where they are read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar, cast

from mucc.files.process_lock import ProcessLock

T = TypeVar("T")

Json = dict[str, Any]
"""A JSON object without a fixed form, such as the answer of a model before it is checked."""


_reading = ProcessLock()
"""Held while msgspec converts: where two threads meet a type for the first time, msgspec 0.22 builds
tables of its enums twice at once, and the process crashes."""


def to_json(value: Any) -> Any:
    """Convert a value of dataclasses, enums, mappings and sequences to lists, dicts, strings and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in cast("Sequence[Any]", value)]
    return value


def from_json(kind: type[T], data: Any) -> T:
    """Convert JSON data to a value of a type; absent fields take their defaults, unknown ones are ignored, so
    that an older mucc reads what a newer one wrote.

    Raises ValueError with the place of the first field that does not fit.
    """
    import msgspec  # takes longer to load than a command that reads no data

    try:
        with _reading.held():
            return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
