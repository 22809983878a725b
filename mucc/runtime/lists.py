"""Calls of a `kernel each` for lists of problems: from a list for each argument to problem after problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mucc.library.errors import MuccValueError

if TYPE_CHECKING:
    from mucc.library.signature import KernelInfo


def is_list(value: Any) -> bool:
    """Whether an argument is a list of what each problem takes."""
    return type(value) in (list, tuple)


def has_lists(info: KernelInfo, args: Sequence[Any]) -> bool:
    """Whether a call is for lists of problems. Where a kernel takes none, the library refuses them."""
    return info.each and any(map(is_list, args))


def problems(info: KernelInfo, names: Sequence[str], args: Sequence[Any]) -> list[list[Any]]:
    """Return the arguments of each problem: items of lists, or one value for all. Raises MU6044."""
    lengths = {name: len(value) for name, value in zip(names, args, strict=False) if is_list(value)}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"'{name}' {length}" for name, length in lengths.items())
        raise MuccValueError(
            "MU6044", f"{info.name}: lists are of one length, but of items there are {found}"
        )
    count = next(iter(lengths.values()))
    return [[value[i] if is_list(value) else value for value in args] for i in range(count)]


def flattened(info: KernelInfo, args: Sequence[Any]) -> list[Any]:
    """Return the arguments of `launch`, with outputs and perhaps a workspace, as the library takes them."""
    own, workspace = args[: len(info.args)], args[len(info.args) :]
    names = [arg.name for arg in info.args]
    return [*(value for problem in problems(info, names, own) for value in problem), *workspace]
