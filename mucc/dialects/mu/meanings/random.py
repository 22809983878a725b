"""Interpret random numbers."""

from __future__ import annotations

from xdsl.ir import Operation

from mucc.dialects.mu.meanings.base import Meaning
from mucc.dialects.mu.ops.random import RandomOp
from mucc.dialects.mu.philox import uniform

MEANINGS: dict[type[Operation], Meaning] = {
    RandomOp: lambda m, op, v: uniform(m.arrays, m.shape(op.result.type), v[0], op.stream.value.data),
}
