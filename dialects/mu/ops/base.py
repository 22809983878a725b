"""What operations on whole tensors share: one inferred result, and how their numbers are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import TensorType

Ints = DenseArrayBase.constr(i64)
"""Integers, one for each axis or for each of some axes."""


def ints(values: Sequence[int]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, list(values))


def integer(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


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
        if self.result.type != (expected := self.inferred()):
            raise VerifyException(f"{self.name}: result type {self.result.type} should be {expected}")
