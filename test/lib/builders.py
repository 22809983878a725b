"""Short ways to write `mu` IR in tests: from text, or value by value."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser

from mucc.diagnostics.core import DiagnosticSink, Source
from mucc.dialects.mu.dialect import Mu
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import DTYPES, Dim, LayoutAttr, TensorType
from mucc.frontend import lower, parse
from mucc.kernels.dialect import Cutlass
from mucc.passes import get_all_passes


def context() -> Context:
    """A context with our dialects loaded."""
    ctx = Context()
    for dialect in (Builtin, Mu, Cutlass):
        ctx.load_dialect(dialect)
    return ctx


def parsed(text: str) -> ModuleOp:
    """The module that a text holds, verified."""
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def lowered(mcu: str, *passes: str) -> ModuleOp:
    """A `.mcu` program after some passes."""
    source = Source("test.mcu", mcu)
    program, sink = parse(source, DiagnosticSink(source))
    sink.raise_if_errors()
    module = lower(program, sink)
    sink.raise_if_errors()
    for name in passes:
        get_all_passes()[name]()().apply(context(), module)
    return module


def kernel(mcu: str, *passes: str) -> KernelOp:
    """The first kernel of a `.mcu` program after some passes."""
    first = lowered(mcu, *passes).body.block.first_op
    assert isinstance(first, KernelOp)
    return first


def tensor(*dims: Dim, dtype: str = "f32", layout: LayoutAttr | None = None) -> TensorType:
    """A tensor type."""
    return TensorType.of(dims, DTYPES[dtype], layout)


def value(type: Attribute) -> SSAValue:
    """A value of a type, out of nowhere."""
    return TestOp(result_types=[type]).results[0]


def result(op: Operation) -> SSAValue:
    """The one result of an op, verified."""
    op.verify()
    return op.results[0]
