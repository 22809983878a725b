"""Open extents of a captured graph: what they are called in a program, and how large they usually are."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from mucc.torch.importer.capture import torch

symbolic_shapes: Any = importlib.import_module("torch.fx.experimental.symbolic_shapes")


def typical(extent: Any) -> int:
    """Return an extent as it was when the graph was captured; 1 if that is not known. Adds no guard."""
    if isinstance(extent, int):
        return extent
    if (hint := getattr(symbolic_shapes, "optimization_hint", None)) is not None:
        return int(hint(extent, 1))
    return int(extent.node.hint) if extent.node.has_hint() else 1


def open_extents(nodes: Iterable[Any]) -> Iterator[Any]:
    """Return the extents of all tensors of a graph that are not numbers, in order, computed ones included."""
    for node in nodes:
        value = node.meta.get("val")
        for tensor in cast("list[Any]", value) if isinstance(value, tuple | list) else [value]:
            if isinstance(tensor, torch.Tensor):
                yield from (extent for extent in tensor.shape if isinstance(extent, torch.SymInt))


def is_bound(extent: Any) -> bool:
    """Whether an extent follows from the arguments' shapes, and is never 0."""
    if symbolic_shapes.free_unbacked_symbols(extent):
        return False
    return bool(extent.node.shape_env.bound_sympy(extent.node.expr).lower >= 1)


def name_extents(nodes: Iterable[Any], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Names by torch's expression. What has no name yet becomes `D0`, `D1`, … in the order of the graph.

    An extent that is computed is a dim of its own: what follows from how it is computed is not known to `mu`.
    """
    names = dict(given or {})
    taken = set(names.values())
    free = (name for n in range(1_000_000) if (name := f"D{n}") not in taken)
    for extent in open_extents(nodes):
        text = str(extent)
        if not text.isdigit() and text not in names and is_bound(extent):
            names[text] = next(free)
    return names


def typical_extents(nodes: Iterable[Any], names: Mapping[str, str]) -> dict[str, int]:
    """Return the usual size of each open extent, by its name."""
    return {names[str(e)]: typical(e) for e in open_extents(nodes) if str(e) in names}
