"""Decide which operands the kernels of gradients of attention can read."""

from __future__ import annotations

from mucc.dialects.mu.ops.attention import GradientOp, Wanted
from mucc.dialects.mu.types import Shaped
from mucc.kernels.attention.operands import LEADING, takes
from mucc.kernels.attention_backward.tiles import CHUNK
from mucc.target import get_target

MOST = 128
"""The largest head dimension: gradients of keys and values lie in registers."""


def takes_gradient(op: GradientOp, target: str | None) -> bool:
    """Whether the kernels compute a gradient on a target, or on any.

    TMA loads whole rows of at least 16 bytes. All operands have all leading axes; keys and values
    are the same along the same of them, and nothing else is. Of a mask that has all axes of the scores each
    element of its gradient is that of one score; others are sums of such.
    """
    if target is not None and not get_target(target).has_wgmma:
        return False
    if op.of.data is Wanted.MASK and not _has_all_axes(op):
        return False
    query, key, value, gradient = (Shaped.of(v.type).dims for v in (op.query, op.key, op.value, op.gradient))
    if not takes(op.query, op.key, op.value, gradient) or len({*map(len, (query, key, value, gradient))}) > 1:
        return False
    widths = (query[-1], value[-1])
    fit = all(isinstance(w, int) and w <= MOST and w % 8 == 0 for w in widths)
    chunks = {-(-w // CHUNK) for w in widths if isinstance(w, int)}
    shared = key[:-2] == value[:-2] and all(k in (1, q) for k, q in zip(key[:-2], query[:-2], strict=True))
    return fit and len(chunks) == 1 and shared and query[:-2] == gradient[:-2] and len(query) <= LEADING + 2


def _has_all_axes(op: GradientOp) -> bool:
    """Whether the mask has an element of its own for each score."""
    assert op.mask is not None
    query, key = (Shaped.of(v.type).dims for v in (op.query, op.key))
    return Shaped.of(op.mask.type).dims == (*query[:-1], key[-2])
