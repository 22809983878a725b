"""Print an AST for `--emit=ast`: indented text, one node per line, with `@line:column`."""

from __future__ import annotations

from mucc.diagnostics.core import Source
from mucc.frontend import ast
from mucc.frontend.exprtext import dim_text, index_text, item_text, promise_text, type_text, value_text


def dump_program(program: ast.Program, source: Source) -> str:
    """Print a program's AST, with a line end after each node."""
    dumper = _Dumper(source)
    dumper.line(0, "program", program)
    for item in program.items:
        match item:
            case ast.Kernel():
                dumper.kernel(item)
            case ast.Function():
                dumper.function(item)
            case ast.Schedule():
                dumper.schedule(item)
    return "".join(line + "\n" for line in dumper.lines)


class _Dumper:
    def __init__(self, source: Source):
        self.source = source
        self.lines: list[str] = []

    def line(self, depth: int, text: str, node: ast.Node) -> None:
        line, col = self.source.line_col(node.span.start)
        self.lines.append(f"{'  ' * depth}{text} @{line}:{col}")

    def kernel(self, kernel: ast.Kernel) -> None:
        self.line(1, f"kernel {'each ' * kernel.each}{kernel.name.text}", kernel)
        for dim in kernel.dims:
            self.line(2, f"dim {dim_text(dim)}", dim)
        for param in kernel.params:
            self.line(2, f"param {param.name.text}: {type_text(param.type)}", param)
        if isinstance(kernel.results, ast.Type):
            self.line(2, f"result {type_text(kernel.results)}", kernel.results)
        else:
            for result in kernel.results:
                self.line(2, f"result {result.name.text}: {type_text(result.type)}", result)
        for promise in kernel.promises:
            self.line(2, f"promise {promise_text(promise)}", promise)
        self.block(kernel)

    def function(self, function: ast.Function) -> None:
        self.line(1, f"fn {function.name.text}", function)
        for param in function.params:
            self.line(2, f"param {param.text}", param)
        self.block(function)

    def block(self, item: ast.Kernel | ast.Function) -> None:
        for statement in item.body:
            word = "stage" if statement.is_stage else "let"
            type_ = f": {type_text(statement.type)}" if statement.type else ""
            self.line(2, f"{word} {statement.name.text}{type_}", statement)
            self.expr(3, statement.value)
        for value in item.returns:
            self.line(2, "return", value)
            self.expr(3, value)

    def expr(self, depth: int, expr: ast.Expr, label: str = "") -> None:
        match expr:
            case ast.Number():
                self.line(depth, f"{label}number {expr.text}", expr)
            case ast.Name():
                self.line(depth, f"{label}name {expr.text}", expr)
            case ast.Unary():
                self.line(depth, f"{label}unary {expr.op}", expr)
                self.expr(depth + 1, expr.operand)
            case ast.Binary():
                first, chain = expr.spine
                chain.reverse()
                for n, binary in enumerate(chain):
                    self.line(depth + n, f"{'' if n else label}binary {binary.op}", binary)
                self.expr(depth + len(chain), first)
                for n, binary in reversed(list(enumerate(chain, 1))):
                    self.expr(depth + n, binary.rhs)
            case ast.Transpose():
                self.line(depth, f"{label}transpose", expr)
                self.expr(depth + 1, expr.operand)
            case ast.Index():
                self.line(depth, f"{label}index {index_text(expr.items)}", expr)
                self.expr(depth + 1, expr.operand)
            case ast.Call():
                self.line(depth, f"{label}call {expr.function.text}", expr)
                for argument in expr.args:
                    self.argument(depth + 1, argument)

    def argument(self, depth: int, argument: ast.Argument) -> None:
        label = f"{argument.name.text}=" if argument.name else ""
        if isinstance(argument.value, ast.List):
            self.line(depth, f"{label}list {', '.join(map(item_text, argument.value.values))}", argument)
        else:
            self.expr(depth, argument.value, label)

    def schedule(self, schedule: ast.Schedule) -> None:
        stage = f".{schedule.stage.text}" if schedule.stage else ""
        self.line(1, f"schedule {schedule.kernel.text}{stage} for {schedule.target.text}", schedule)
        for setting in schedule.settings:
            self.line(2, f"{setting.name.text} = {value_text(setting.value)}", setting)
