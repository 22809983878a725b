"""The names of a program: where each is declared, and where it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from mucc.diagnostics.core import Span
from mucc.frontend import ast


class Kind(Enum):
    """What a name stands for."""

    KERNEL = "kernel"
    FUNCTION = "function"
    DIM = "dim"
    PARAMETER = "parameter"
    VALUE = "value"
    STAGE = "stage"
    RESULT = "result"


@dataclass
class Symbol:
    """A name with its declaration. `owner` is the kernel or function in whose body it can be used, empty for
    names of the whole file; `visible` is where that begins."""

    name: str
    kind: Kind
    declared: Span
    owner: str = ""
    visible: int = 0
    uses: list[Span] = field(default_factory=list[Span])

    def spans(self) -> list[Span]:
        """Return the places that have the name, the declaration first."""
        return [self.declared, *self.uses]


def symbols(program: ast.Program) -> list[Symbol]:
    """Find all names that a program declares, with their uses. A second declaration counts as a use."""
    file: dict[str, Symbol] = {}
    for item in program.items:
        if isinstance(item, ast.Kernel | ast.Function):
            kind = Kind.KERNEL if isinstance(item, ast.Kernel) else Kind.FUNCTION
            _declare(file, Symbol(item.name.text, kind, item.name.span), item.name)
    found = [*file.values()]
    for item in program.items:
        if not isinstance(item, ast.Schedule):
            found += _body(item, file)
    for schedule in program.schedules:
        _schedule(schedule, file, found)
    return found


def symbol_at(found: Iterable[Symbol], offset: int) -> Symbol | None:
    """Return the name at an offset, also right behind its last character."""
    for symbol in found:
        if any(span.start <= offset <= span.end for span in symbol.spans()):
            return symbol
    return None


def _declare(scope: dict[str, Symbol], symbol: Symbol, ident: ast.Ident) -> None:
    if symbol.name in scope:
        scope[symbol.name].uses.append(ident.span)
    else:
        scope[symbol.name] = symbol


def _schedule(item: ast.Schedule, file: dict[str, Symbol], found: Iterable[Symbol]) -> None:
    """Note the kernel, and the stage, that a schedule names; a schedule may precede its kernel."""
    if item.kernel.text in file:
        file[item.kernel.text].uses.append(item.kernel.span)
    if item.stage is not None:
        for symbol in found:
            named = (symbol.owner, symbol.name) == (item.kernel.text, item.stage.text)
            if named and symbol.kind is Kind.STAGE:
                symbol.uses.append(item.stage.span)


def _body(item: ast.Kernel | ast.Function, file: dict[str, Symbol]) -> list[Symbol]:
    """Find the names within a kernel or a function."""
    scope: dict[str, Symbol] = {}
    owner = item.name.text

    def declare(ident: ast.Ident, kind: Kind) -> None:
        _declare(scope, Symbol(ident.text, kind, ident.span, owner, ident.span.end), ident)

    def use(*nodes: object) -> None:
        for name, span in _names(nodes):
            if (symbol := scope.get(name) or file.get(name)) is not None:
                symbol.uses.append(span)

    if isinstance(item, ast.Kernel):
        for dim in item.dims:
            declare(dim.name, Kind.DIM)
        for param in item.params:
            declare(param.name, Kind.PARAMETER)
            use(param.type.shape)
        use(item.promises)
        named = item.results if isinstance(item.results, tuple) else ()
        use([r.type.shape for r in named] if named else getattr(item.results, "shape", None))
    else:
        named = ()
        for ident in item.params:
            declare(ident, Kind.PARAMETER)
    for statement in item.body:
        use(statement.value, statement.type.shape if statement.type else None)
        declare(statement.name, Kind.STAGE if statement.is_stage else Kind.VALUE)
    use(item.returns)
    for result in named:
        if result.name.text in scope:
            scope[result.name.text].uses.append(result.name.span)
        else:
            declare(result.name, Kind.RESULT)
    return [*scope.values()]


def _names(node: object) -> Iterator[tuple[str, Span]]:
    """Yield the names that a tree uses; keywords of arguments are none."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name | ast.Ident):
            yield one.text, one.span
        elif isinstance(one, ast.Argument):
            waiting.append(one.value)
        elif isinstance(one, ast.Node):
            fields = one._fields  # pyright: ignore[reportPrivateUsage]
            waiting += [getattr(one, name) for name in fields if name != "span"]
        elif isinstance(one, tuple | list):
            waiting += one  # pyright: ignore[reportUnknownArgumentType]
