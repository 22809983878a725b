"""Open extents of a captured graph: what they are called in a program, and how large they usually are."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, cast

from mucc.library.dims import LARGEST
from mucc.library.extents import Dim, Polynomial, polynomial
from mucc.torch.importer.capture import torch

MOST_FACTORS = 8
"""The largest power of an extent that is written as a product."""

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

    One that is computed has a name too, for kernels that cannot compute it (see `derived_extents`).
    """
    names = dict(given or {})
    taken = set(names.values())
    free = (name for n in range(1_000_000) if (name := f"D{n}") not in taken)
    for extent in open_extents(nodes):
        text = str(extent)
        if not text.isdigit() and text not in names and is_bound(extent):
            names[text] = next(free)
    return names


def derived_extents(nodes: Iterable[Any], names: Mapping[str, str]) -> dict[str, Dim]:
    """Return what computed extents are as arithmetic on named ones, by torch's expression.

    These are extents of tensors, and numbers among the arguments of nodes, such as bounds of slices.
    """
    nodes = list(nodes)
    numbers = [n.meta["val"] for n in nodes if isinstance(n.meta.get("val"), torch.SymInt)]
    extents = [e for e in open_extents(nodes) if is_bound(e)]
    found: dict[str, Dim] = {}
    for extent in (*extents, *numbers):
        if (
            not extent.node.expr.is_Symbol
            and (form := _polynomial(extent, extent.node.expr, names)) is not None
        ):
            found[str(extent)] = form.dim
    return found


def _polynomial(extent: Any, expr: Any, names: Mapping[str, str]) -> Polynomial | None:
    """Convert an expression of sympy. None where it is no polynomial, or has symbols without a name."""
    if expr.is_Integer:
        return Polynomial.number(int(expr))
    if expr.is_Symbol:
        return polynomial(names[str(expr)]) if str(expr) in names else None
    if expr.func.__name__ == "FloorDiv" and expr.args[1].is_Integer:
        over = _polynomial(extent, expr.args[0], names)
        return over.over(int(expr.args[1])) if over and _is_exact(extent, *expr.args) else None
    if expr.is_Pow and expr.exp.is_Integer and 0 < int(expr.exp) <= MOST_FACTORS:
        factors = [expr.base] * int(expr.exp)
    elif expr.is_Add or expr.is_Mul:
        factors = list(expr.args)
    else:
        return None
    forms = [_polynomial(extent, f, names) for f in factors]
    found = [f for f in forms if f is not None]
    if len(found) != len(forms):
        return None
    return reduce(operator.add if expr.is_Add else operator.mul, found)


def _is_exact(extent: Any, dividend: Any, divisor: Any) -> bool:
    """Whether a quotient is known to leave no remainder, by what torch found out while it captured."""
    number = extent.node.shape_env.create_symintnode(dividend, hint=None)
    return bool(symbolic_shapes.statically_known_true(number % int(divisor) == 0))


def declared_ranges(nodes: Iterable[Any], names: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return the least and the largest value of each open extent that has both, by its name.

    `torch._dynamo.mark_dynamic(x, 0, min=2, max=4096)` declares them, as `torch.export.Dim` does.
    """
    found: dict[str, tuple[int, int]] = {}
    for extent in open_extents(nodes):
        if extent.node.expr.is_Symbol and (name := names.get(str(extent))) is not None:
            values = extent.node.shape_env.bound_sympy(extent.node.expr)
            if values.upper.is_Integer and int(values.upper) <= LARGEST:
                found[name] = max(1, int(values.lower)), int(values.upper)
    return found


def typical_extents(nodes: Iterable[Any], names: Mapping[str, str]) -> dict[str, int]:
    """Return the usual size of each open extent, by its name."""
    return {names[str(e)]: typical(e) for e in open_extents(nodes) if str(e) in names}
