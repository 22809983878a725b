"""Interpreters of the nodes that only map kernels have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Operation

from mucc.dialects.mu.arrays import to_tf32
from mucc.kernels.interface import Meaning
from mucc.kernels.interpreter import CutlassFunctions
from mucc.kernels.map.nodes import Part, ScatterStoreOp, StorePartsOp


def _store_parts(functions: CutlassFunctions, op: StorePartsOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Store parts of each element, side by side before the last axis."""
    arrays, full = functions.arrays, functions.over_space(args[0])
    high = to_tf32(arrays, full)
    parts = {Part.HIGH: high, Part.LOW: to_tf32(arrays, full - high)}
    value = arrays.xp.stack([parts[kind] for kind in op.kinds], -2)
    functions.write(args[1], op.destination.type, value)
    return ()


MEANINGS: Mapping[type[Operation], Meaning] = {
    ScatterStoreOp: CutlassFunctions.scatter_store,
    StorePartsOp: _store_parts,
}
