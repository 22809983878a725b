"""Print `mu` IR as `.mcu` text, formatted canonically; parsing the text gives equal IR.

A value with a single use is printed inside the expression that uses it if that stays short; other values get
names.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from mucc.diagnostics.core import Source
from mucc.dialects.mu.ops.elementwise import ConstantOp, ExtentOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.frontend import ast
from mucc.frontend.context import type_text
from mucc.frontend.exprtext import expr_text
from mucc.frontend.formatter import format_source
from mucc.frontend.names import Names
from mucc.frontend.spelling import NOWHERE, SourceError, spell

LONGEST = 64
"""The most columns of an expression that is printed inside another one."""

LAST = 88
"""The most columns of the expression of a kernel's single returned value."""

DEEPEST = 12
"""The most levels of nested operations in a statement."""


def module_text(module: ModuleOp, comment: str = "") -> str:
    """Print a module's kernels as a program, after `comment`.

    Raises SourceError for operations that the language lacks, such as those that only passes create.
    """
    kernels = [op for op in module.body.block.ops if isinstance(op, KernelOp)]
    head = "".join(f"// {line}".rstrip() + "\n" for line in comment.splitlines())
    return format_source(Source("<ir>", head + "\n".join(map(kernel_text, kernels))))


def kernel_text(kernel: KernelOp) -> str:
    """Print a kernel, each statement on one line."""
    return _KernelPrinter(kernel).text()


class _KernelPrinter:
    def __init__(self, kernel: KernelOp):
        self.kernel = kernel
        parameters = [n.data for n in kernel.arg_names]
        self.names = Names(*parameters, *kernel.dim_names)
        self.exprs: dict[SSAValue, ast.Expr] = {}
        self.depths: dict[SSAValue, int] = {}
        for name, argument in zip(parameters, kernel.body.block.args, strict=True):
            self.exprs[argument] = ast.Name(NOWHERE, name)
        self.lines: list[str] = []

    def text(self) -> str:
        for op in self.kernel.body.block.ops:
            if isinstance(op, ReturnOp):
                values = [self.exprs[v] for v in op.values]
                self.lines.append(f"return {', '.join(map(expr_text, values))}")
            else:
                self._operation(op)
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"{self._header()} {{\n{body}}}\n"

    def _header(self) -> str:
        kernel = self.kernel
        if kernel.promises is not None:
            raise SourceError("promises have no text yet")
        given = kernel.bound.data if kernel.bound else dict[str, Attribute]()
        bound = {name: cast(IntegerAttr, value).value.data for name, value in given.items()}
        dims = ", ".join(f"{d}={bound[d]}" if d in bound else d for d in kernel.dim_names)
        inputs, outputs = kernel.function_type.inputs, kernel.function_type.outputs
        params = ", ".join(f"{n.data}: {type_text(t)}" for n, t in zip(kernel.arg_names, inputs, strict=True))
        results = [f"{n.data}: {type_text(t)}" for n, t in zip(kernel.result_names, outputs, strict=True)]
        text = type_text(outputs.data[0]) if len(results) == 1 else f"({', '.join(results)})"
        name = f"{'each ' * kernel.is_each}{kernel.sym_name.data}"
        return f"kernel {name}{f'[{dims}]' if dims else ''}({params}) -> {text}"

    def _operation(self, op: Operation) -> None:
        if isinstance(op, PinOp):
            name = self.names.new(op.results[0].name_hint or "s")
            self.lines.append(f"stage {name} = {expr_text(self.exprs[op.operands[0]])}")
            self._name(op.results[0], name)
            return
        value = op.results[0]
        expr = spell(op, [self.exprs[o] for o in op.operands])
        depth = 1 + max((self.depths.get(o, 0) for o in op.operands), default=0)
        if self._stays(op, expr, depth):
            self.exprs[value], self.depths[value] = expr, depth
            return
        name = self.names.new(value.name_hint or "v")
        self.lines.append(f"{name} = {expr_text(expr)}")
        self._name(value, name)

    def _name(self, value: SSAValue, name: str) -> None:
        self.exprs[value], self.depths[value] = ast.Name(NOWHERE, name), 0

    def _stays(self, op: Operation, expr: ast.Expr, depth: int) -> bool:
        """Whether a value is printed inside the expression that uses it."""
        if isinstance(op, ConstantOp | ExtentOp):
            return True
        uses = list(op.results[0].uses)
        if len(uses) != 1 or depth > DEEPEST:
            return isinstance(op, TransposeOp) and isinstance(expr, ast.Transpose) and depth == 1
        alone = isinstance(end := uses[0].operation, ReturnOp) and len(end.values) == 1
        return len(expr_text(expr)) <= (LAST if alone else LONGEST)
