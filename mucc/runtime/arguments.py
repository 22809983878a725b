"""The arguments of a call by the parameters of `forward`, and their leaves by path. Loads torch."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")


def bound(module: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> inspect.BoundArguments:
    """Bind a call's arguments to the parameters of a module's `forward`. Raises TypeError."""
    return inspect.signature(module.forward).bind(*args, **keywords)


def leaves(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors and other values among the arguments, by parameter and path: `x`, `states[0]`, `masks['a']`."""
    tree = torch.utils._pytree
    register_dataclasses(arguments)
    return {
        f"{name}{tree.keystr(path)}": leaf
        for name, value in arguments.items()
        for path, leaf in tree.tree_flatten_with_path(value)[0]
    }


def register_dataclasses(value: Any) -> None:
    """Have torch look for tensors in the dataclasses within a value."""
    tree = torch.utils._pytree
    while found := next((v for v in tree.tree_leaves(value) if _has_fields(v)), None):
        tree.register_dataclass(type(found))


def _has_fields(value: Any) -> bool:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return False
    fields = dataclasses.fields(value)
    return bool(fields) and all(f.init for f in fields)


def taken(
    module: Any, args: Sequence[Any], keywords: Mapping[str, Any], paths: Iterable[str]
) -> dict[str, Any]:
    """Return the leaves of a call whose arguments were imported at `paths`.

    A parameter that the call leaves out has its default; one that the import left out may be given its
    default. Raises TypeError.
    """
    call = bound(module, args, keywords)
    given = dict.fromkeys(call.arguments)
    call.apply_defaults()
    found = leaves(call.arguments)
    wanted = set(paths)
    for name, parameter in call.signature.parameters.items():
        is_default = name not in given or _same(call.arguments[name], parameter.default)
        if is_default and name in found and name not in wanted:
            del found[name]
    return found


def _same(value: object, default: object) -> bool:
    return value is default or (
        type(value) is type(default) and isinstance(value, str | int | float) and value == default
    )


def overlap(first: Any, second: Any) -> bool:
    """Whether two tensors lie between the same addresses of one memory."""
    if first.device != second.device or not first.numel() or not second.numel():
        return False
    start, end = _addresses(first)
    other_start, other_end = _addresses(second)
    return start < other_end and other_start < end


def _addresses(tensor: Any) -> tuple[int, int]:
    start = tensor.data_ptr()
    count = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + count * tensor.element_size()
