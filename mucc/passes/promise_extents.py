"""Collect what the extents of a kernel promise: exact quotients, slices within their tensors.

Later passes rewrite the operations that say so.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from mucc.dialects.mu.ops.base import InferredOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.promises import constraint_text
from mucc.dialects.rewriting import Pass
from mucc.library.extents import at_least, divisible, is_derived


def conditions(kernel: KernelOp) -> Iterator[str]:
    """Yield the conditions on run-time dims under which all extents of a kernel are numbers from 1 on."""
    values = [v for op in kernel.walk() for v in op.results]
    types = [*kernel.function_type.inputs, *kernel.function_type.outputs, *(v.type for v in values)]
    for dim in dict.fromkeys(dim for type in types for dim in Shaped.of(type).dims if is_derived(dim)):
        yield from (c for c in (divisible(dim), at_least(dim, 1)) if c is not None)
    for op in kernel.walk():
        if isinstance(op, InferredOp):
            yield from op.conditions()


class PromiseExtents(Pass):
    """Set `implied` of kernels with extents that follow from run-time dims.

    ```
    mu.kernel @f(%x: !mu.tensor<["K/128"], f32>) {...}
    ->
    mu.kernel @f(%x: !mu.tensor<["K/128"], f32>) attributes {implied = ["K % 128 == 0"]} {...}
    ```
    """

    name = "promise-extents"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if not isinstance(kernel, KernelOp):
                continue
            declared = kernel.promises.data.constraints if kernel.promises is not None else ()
            known = {constraint_text(c, kernel.dim_names) for c in declared}
            found = [c for c in dict.fromkeys(conditions(kernel)) if c not in known]
            kernel.implied = ArrayAttr([StringAttr(c) for c in found]) if found else None
