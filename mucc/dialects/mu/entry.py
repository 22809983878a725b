"""The base of entry points at every level: a signature over dims, and promises about the dims."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AffineSetAttr,
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Region
from xdsl.irdl import IRDLOperation, attr_def, opt_attr_def, region_def

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

_RESERVED = ("sym_name", "function_type")


class EntryOp(IRDLOperation, ABC):
    """Base of `mu.kernel` and `cutlass.program`, with the syntax of a function.

    `dims` are the names of the dims in order, `bound` those with a fixed value, and `promises` is an affine
    set over `dims` that the caller guarantees. `implied` are further conditions that extents such as `K/128`
    make, such as `K % 128 == 0`. With `each`, one call may run a list of problems, each with its own dims.
    """

    sym_name = attr_def(StringAttr)
    function_type = attr_def(FunctionType)
    arg_names = attr_def(ArrayAttr[StringAttr])
    dims = attr_def(ArrayAttr[StringAttr])
    bound = opt_attr_def(DictionaryAttr)
    promises = opt_attr_def(AffineSetAttr)
    implied = opt_attr_def(ArrayAttr[StringAttr])
    each = opt_attr_def(UnitAttr)
    body = region_def("single_block")

    @property
    def dim_names(self) -> tuple[str, ...]:
        return tuple(d.data for d in self.dims)

    @property
    def is_each(self) -> bool:
        """Whether one call may run a list of problems."""
        return self.each is not None

    @property
    def bound_dims(self) -> dict[str, int]:
        """The values of bound dims by name."""
        if self.bound is None:
            return {}
        return {k: v.value.data for k, v in self.bound.data.items() if isinstance(v, IntegerAttr)}

    @staticmethod
    def parse_parts(parser: Parser) -> tuple[dict[str, Attribute], Region]:
        """Parse the attributes and the body of an entry point."""
        from xdsl.dialects.utils import parse_func_op_like

        name, inputs, outputs, region, extra, _, _ = parse_func_op_like(parser, reserved_attr_names=_RESERVED)
        attributes: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(list(inputs), list(outputs)),
        }
        return attributes | (dict(extra.data) if extra is not None else {}), region

    def print(self, printer: Printer) -> None:
        from xdsl.dialects.utils import print_func_op_like

        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            reserved_attr_names=_RESERVED,
            print_empty_outputs=False,
        )
