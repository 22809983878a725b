"""Products whose columns are divided: ranges of them that one kernel stores, each to a matrix of its own.

`t = x @ w + b` with `t[:, :K]`, `t[:, K:]` as results is one product. Where ranges meet in one value, as the
halves of gated units do, products of parts of `w` serve better: a kernel has their elements side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_slice
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.rules import HALVES
from mucc.dialects.mu.types import Dim, Dims, Shaped
from mucc.dialects.walk import postorder
from mucc.kernels.registry import claimant
from mucc.passes.stored_forms import FULL

if TYPE_CHECKING:
    from mucc.dialects.mu.ops.shape import SliceOp

MOST_RANGES = 4
"""More ranges of one product's columns are left in one matrix."""


def ranges_of(value: SSAValue) -> list[SliceOp] | None:
    """Return the ranges of columns that are all that a value is used for; None if it has other uses.

    They are a few, do not overlap, and each has another beginning.
    """
    axis = len(Shaped.of(value.type).dims) - 1
    parts: list[SliceOp] = []
    for use in value.uses:
        part = use.operation
        if not is_slice(part) or part.axis.value.data != axis or part.range[2] != 1:
            return None
        parts.append(part)
    return parts if len(parts) <= MOST_RANGES and _are_apart(parts) else None


def _are_apart(parts: Sequence[SliceOp]) -> bool:
    ends: dict[Dim, Dim] = {part.range[0]: part.range[1] for part in parts}
    if len(ends) < len(parts):
        return False
    numbers = sorted((a, z) for a, z in ends.items() if isinstance(a, int) and isinstance(z, int))
    if len(numbers) == len(ends):
        return all(stop <= start for (_, stop), (start, _) in pairwise(numbers))
    # Extents of run-time dims are compared for equality only: each part begins where another one ends.
    end, found = ends.get(0), 1
    while end in ends:
        end, found = ends[end], found + 1
    return found == len(ends)


def is_stored_by_ranges(value: SSAValue, target: str | None) -> bool:
    """Whether the kernel of a product stores ranges of a value, the product or pointwise work on it.

    Nothing else uses the value, nothing is computed of two ranges together, and no range has to be stored
    otherwise than in the value's dtype, by a stage that the user named, or as a part of a row.
    """
    if (parts := ranges_of(value)) is None or len(parts) < 2:
        return False
    if (product := _product_of(value)) is None or _meet(parts):
        return False
    if any(_needs_more(part) for part in parts):
        return False
    kind = claimant(product, target)
    return kind is not None and kind.stores_ranges(product, [part.result.type for part in parts], target)


def _product_of(value: SSAValue) -> AnchorOp | None:
    """Return the anchor from which pointwise work computes a value; None if that work has other uses."""
    found: AnchorOp | None = None
    chain: set[Operation] = set()
    pending, dims = [value], Shaped.of(value.type).dims
    while pending:
        inner = pending.pop()
        owner = inner.owner
        if isinstance(owner, AnchorOp) and Shaped.of(inner.type).dims == dims:
            if found is not None and owner is not found:
                return None
            found = owner
        elif isinstance(owner, ElementwiseOp) and owner not in chain and _is_whole(inner, dims):
            if owner.computes_integers:
                return None
            chain.add(owner)
            pending += owner.operands
    if found is None or found.space != dims:
        return None
    used = {use.operation for op in (found, *chain) for v in op.results if v is not value for use in v.uses}
    return found if used <= chain else None


def _is_whole(value: SSAValue, dims: Dims) -> bool:
    return Shaped.of(value.type).dims == dims


def _meet(parts: Sequence[SliceOp]) -> bool:
    """Whether pointwise work is computed of more than one range."""
    reached: set[Operation] = set()
    for part in parts:
        found = {op for op in postorder(part, _pointwise_users) if op is not part}
        if found & reached:
            return True
        reached |= found
    return False


def _pointwise_users(op: Operation) -> list[Operation]:
    return [user for user in _users(op) if isinstance(user, ElementwiseOp)]


def _users(op: Operation) -> list[Operation]:
    return [use.operation for result in op.results for use in result.uses]


def _needs_more(part: SliceOp) -> bool:
    """Whether a range is pinned, sliced again, or read for a result of 32 bits while it has 16 itself."""
    if any(is_slice(user) for user in _users(part)):
        return True
    is_half = Shaped.of(part.result.type).element_type in HALVES

    def is_wider(value: SSAValue) -> bool:
        return is_half and Shaped.of(value.type).element_type in FULL

    return any(
        isinstance(user, PinOp) or (isinstance(user, ReturnOp) and is_wider(value))
        for op in postorder(part, _users)
        for value in op.results
        for user in {use.operation for use in value.uses}
    )
