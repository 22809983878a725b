"""Base classes and helpers of operations: anchors of stages, inferred result types, integer attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute, Operation
from xdsl.irdl import result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType

Ints = DenseArrayBase.constr(i64)
"""A constraint for integers, one for each of some axes."""


def ints(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


def check_result(op: Operation, expected: Attribute) -> None:
    """Verify the type of an operation's single result. Raises VerifyException for another type."""
    (result,) = op.results
    if result.type != expected:
        raise VerifyException(f"{op.name}: result type {result.type} should be {expected}")


class AnchorOp(FormattedOp, ABC):
    """Base of operations that a device kernel can be built around, with pointwise operations fused in."""

    STAGE: ClassVar[str] = ""
    """The kind of a stage with this anchor, in `mu.stage`; by default the operation's name."""

    @property
    def stage(self) -> str:
        return self.STAGE or self.name.removeprefix("mu.")

    @property
    def space(self) -> Dims:
        """The iteration space of fused pointwise operations: by default the operand's extents."""
        return Shaped.of(self.operands[0].type).dims


class InferredOp(FormattedOp, ABC):
    """A pure operation whose result type follows from its operands and properties."""

    result = result_def(TensorType)

    traits = traits_def(Pure())

    @property
    def function(self) -> str:
        """The name of the function in the language."""
        return self.name.removeprefix("mu.")

    @abstractmethod
    def inferred(self) -> Attribute:
        """Infer the result type. Raises TypeRuleError where the operands do not fit."""

    def conditions(self) -> Sequence[str]:
        """Return what must hold of run-time dims for the operands to fit."""
        return ()

    def verify_(self) -> None:
        check_result(self, self.inferred())
