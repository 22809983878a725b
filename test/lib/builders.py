"""Short ways to write `mu` IR in tests: from text, or value by value."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser

from mucc.diagnostics.core import DiagnosticSink, Source
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.dialect import Mu
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import DTYPES, Dim, Dims, LayoutAttr, TensorType
from mucc.frontend import lower, parse
from mucc.kernels.dialect import Cutlass
from mucc.kernels.lowering.access import Access, Axes
from mucc.kernels.registry import kernels_of
from mucc.passes import get_all_passes
from mucc.passes.pipeline import pipeline


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


def device_kernels(mcu: str, target: str = "sm_90a") -> list[DeviceKernelOp]:
    """Return the device kernels of a `.mcu` program after the whole pipeline, each level verified."""
    module = lowered(mcu)
    for step, level in pipeline(target):
        step.apply(context(), module)
        level.verify(module)
    return [kernel for _, kernel in kernels_of(module)]


def kernel_names(mcu: str) -> list[str]:
    """Return the names of the ops of a program's device kernels, without `cutlass.`, in launch order."""
    return [kernel.name.removeprefix("cutlass.") for kernel in device_kernels(mcu)]


def last_stage(mcu: str) -> StageOp:
    """Return the last stage of a `.mcu` program's first kernel."""
    passes = ("mu-canonicalize", "decompose", "mu-canonicalize", "form-stages")
    return [op for op in kernel(mcu, *passes).body.block.ops if isinstance(op, StageOp)][-1]


def tensor(*dims: Dim, dtype: str = "f32", layout: LayoutAttr | None = None) -> TensorType:
    """A tensor type."""
    return TensorType.of(dims, DTYPES[dtype], layout)


def strided(*strides: int | None) -> LayoutAttr:
    """Return a layout with explicit strides; None for those known at run time only."""
    return LayoutAttr.strided(strides)


def access(dims: Dims, axes: Axes, layout: LayoutAttr | None = None) -> Access:
    """Return an access to an f32 tensor that walks along `axes` of a stage's space; row-major by default."""
    return Access(value(tensor(*dims, layout=layout)), axes)


def value(type: Attribute) -> SSAValue:
    """A value of a type, out of nowhere."""
    return TestOp(result_types=[type]).results[0]


def result(op: Operation) -> SSAValue:
    """The one result of an op, verified."""
    op.verify()
    return op.results[0]
