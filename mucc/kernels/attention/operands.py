"""Decide which operands the kernels of attention can read."""

from __future__ import annotations

from xdsl.dialects.builtin import Float8E4M3FNType, bf16, f16, f32
from xdsl.ir import SSAValue

from mucc.dialects.mu.types import Dims, Shaped
from mucc.kernels.attention.tiles import DECODE_ROWS

MOST = 256
"""The largest head dimension: a row of q, k or v lies in registers and shared memory."""

MOST_F32 = 128
"""The largest head dimension of f32, which is multiplied as tf32."""

LEADING = 3
"""The most leading axes: as many as tensor maps have, besides the rows and the elements of a row."""


def is_narrow(operand: SSAValue) -> bool:
    """Whether an operand is e4m3."""
    return Shaped.of(operand.type).element_type == Float8E4M3FNType()


def is_few(space: Dims) -> bool:
    """Whether results of these extents have at most `DECODE_ROWS` queries, whatever the open dims are."""
    return isinstance(rows := space[-2], int) and rows <= DECODE_ROWS


def takes_f32(query: SSAValue, key: SSAValue, value: SSAValue, space: Dims) -> bool:
    """Whether the kernels compute attention of f32 operands, as tf32: for more than few queries."""
    types = [Shaped.of(v.type) for v in (query, key, value)]
    widths = (types[0].dims[-1], types[2].dims[-1])
    alike = all(t.element_type == f32 for t in types) and len(space) <= LEADING + 2
    return alike and not is_few(space) and all(isinstance(w, int) and w <= MOST_F32 for w in widths)


def takes(query: SSAValue, key: SSAValue, value: SSAValue, space: Dims) -> bool:
    """Whether the kernels compute attention of these operands, whose result has the extents `space`."""
    types = [Shaped.of(v.type) for v in (query, key, value)]
    widths = (types[0].dims[-1], types[2].dims[-1])
    alike = len({t.element_type for t in types}) == 1
    alike = alike and types[0].element_type in (bf16, f16, Float8E4M3FNType())
    return alike and len(space) <= LEADING + 2 and all(isinstance(w, int) and w <= MOST for w in widths)
