"""The compiler driver: run frontend and passes on a source, and emit any level."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

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
from mucc.library.dims import Size
from mucc.library.manifest_json import ManifestJson
from mucc.passes.levels import STAGED, LevelError, Verified
from mucc.passes.pipeline import pipeline
from mucc.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from mucc.compiler.emit import Parts
    from mucc.compiler.entries import Entries
    from mucc.database.lookup import SelectMeasured
    from mucc.dialects.cutlass.ops import ProgramOp
    from mucc.dialects.mu.entry import EntryOp
    from mucc.dialects.mu.ops.kernel import KernelOp
    from mucc.frontend import ast


@dataclass(frozen=True)
class Options:
    """Options of a compilation. `print_ir_after_all` is the stream that gets the IR after every pass.

    `verify` checks the IR against its level after every pass, to find defects of the compiler. `keep_levels`
    keeps the IR at the levels that `emit` prints; without it, only diagnostics can be used. Schedules are
    chosen for `dims`, typical values of open dims; with several `sizes` in their place kernels get entries,
    one for each schedule. With `tuned`, measured schedules (`mucc tune`) take precedence over those of the
    cost model. Without `frontend_warnings`, warnings of the frontend are left out.
    """

    target: str = DEFAULT_TARGET
    print_ir_after_all: TextIO | None = None
    print_ir_after: tuple[str, ...] = ()
    verify: bool = True
    keep_levels: bool = True
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    tuned: bool = True
    sizes: tuple[Size, ...] = ()
    frontend_warnings: bool = True


@dataclass
class Compilation:
    """A compiled source: the IR at several levels, and methods that emit or interpret it."""

    source: Source
    options: Options
    sink: DiagnosticSink
    program: ast.Program
    mu: ModuleOp
    stages: ModuleOp
    cutlass: ModuleOp
    measured: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """The origin of each measured schedule, by kernel and stage."""
    families: tuple[Entries, ...] = ()
    """The kernels with several schedules, and the entry that each schedule became."""

    @cached_property
    def manifest(self) -> ManifestJson:
        """The manifest of the library."""
        from mucc.compiler.manifest import build_manifest

        sizes = {f.kernel: [e.sizes for e in f.entries] for f in self.families}
        return build_manifest(self.mu, self.cutlass, self.options.dims, sizes)

    @property
    def cache_text(self) -> str:
        """A text of the canonical IR and the manifest; equal texts give equal machine code."""
        import json

        return f"{self.cutlass!s}\n{json.dumps(self.manifest, sort_keys=True)}"

    def emit(self, kind: str) -> str:
        """Emit the text of a kind of `--emit`.

        Raises KeyError for kinds that need the toolchain (ptx, cubin, so).
        """
        match kind:
            case "ast":
                from mucc.frontend import dump

                return dump(self.program, self.source)
            case "mu":
                return f"{self.mu!s}\n"
            case "stages":
                return f"{self.stages!s}\n"
            case "cutlass":
                return f"{self.cutlass!s}\n"
            case "graph":
                from mucc.compiler.graph import graph

                return graph(self)
            case "schedule":
                from mucc.compiler.schedule_text import schedule_text

                return schedule_text(self.programs, self.measured)
            case "cu":
                return self.cu()
            case "header":
                from mucc.library.header import header_text

                return header_text(self.manifest)
            case "manifest":
                import json

                return json.dumps(self.manifest, indent=2) + "\n"
            case _:
                raise KeyError(kind)

    def cu(self, *, lines: bool = False) -> str:
        """Emit the C++ of the program as one file; with `lines`, directives lead from it to the source."""
        from mucc.compiler.emit import emit

        return emit(self.cutlass, self.manifest, self.source, lines=lines)

    def parts(self) -> Parts:
        """Emit the C++ of the program in parts for separate compilation."""
        from mucc.compiler.emit import emit_parts

        return emit_parts(self.cutlass, self.manifest)

    def interpret(self, kernel: str, inputs: Sequence[Any], *, exact: bool = False) -> list[Any]:
        """Interpret a kernel by the semantics of the language; returns float64 arrays, one per result.

        `inputs` are arrays of NumPy or torch, one per parameter; scalars may be numbers. Inputs for sparse
        parameters may be packed or dense. With `exact` operands of products are not rounded to their dtype.
        """
        from mucc.dialects.mu.interpreter import MuFunctions, interpret_kernel
        from mucc.dialects.mu.roundings import ExactFunctions

        op = next(k for k in self._kernels(self.mu) if k.sym_name.data == kernel)
        return interpret_kernel(op, _dense(op, inputs), ExactFunctions if exact else MuFunctions)

    def interpret_stages(self, kernel: str, inputs: Sequence[Any], *, bounded: bool = False) -> list[Any]:
        """Interpret a kernel at the level of stages, in float64; nothing is rounded except at pinned stages.

        If `bounded`, values are rounded as device kernels round them, and results are `Bounded`
        (`mucc.dialects.mu.bounded`): they have bounds of what else kernels may lose. What a stage passes to
        another one is rounded where the program of this call stores it.
        """
        from functools import partial

        from mucc.dialects.mu.interpreter import interpret_kernel
        from mucc.dialects.mu.roundings import BoundedFunctions, ExactFunctions

        op = next(k for k in self._kernels(self.stages) if k.sym_name.data == kernel)
        if not bounded:
            return interpret_kernel(op, _dense(op, inputs), ExactFunctions)
        program = self.entry(kernel, [getattr(x, "shape", ()) for x in inputs])
        meaning = partial(BoundedFunctions, unstored=program.unstored_stages)
        return interpret_kernel(op, _dense(op, inputs), meaning)

    def interpret_lowered(self, kernel: str, inputs: Sequence[Any]) -> list[Any]:
        """Interpret the fully lowered program, device kernel by device kernel."""
        from mucc.kernels.interpreter import interpret_program

        program = self.entry(kernel, [getattr(x, "shape", ()) for x in inputs])
        return interpret_program(program, _dense(program, inputs))

    def entry(self, kernel: str, shapes: Sequence[Sequence[int]]) -> ProgramOp:
        """Return the program that computes a call of a kernel with inputs of these shapes."""
        programs = [p for p in self.programs if p.kernel_name == kernel]
        if len(programs) == 1:
            return programs[0]
        from mucc.library.signature import Manifest

        info = next(k for k in Manifest.parse(self.manifest).kernels if k.name == kernel)
        return programs[info.entry(info.bind(shapes))]

    @staticmethod
    def _kernels(module: ModuleOp) -> list[KernelOp]:
        from mucc.dialects.mu.ops.kernel import KernelOp

        return [op for op in module.body.block.ops if isinstance(op, KernelOp)]

    @property
    def programs(self) -> list[ProgramOp]:
        """The resolved programs, in order."""
        from mucc.dialects.cutlass.ops import ProgramOp

        return [op for op in self.cutlass.body.block.ops if isinstance(op, ProgramOp)]


def _dense(entry: EntryOp, inputs: Sequence[Any]) -> list[Any]:
    """Convert packed sparse inputs to dense matrices, as interpreters need them."""
    from mucc.dialects.mu.rules import is_sparse
    from mucc.library.sparse import densify, is_packed

    types = [arg.type for arg in entry.body.block.args]
    return [
        densify(value) if is_sparse(type) and is_packed(value) else value
        for type, value in zip(types, inputs, strict=False)
    ]


def entries(module: ModuleOp) -> list[EntryOp]:
    """List the entry points of a module at any level."""
    from mucc.dialects.mu.entry import EntryOp

    return [op for op in module.body.block.ops if isinstance(op, EntryOp)]


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


def front_text(source: Source, kind: str) -> str:
    """Emit the `ast` or the `mu` of a source, without running passes.

    Raises DiagnosticError for errors up to that level, KeyError for another kind.
    """
    from mucc import frontend

    program, sink = frontend.parse(source)
    sink.raise_if_errors()
    if kind == "ast":
        return frontend.dump(program, source)
    module = frontend.lower(program, sink)
    sink.raise_if_errors()
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
