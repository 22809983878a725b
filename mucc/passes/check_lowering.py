"""Refuse operations for which no kernel exists."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import AnchorOp, InferredOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp, VarianceOp
from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.registry import claimant, kinds
from mucc.passes.levels import PRIMITIVES
from mucc.target import DEFAULT_TARGET

_ELSE = "compute it outside of the kernel, and pass the result as a parameter"


def lowers(op: Operation, target: str) -> bool:
    """Whether the passes behind `decompose` can make kernels of an operation of a `mu.kernel`."""
    if isinstance(op, AnchorOp):
        return claimant(op, target) is not None
    return isinstance(op, PRIMITIVES)


def function_of(op: Operation) -> str:
    """Return the function of the language that an operation stands for."""
    match op:
        case ReduceOp():
            return op.kind.data.value
        case InferredOp():
            return op.function
        case _:
            return op.name.removeprefix("mu.")


@dataclass(frozen=True)
class CheckLowering(Pass):
    """Refuse operations of kernels that no pass lowers, once for each function and advice."""

    name = "check-lowering"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        found: dict[tuple[str, str], Finding] = {}
        for kernel in op.body.block.ops:
            if not isinstance(kernel, KernelOp):
                continue
            for inner in kernel.body.block.ops:
                if not lowers(inner, self.target):
                    name = function_of(inner)
                    instead = _instead(inner)
                    found.setdefault((name, instead), _finding(name, instead, inner))
        if found:
            raise PassError(tuple(found.values()))


def _instead(op: Operation) -> str:
    """Return advice on what to write instead of an operation."""
    if isinstance(op, VarianceOp):
        return "write `correction=0`: the variance of so few elements is 0 / 0 else"
    advice = next((a for kind in kinds() if (a := kind.instead(op))), None)
    return advice or _ELSE


def _finding(name: str, instead: str, op: Operation) -> Finding:
    return Finding(
        "MU2010",
        f"mucc has no kernel for `{name}` yet",
        location=op.location,
        notes=("`mucc check --language` and the interpreter take the program; only compiling needs kernels",),
        helps=(instead,),
        function=name,
    )
