"""Dataclasses to JSON and back, by their annotations."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def to_json(value: Any) -> Any:
    """Plain lists, dicts, strings and numbers for a value of agent/core."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        found = typing.cast("Mapping[Any, Any]", value)
        return {str(k): to_json(v) for k, v in found.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in typing.cast("Sequence[Any]", value)]
    return value


def from_json(kind: type[T], data: Any) -> T:
    """The value of a type that `to_json` made `data` of; fields that are absent take their defaults.

    Unknown fields are left out, so that an older mucc reads what a newer one wrote. Raises ValueError or
    TypeError where the data do not fit.
    """
    return typing.cast("T", _value(kind, data))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _value(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    args = typing.get_args(kind)
    if origin is types.UnionType or origin is typing.Union:
        if data is None:
            return None
        return _value(next(a for a in args if a is not type(None)), data)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        _check(dict, data)
        found = typing.cast("dict[str, Any]", data)
        hints = _hints(kind)
        names = [f.name for f in dataclasses.fields(kind) if f.name in found]
        return kind(**{name: _value(hints[name], found[name]) for name in names})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if origin is tuple:
        _check(list, data)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_value(args[0], item) for item in data)
        return tuple(_value(a, item) for a, item in zip(args, data, strict=True))
    if origin in (list, Sequence):
        _check(list, data)
        return [_value(args[0], item) for item in data]
    if origin in (dict, Mapping):
        _check(dict, data)
        return {key: _value(args[1], item) for key, item in data.items()}
    if kind in (str, int, float, bool):
        _check(kind, data)
    return data


def _check(kind: type, data: Any) -> None:
    """Raise TypeError unless data are of a kind; a whole number is a float, too."""
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise TypeError(f"{kind.__name__} expected, not {type(data).__name__}")
