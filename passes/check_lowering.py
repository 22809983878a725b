"""Refuse operations that mucc has no kernel for yet: the one place that says which these are."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import InferredOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.passes.levels import REDUCTIONS, TENSOR_OPS
from mucc.passes.support import Finding, Pass, PassError

_INSTEAD: dict[str, str] = {
    "mean": "bind the dims that it goes over: `[M=4096]`",
    "var": "bind the dims that it goes over: `[M=4096]`",
    "layer_norm": "bind the dims that it goes over: `[M=4096]`",
    "rms_norm": "bind the dims that it goes over: `[M=4096]`",
    "attention": "without `causal`, and with the mask as a parameter, it has kernels",
    "tril": "pass the mask as a parameter, and take `where(mask > 0, x, 0)`",
    "triu": "pass the mask as a parameter, and take `where(mask > 0, x, 0)`",
}
"""What can be written instead of some functions."""

_ELSE = "compute it outside of the kernel, and pass the result as a parameter"


class NoKernelError(PassError):
    """The program is right, but mucc cannot compile it yet."""


def lowers(op: Operation) -> bool:
    """Whether the passes behind `decompose` can make kernels of an operation of a `mu.kernel`."""
    if isinstance(op, ReduceOp):
        return op.kind.data in REDUCTIONS
    return isinstance(op, TENSOR_OPS)


def function_of(op: Operation) -> str:
    """The function that an operation stands for in a program."""
    match op:
        case ReduceOp():
            return op.kind.data.value
        case InferredOp():
            return op.function
        case _:
            return op.name.removeprefix("mu.")


class CheckLowering(Pass):
    """Raise NoKernelError where a kernel holds an operation that no pass lowers, once for each function."""

    name = "check-lowering"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        found: dict[str, Finding] = {}
        for kernel in op.body.block.ops:
            if not isinstance(kernel, KernelOp):
                continue
            for inner in kernel.body.block.ops:
                if not lowers(inner):
                    name = function_of(inner)
                    found.setdefault(name, _finding(name, inner))
        if found:
            raise NoKernelError(tuple(found.values()))


def _finding(name: str, op: Operation) -> Finding:
    return Finding(
        "MU2010",
        f"mucc has no kernel for `{name}` yet",
        location=op.location,
        notes=("`mucc check` and the interpreter take the program; only compiling needs kernels",),
        helps=(_INSTEAD.get(name, _ELSE),),
    )
