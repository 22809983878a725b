"""Analyse the text of a program as an editor has it, right or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from mucc.compiler import program as programs
from mucc.compiler.compilation import Compilation
from mucc.compiler.driver import too_deep
from mucc.compiler.source import decode
from mucc.diagnostics.core import Diagnostic, DiagnosticError, DiagnosticSink, Severity, Source, Span
from mucc.diagnostics.internal import internal_error
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import Shaped, TensorType, dtype_bytes
from mucc.editor.excerpt import Excerpt, excerpts
from mucc.editor.symbols import Kind, Symbol, symbols
from mucc.frontend import ast, lower, parse
from mucc.frontend.context import type_text
from mucc.frontend.irgen import Checked, check_program

KNOWN = 4096
"""The most kernels whose diagnostics are kept. An edit of a program with more has all checked again."""


@dataclass(frozen=True)
class Value:
    """What is known of a value: its type as the language writes it, and its size in memory."""

    type: str
    bytes: str


@dataclass
class Analysis:
    """A program as it stands in an editor; `diagnostics` are those of `mucc check` for a target."""

    source: Source
    target: str
    program: ast.Program
    diagnostics: Sequence[Diagnostic]
    understood: bool = False
    """Whether the program has no errors in its language."""
    remembered: Mapping[tuple[str, str], Value] = field(default_factory=dict[tuple[str, str], Value])
    """What was known of values before the last edits, for kernels that cannot be understood now."""

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The names that the program declares."""
        return symbols(self.program)

    @cached_property
    def module(self) -> ModuleOp | None:
        """The program as IR; of a program with errors, the items that could be understood."""
        wrong = [d.span for d in self.diagnostics if d.span and d.severity is Severity.ERROR]
        items = tuple(i for i in self.program.items if not any(_touch(i.span, span) for span in wrong))
        try:
            return lower(ast.Program(self.program.span, items), DiagnosticSink(self.source))
        except Exception:  # the frontend is for programs without syntax errors
            return None

    @cached_property
    def values(self) -> dict[tuple[str, str], Value]:
        """The named values of kernels without errors, by the names of kernel and value."""
        found: dict[tuple[str, str], Value] = {}
        for excerpt in self._excerpts:
            if (known := _understood(excerpt.text)) is not None:
                found |= {(excerpt.kernel, name): value for name, value in known.values.items()}
        return found

    @cached_property
    def _excerpts(self) -> list[Excerpt]:
        return excerpts(self.program, self.source)

    def value_of(self, symbol: Symbol) -> Value | None:
        """Return what is known of a named value; None for others, and in kernels with errors."""
        return self.values.get((symbol.owner, symbol.name)) if symbol.kind is not Kind.DIM else None

    def last_known(self, symbol: Symbol) -> Value | None:
        """Return what is known of a named value, or what was known before the text had errors."""
        return self.value_of(symbol) or self.remembered.get((symbol.owner, symbol.name))

    def excerpt_of(self, kernel: str) -> Excerpt | None:
        """Return a kernel with what it needs; None where the program has errors in its language."""
        if not self.understood:
            return None
        return next((e for e in self._excerpts if e.kernel == kernel), None)

    def compiled(self, excerpt: Excerpt) -> Compilation | None:
        """Compile an excerpt through all passes; None where it has errors."""
        return _compiled(excerpt.text, self.target)


def analyse(text: str, name: str, target: str) -> Analysis:
    """Analyse a text. Never raises: what is wrong with it is among the diagnostics."""
    source = Source(name, text)
    nothing = ast.Program(Span(0, 0), ())
    try:
        source = decode(text.encode(errors="surrogatepass"), name)
        program, sink = parse(source)
    except DiagnosticError as error:
        return Analysis(source, target, nothing, error.diagnostics)
    if sink.has_errors:
        return Analysis(source, target, program, tuple(sink.diagnostics))
    parts = excerpts(program, source)
    try:
        check_program(program, sink, [_placed(_understood(part.text), part) for part in parts])
    except DiagnosticError as error:
        return Analysis(source, target, program, error.diagnostics)
    except RecursionError:
        return Analysis(source, target, program, too_deep(source).diagnostics)
    if sink.has_errors:
        return Analysis(source, target, program, tuple(sink.diagnostics))
    found = [*sink.diagnostics]
    for part in parts:
        found += map(part.placed, _checked(part.text, target))
    return Analysis(source, target, program, found, understood=True)


def _touch(a: Span, b: Span) -> bool:
    return a.start <= b.end and b.start <= a.end


@dataclass(frozen=True)
class Understood:
    """What the frontend finds in the kernel of an excerpt that has no errors: `values` are named values."""

    checked: Checked
    values: Mapping[str, Value]


@lru_cache(KNOWN)
def _understood(text: str) -> Understood | None:
    """Run the frontend on an excerpt; None if it has errors in its language."""
    try:
        program, sink = parse(Source("", text))
        if sink.has_errors:
            return None
        lowered = check_program(program, sink)
    except (DiagnosticError, RecursionError):
        return None
    if sink.has_errors or len(lowered.kernels) != 1:
        return None
    (checked,), (kernel,) = lowered.checked, lowered.kernels
    return None if checked is None else Understood(checked, _values(kernel))


def _placed(known: Understood | None, excerpt: Excerpt) -> Checked | None:
    """Convert what is known of an excerpt to places in the source."""
    if known is None:
        return None
    return replace(known.checked, warnings=tuple(map(excerpt.placed, known.checked.warnings)))


@lru_cache(KNOWN)
def _checked(text: str, target: str) -> tuple[Diagnostic, ...]:
    """Run all passes on a program without errors in its language, and return what they find."""
    try:
        compilation = programs.compile_source(
            Source("", text), target, only_check=True, tuned=False, frontend_warnings=False
        )
        found = compilation.sink.diagnostics
    except DiagnosticError as error:
        found = error.diagnostics
    except Exception as error:
        return (internal_error(error, verbose=False),)
    return tuple(replace(d, source=None) for d in found)


@lru_cache(32)
def _compiled(text: str, target: str) -> Compilation | None:
    try:
        return programs.compile_source(Source("", text), target)
    except DiagnosticError:
        return None


def _values(kernel: KernelOp) -> dict[str, Value]:
    """Collect the named values of a kernel."""
    block = kernel.body.block
    values = (*block.args, *(result for op in block.ops for result in op.results))
    return {value.name_hint: describe(value.type) for value in values if value.name_hint}


def describe(type: Attribute) -> Value:
    """Describe the type of a value."""
    if not isinstance(type, TensorType):
        return Value(type_text(type), "")
    shaped = Shaped.of(type)
    try:
        size = dtype_bytes(shaped.element_type)
    except KeyError:  # a bool, which is in no memory
        return Value(type_text(type), "")
    known = math.prod(dim for dim in shaped.dims if isinstance(dim, int)) * size
    factors = [str(dim) for dim in shaped.dims if not isinstance(dim, int)]
    if not factors:
        return Value(type_text(type), f"{known:,} bytes")
    factors = [f"({dim})" if set(dim) & set("+-/ ") else dim for dim in factors]
    return Value(type_text(type), f"{'*'.join(factors if known == 1 else [f'{known:g}', *factors])} bytes")
