"""Interpret the nodes of sort kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Operation

from mucc.dialects.mu.meanings.composite import sorted_along
from mucc.kernels.interface import Meaning
from mucc.kernels.interpreter import CutlassFunctions, Launch
from mucc.kernels.sort.op import PositionOp, SortedOp, SortKernelOp


def _sorted(functions: CutlassFunctions, op: SortedOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort over the launch's space, and make it the space of the stored elements."""
    kernel = op.parent_op()
    assert isinstance(kernel, SortKernelOp)
    values, positions = sorted_along(
        functions.arrays,
        functions.over_space(args[0]),
        kernel.axis.value.data,
        descending=kernel.descending is not None,
        count=kernel.taken,
    )
    functions.launch = Launch(tuple(values.shape), (positions,))
    return (values,)


def _position(functions: CutlassFunctions, op: PositionOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return functions.launch.accumulators


MEANINGS: Mapping[type[Operation], Meaning] = {SortedOp: _sorted, PositionOp: _position}
