"""Refuse operations for which no kernel exists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import AnchorOp, InferredOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp, VarianceOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.registry import claimant, kinds
from mucc.library.signature import MOST_ARGS, MOST_AXES, MOST_DIMS
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
    """Refuse signatures that no library holds, and operations that no pass lowers, once for each function and
    advice.
    """

    name = "check-lowering"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        found: dict[tuple[str, str], Finding] = {}
        beyond: list[Finding] = []
        for kernel in op.body.block.ops:
            if not isinstance(kernel, KernelOp):
                continue
            beyond += _beyond(kernel)
            for inner in kernel.body.block.ops:
                if not lowers(inner, self.target):
                    name = function_of(inner)
                    instead = _instead(inner)
                    found.setdefault((name, instead), _finding(name, instead, inner))
        if found or beyond:
            raise PassError((*beyond, *found.values()))


def _beyond(kernel: KernelOp) -> Iterator[Finding]:
    """Yield what is more of a kernel's signature than a library holds."""
    types = [*kernel.function_type.inputs, *kernel.function_type.outputs]
    axes = max((len(Shaped.of(type).dims) for type in types), default=0)
    counts = (
        (len(types), MOST_ARGS, "parameters and results", "write two kernels"),
        (
            len(kernel.dims),
            MOST_DIMS,
            "dims",
            "write the values of bound dims as numbers, or write two kernels",
        ),
        (axes, MOST_AXES, "axes of one tensor", "merge axes before the call, and `reshape` in the kernel"),
    )
    for count, most, what, advice in counts:
        if count > most:
            yield Finding(
                "MU2012",
                f"kernel '{kernel.sym_name.data}' has {count} {what}, of which a library holds {most}",
                location=kernel.location,
                helps=(advice,),
            )


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
