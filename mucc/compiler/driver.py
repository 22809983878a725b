"""The compiler driver: run frontend and passes on a source, and emit any level."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from mucc.compiler.compilation import Compilation, Options, entries
from mucc.compiler.findings import Reporter, span_of
from mucc.diagnostics import (
    Diagnostic,
    DiagnosticError,
    DiagnosticSink,
    Severity,
    Source,
    Span,
)
from mucc.dialects.rewriting import Finding, PassError
from mucc.passes.levels import STAGED, LevelError, Verified
from mucc.passes.pipeline import pipeline

if TYPE_CHECKING:
    from mucc.database.lookup import SelectMeasured
    from mucc.frontend import ast
    from mucc.library.dims import Size


@dataclass
class _Compiler:
    source: Source
    options: Options
    sink: DiagnosticSink = field(init=False)
    program: ast.Program = field(init=False)
    measured: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    verified: Verified | None = None

    def run(self) -> Compilation:
        from mucc import frontend

        program, self.sink = frontend.parse(self.source)
        self.program = program
        self.sink.raise_if_errors()
        module = frontend.lower(program, self.sink)
        self.sink.raise_if_errors()
        if not self.options.frontend_warnings:
            self.sink.diagnostics.clear()
        if self.options.dims:
            from mucc.compiler.typical_dims import check_names

            check_names(entries(module), self.options.dims)
        mu = stages = module
        if self.options.keep_levels:
            mu = module.clone()
        # It reads the kernels later, when passes have changed the module.
        select = self.select(module.clone if mu is module else lambda: mu)
        if select:
            self.measured = select.used
        given = None if self.options.print_ir_after_all else module  # which lists passes that change nothing
        for step, level in pipeline(self.options.target, self.options.dims, select, given):
            self.step(step, module)
            for finding in step.notes(module):
                self.sink.emit(dataclasses.replace(self.diagnostic(finding), severity=Severity.NOTE))
            if self.options.verify:
                self.verify(level, module, step.name)
            if level is STAGED and self.options.keep_levels:
                stages = module.clone()
            self.show(step.name, module)
        if self.options.dims:
            from mucc.compiler.typical_dims import check_promises

            check_promises(entries(module), self.options.dims)
        return Compilation(self.source, self.options, self.sink, program, mu, stages, module, self.measured)

    def select(self, untouched: Callable[[], ModuleOp]) -> SelectMeasured | None:
        """Make the pass that selects measured schedules; None without measurements."""
        from mucc.database.home import database_path

        if not self.options.tuned or not os.path.exists(database_path()):
            return None
        from mucc.database.lookup import SelectMeasured

        return SelectMeasured.of(untouched(), self.options.dims, self.sink)

    def step(self, step: Any, module: ModuleOp) -> None:
        """Apply a pass. Raises DiagnosticError for errors in the program."""
        try:
            step.apply(None, module)
        except PassError as e:
            for finding in e.findings:
                self.sink.emit(self.diagnostic(finding))
            self.sink.raise_if_errors()

    def verify(self, level: Any, module: ModuleOp, after: str) -> None:
        try:
            self.verified = level.verify(module, self.verified)
        except LevelError as e:
            raise DiagnosticError(
                Diagnostic(
                    "MU9002",
                    f"after {after}: {e}",
                    span=span_of(self.source, e.op.location),
                    source=self.source,
                    helps=("this is a defect of mucc: please report it with the program",),
                )
            ) from e

    def show(self, name: str, module: ModuleOp) -> None:
        stream = self.options.print_ir_after_all
        if stream is not None and (not self.options.print_ir_after or name in self.options.print_ir_after):
            stream.write(f"// -----// IR after {name} //----- //\n{module!s}\n\n")

    def diagnostic(self, finding: Finding) -> Diagnostic:
        """Convert a finding of a pass to a diagnostic."""
        return Reporter(self.source, self.program, self.options.target, self.measured).diagnostic(finding)

    def deepest(self) -> Span | None:
        """Find the value with the longest chain of operations before it; None if lowering fails."""
        from mucc import frontend

        if not hasattr(self, "program"):
            return None
        depths: dict[SSAValue, int] = {}
        most: tuple[int, Operation | None] = (0, None)
        try:
            for kernel in entries(frontend.lower(self.program, DiagnosticSink(self.source))):
                for op in kernel.body.block.ops:
                    depth = 1 + max((depths.get(v, 0) for v in op.operands), default=0)
                    depths |= dict.fromkeys(op.results, depth)
                    if op.results and depth > most[0]:
                        most = depth, op
        except RecursionError:
            return None
        return span_of(self.source, most[1].location) if most[1] else None


def check_language(source: Source) -> tuple[Diagnostic, ...]:
    """Run the frontend alone, and return warnings. Raises DiagnosticError for errors."""
    from mucc import frontend

    program, sink = frontend.parse(source)
    sink.raise_if_errors()
    frontend.lower(program, sink)
    sink.raise_if_errors()
    return tuple(sink.diagnostics)


def front_text(source: Source, kind: str, sizes: Sequence[Size] = ()) -> str:
    """Emit the `ast` or the `mu` of a source, without running passes.

    Raises DiagnosticError for errors up to that level, and for typical values of dims that the program does
    not have; KeyError for another kind.
    """
    from mucc import frontend

    program, sink = frontend.parse(source)
    sink.raise_if_errors()
    if kind == "ast" and not sizes:
        return frontend.dump(program, source)
    module = frontend.lower(program, sink)
    sink.raise_if_errors()
    if sizes:
        from mucc.compiler.typical_dims import check_sizes

        check_sizes(entries(module), sizes)
    if kind == "ast":
        return frontend.dump(program, source)
    return {"mu": f"{module!s}\n"}[kind]


def compile_text(source: Source, options: Options | None = None) -> Compilation:
    """Compile a source through all passes. Raises DiagnosticError with all errors found."""
    options = options or Options()
    if options.sizes:
        return _compile_sizes(source, options)
    compiler = _Compiler(source, options)
    try:
        return compiler.run()
    except RecursionError:
        raise too_deep(source, compiler.deepest()) from None


def _compile_sizes(source: Source, options: Options) -> Compilation:
    """Compile for several sizes; for one that stands for no range, as with `dims`."""
    if len(options.sizes) == 1:
        return compile_text(source, dataclasses.replace(options, dims=options.sizes[0].dims, sizes=()))
    from mucc.compiler.entries import checked, compile_for

    checked(options.sizes)

    def one(dims: Mapping[str, int]) -> Compilation:
        return compile_text(source, dataclasses.replace(options, dims=dims, sizes=()))

    return compile_for(options.sizes, one)


def too_deep(source: Source | None = None, span: Span | None = None) -> DiagnosticError:
    """Build the error MU2011: a chain of dependent operations exceeds the recursion limit."""
    return DiagnosticError(
        Diagnostic(
            "MU2011",
            "a kernel has too many operations that follow on each other",
            span,
            source=source,
            notes=("mucc follows a value through some hundreds of operations within a stage",),
            helps=("store a value on the way with `stage h = ...`, or write two kernels",),
        )
    )
