"""Entry points of a program, and their terminator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    AffineSetAttr,
    ArrayAttr,
    DictionaryAttr,
    Float32Type,
    FunctionType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, Use
from xdsl.ir.affine import AffineSet
from xdsl.irdl import (
    attr_def,
    irdl_op_definition,
    traits_def,
    var_operand_def,
)
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import rules
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.library.extents import names_of

if TYPE_CHECKING:
    from xdsl.parser import Parser


def _multiplies(use: Use) -> bool:
    """Whether a value is used as an operand of a product, transposed or not."""
    match use.operation:
        case TransposeOp(result=transposed):
            return all(map(_multiplies, transposed.uses))
        case user:
            return isinstance(user, MatmulOp)


@irdl_op_definition
class KernelOp(EntryOp):
    """An entry point of a program. Parameters are tensors and f32 scalars, results are row-major tensors."""

    name = "mu.kernel"

    result_names = attr_def(ArrayAttr[StringAttr])

    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove())

    def __init__(
        self,
        name: str,
        args: Sequence[tuple[str, Attribute]],
        results: Sequence[tuple[str, TensorType]],
        dims: Sequence[str],
        bound: dict[str, int] | None = None,
        promises: AffineSet | None = None,
        body: Region | None = None,
        each: bool = False,
    ):
        types = [t for _, t in args]
        if body is None:
            body = Region(Block(arg_types=types))
            for (hint, _), value in zip(args, body.block.args, strict=True):
                value.name_hint = hint
        super().__init__(
            attributes={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(types, [t for _, t in results]),
                "arg_names": ArrayAttr([StringAttr(n) for n, _ in args]),
                "result_names": ArrayAttr([StringAttr(n) for n, _ in results]),
                "dims": ArrayAttr([StringAttr(d) for d in dims]),
                "bound": DictionaryAttr({k: IntegerAttr(v, i64) for k, v in bound.items()})
                if bound
                else None,
                "promises": AffineSetAttr(promises) if promises else None,
                "each": UnitAttr() if each else None,
            },
            regions=[body],
        )

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(t for t in self.function_type.outputs if isinstance(t, TensorType))

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        attributes, region = cls.parse_parts(parser)
        return KernelOp.create(attributes=attributes, regions=[region])

    def verify_(self) -> None:
        inputs, outputs = self.function_type.inputs, self.function_type.outputs
        if len(self.arg_names) != len(inputs):
            raise VerifyException(f"{len(self.arg_names)} names for {len(inputs)} parameters")
        if len(self.result_names) != len(outputs):
            raise VerifyException(f"{len(self.result_names)} names for {len(outputs)} results")
        if tuple(a.type for a in self.body.block.args) != tuple(inputs):
            raise VerifyException("block arguments do not match the kernel's type")
        if not isinstance(last := self.body.block.last_op, ReturnOp):
            raise VerifyException("a kernel ends with mu.return")
        # The layout of a result is decided by the kernel's type, not by how the value was computed.
        if [Shaped.of(v.type) for v in last.operands] != [Shaped.of(t) for t in outputs]:
            raise VerifyException("returned values do not match the kernel's type")
        for type in inputs:
            if not isinstance(type, TensorType | Float32Type):
                raise VerifyException(f"parameters are tensors or f32 scalars, not {type}")
        if any(Shaped.of(type).element_type == i1 for type in (*inputs, *outputs)):
            raise VerifyException("a bool cannot be stored")
        for type in outputs:
            if not isinstance(type, TensorType) or not type.layout.is_row_major:
                raise VerifyException(f"results are row-major tensors, not {type}")
        for arg in self.body.block.args:
            if rules.is_sparse(arg.type) and not all(map(_multiplies, arg.uses)):
                raise VerifyException("a sparse matrix can be an operand of a product only")
        known = set(self.dim_names)
        for type in (*inputs, *outputs):
            if unknown := names_of(Shaped.of(type).dims) - known:
                raise VerifyException(f"undeclared dim '{min(unknown)}'")


@irdl_op_definition
class ReturnOp(FormattedOp):
    """Return the results of a kernel."""

    name = "mu.return"

    values = var_operand_def(TensorType)

    FORMAT: ClassVar[str] = "$values attr-dict `:` type($values)"

    traits = traits_def(IsTerminator(), HasParent(KernelOp))

    def __init__(self, values: Sequence[SSAValue | Operation]):
        super().__init__(operands=[[SSAValue.get(v) for v in values]])


OPERATIONS = (KernelOp, ReturnOp)
