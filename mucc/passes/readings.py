"""What becomes of the values of anchors: equal numbers for values that are read alike."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import ContractionOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import IndexMapOp
from mucc.passes.value_numbers import Numbers, number_values

FUSED = ("mu.reduce", "mu.arg_reduce", "mu.pool")
"""Anchors that the kernel of a product or convolution may compute of its value, which then is not stored."""

_SEVERAL = -1


@dataclass
class Readings:
    """The readers of each operation of a block, up to those that read memory."""

    numbers: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """Equal for operations whose values equal operations read, and so on."""
    fused: set[Operation] = field(default_factory=set[Operation])
    """Operations whose kernel may do more with their values than pointwise work, and not store them: compute
    one of FUSED, store ranges of columns, or combine them with the value of another product."""

    @staticmethod
    def of(block: Block) -> Readings:
        """Find the readers of the operations of a block."""
        ops = list(block.ops)
        values = number_values(ops)
        several = _of_several(ops, values)
        self, known = Readings(), dict[Hashable, int]()
        for op in reversed(ops):
            readers: set[Hashable] = set()
            for user in (use.operation for result in op.results for use in result.uses):
                is_fused = user.name in FUSED or isinstance(user, IndexMapOp) or user in several
                if is_fused or (user in self.fused and not _ends(user)):
                    self.fused.add(op)
                kinds = tuple(values[result] for result in user.results)
                readers.add((user.name, kinds, None if _ends(user) else self.numbers[user]))
            self.numbers[op] = known.setdefault(frozenset(readers), len(known))
        return self


def _ends(op: Operation) -> bool:
    """Whether an operation is no pointwise work or view."""
    return isinstance(op, AnchorOp | PinOp | ReturnOp)


def _of_several(ops: list[Operation], values: Numbers) -> set[Operation]:
    """Return the pointwise operations that have values of several products."""
    found: set[Operation] = set()
    product: dict[SSAValue, int] = {}
    for op in ops:
        if _ends(op):
            if isinstance(op, ContractionOp):
                product[op.result] = values[op.result]
            continue
        held = {product[value] for value in op.operands if value in product}
        if len(held) > 1:
            found.add(op)
        if held:
            product |= dict.fromkeys(op.results, held.pop() if len(held) == 1 else _SEVERAL)
    return found
