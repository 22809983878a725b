"""The expressions of a program: which is at a place, its type, and the device kernel that computes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mucc.diagnostics.core import Source, Span
from mucc.dialects.locations import places_of
from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.editor.analysis import Analysis, Value, describe
from mucc.frontend import ast

SHOWN = 80
"""The most characters of an expression that are shown."""


@dataclass(frozen=True)
class Expression:
    """An expression of a kernel, with what is known of its value, None in a kernel with errors."""

    kernel: str
    span: Span
    value: Value | None
    called: str
    """The function that it calls, empty for other expressions."""

    def text(self, source: Source) -> str:
        """Return the text of the expression on one line, shortened."""
        text = " ".join(source.text[self.span.start : self.span.end].split())
        return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} ..."


def expression_at(analysis: Analysis, offset: int) -> Expression | None:
    """Return the innermost operation of a kernel at an offset; None for names, numbers and other text."""
    for kernel in analysis.program.kernels:
        if not kernel.span.start <= offset <= kernel.span.end:
            continue
        roots = (*(s.value for s in kernel.body), *kernel.returns)
        nodes = [node for root in roots for node in _operations(root)]
        around = [node for node in nodes if node.span.start <= offset <= node.span.end]
        if not around:
            return None
        node = min(around, key=lambda node: node.span.end - node.span.start)
        same = sorted((n for n in nodes if n.span.start == node.span.start), key=lambda n: n.span.end)
        value = _value(analysis, kernel.name.text, node.span.start, same.index(node), len(same))
        called = node.function.text if isinstance(node, ast.Call) else ""
        return Expression(kernel.name.text, node.span, value, called)
    return None


def device_kernel(analysis: Analysis, kernel: str, offset: int) -> str:
    """Describe the device kernel that computes what begins at an offset; empty where that is not known."""
    excerpt = analysis.excerpt_of(kernel)
    place = excerpt.inner(offset) if excerpt else None
    compilation = analysis.compiled(excerpt) if excerpt else None
    if compilation is None or place is None:
        return ""
    where = compilation.source.line_col(place)
    for entry in compilation.stages.body.block.ops:
        if isinstance(entry, EntryOp) and entry.sym_name.data == kernel:
            for stage in entry.body.block.ops:
                if isinstance(stage, StageOp) and any(_place(op) == where for op in stage.walk()):
                    return _described(analysis, kernel, stage.stage_name.data)
    return ""


def all_device_kernels(analysis: Analysis, kernel: str) -> list[str]:
    """Describe all device kernels of a kernel, in order of launches."""
    excerpt = analysis.excerpt_of(kernel)
    compilation = analysis.compiled(excerpt) if excerpt else None
    if compilation is None:
        return []
    names = [k.stage.data for p in compilation.programs if p.sym_name.data == kernel for k in p.kernels]
    return [text for name in names if (text := _described(analysis, kernel, name))]


def _described(analysis: Analysis, kernel: str, stage: str) -> str:
    """Describe a device kernel: its kind, its bound where all dims have a size, and its schedule."""
    from mucc.analysis.bound import Rates
    from mucc.compiler.explain_schedule import choices, explain
    from mucc.compiler.launches import launches_of
    from mucc.target import get_target

    excerpt = analysis.excerpt_of(kernel)
    compilation = analysis.compiled(excerpt) if excerpt else None
    if compilation is None:
        return ""
    target = get_target(analysis.target)
    rates = Rates(target.facts.devices[0], target.facts.multiprocessor)
    program = next(p for p in compilation.programs if p.sym_name.data == kernel)
    lines: list[str] = []
    for launch in launches_of(compilation.stages, program, program.bound_dims, rates):
        if launch.name == stage:
            lines.append(f"stage {stage}: one {launch.kind} kernel")
            if launch.bound is not None:
                least = f"at least {launch.bound.seconds * 1e6:.4g} us on {rates.device.name}"
                lines.append(f"{least}, bound by {launch.bound.binding or 'nothing'}")
    for explanation in explain(compilation):
        if (explanation.kernel, explanation.stage) == (kernel, stage):
            head, *more = explanation.as_text().splitlines()
            lines.append(head.partition(": ")[2])
            lines += _until_parts(more)
    for choice in choices(compilation):
        if (choice.kernel, choice.stage) == (kernel, stage):
            lines += choice.lines
    return "\n".join(lines)


def _until_parts(lines: list[str]) -> Iterator[str]:
    """Yield the lines of an explanation that say what was chosen, and none of how it was ranked."""
    for line in lines:
        if line.startswith("  part "):
            return
        yield line.removeprefix("  ")


def _operations(root: ast.Expr) -> Iterator[ast.Expr]:
    """Yield the nodes of an expression that compute something; the depth of a tree is not bounded."""
    waiting: list[ast.Expr] = [root]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Binary():
                waiting += [node.lhs, node.rhs]
            case ast.Unary() | ast.Transpose() | ast.Index():
                waiting.append(node.operand)
            case ast.Call():
                waiting += [a.value for a in node.args if not isinstance(a.value, ast.List)]
            case _:
                continue
        yield node


def _place(op: Operation) -> tuple[int, int] | None:
    """Return line and column of an operation in the kernel, where a function is called for what is in it."""
    *_, place = (None, *places_of(op.location))
    return (place.line.data, place.column.data) if place else None


def _value(analysis: Analysis, kernel: str, start: int, index: int, count: int) -> Value | None:
    """Describe the value of one of `count` expressions that begin at the same place, from the inside out.

    Operations are compared with expressions by their number; where they are not one to one, only the last
    operation is known to be that of the outermost expression.
    """
    module: ModuleOp | None = analysis.module
    where = analysis.source.line_col(start)
    for entry in module.ops if module else ():
        if isinstance(entry, KernelOp) and entry.sym_name.data == kernel:
            found = [op for op in entry.body.block.ops if op.results and _place(op) == where]
            if found and (len(found) == count or index == count - 1):
                return describe(found[index if len(found) == count else -1].results[0].type)
    return None
