"""Which operands the kernels of attention take."""

from __future__ import annotations

from xdsl.dialects.builtin import bf16, f16
from xdsl.ir import SSAValue

from mucc.dialects.mu.types import Dims, Shaped

MOST = 256
"""The largest head dimension: a row of q, k or v lies in registers and shared memory."""

LEADING = 3
"""The most leading axes: as many as tensor maps have, besides the rows and the elements of a row."""


def takes(query: SSAValue, key: SSAValue, value: SSAValue, space: Dims) -> bool:
    """Whether the kernels compute attention of these operands, whose result has the extents `space`."""
    types = [Shaped.of(v.type) for v in (query, key, value)]
    widths = (types[0].dims[-1], types[2].dims[-1])
    alike = len({t.element_type for t in types}) == 1 and types[0].element_type in (bf16, f16)
    return alike and len(space) <= LEADING + 2 and all(isinstance(w, int) and w <= MOST for w in widths)
