"""What operations share: a result whose type is inferred, and how their numbers are kept."""

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
"""Integers, one for each axis or for each of some axes."""


def ints(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


def check_result(op: Operation, expected: Attribute) -> None:
    """Raises VerifyException where an operation's one result has another type."""
    (result,) = op.results
    if result.type != expected:
        raise VerifyException(f"{op.name}: result type {result.type} should be {expected}")


class AnchorOp(FormattedOp, ABC):
    """An operation that a device kernel can be built around, with pointwise work beside it in one stage."""

    STAGE: ClassVar[str] = ""
    """What `mu.stage` calls a stage around such an operation; by default the operation's own name."""

    @property
    def stage(self) -> str:
        return self.STAGE or self.name.removeprefix("mu.")

    @property
    def space(self) -> Dims:
        """The extents that pointwise work beside the operation runs over: by default those of its operand."""
        return Shaped.of(self.operands[0].type).dims


class InferredOp(FormattedOp, ABC):
    """A pure operation whose result type follows from its operands and properties."""

    result = result_def(TensorType)

    traits = traits_def(Pure())

    @property
    def function(self) -> str:
        """What the language calls it."""
        return self.name.removeprefix("mu.")

    @abstractmethod
    def inferred(self) -> Attribute:
        """The type that the result must have. Raises TypeRuleError where the operands do not fit."""

    def verify_(self) -> None:
        check_result(self, self.inferred())
