"""From a source text to every form that the compiler makes of it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from mucc.diagnostics import (
    Applicability,
    Diagnostic,
    DiagnosticError,
    DiagnosticSink,
    Fix,
    Severity,
    Source,
    Span,
)
from mucc.dialects.mu.settings import SETTINGS
from mucc.dialects.rewriting import Finding, PassError
from mucc.library.manifest_json import ManifestJson
from mucc.passes.levels import STAGED, LevelError
from mucc.passes.pipeline import pipeline

if TYPE_CHECKING:
    from mucc.compiler.emit import Parts
    from mucc.dialects.cutlass.ops import ProgramOp
    from mucc.dialects.mu.entry import EntryOp
    from mucc.dialects.mu.ops.kernel import KernelOp
    from mucc.frontend import ast
    from mucc.measured.lookup import SelectMeasured


@dataclass(frozen=True)
class Options:
    """How to compile. `print_ir_after_all` receives the IR after every pass.

    `verify` checks the IR against its level after every pass, to find defects of the compiler.
    `keep_levels` keeps the IR at the levels that `emit` shows; without it only diagnostics come out.
    `dims` are typical values of dims that the program leaves open: schedules are chosen for them. With
    `tuned` a schedule that was measured (`mucc tune`) is taken before the one that the model would choose.
    """

    target: str = "sm_90a"
    print_ir_after_all: TextIO | None = None
    print_ir_after: tuple[str, ...] = ()
    verify: bool = True
    keep_levels: bool = True
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    tuned: bool = True


@dataclass
class Compilation:
    """A compiled source: the IR at the levels that users look at, and the texts made from them."""

    source: Source
    options: Options
    sink: DiagnosticSink
    program: ast.Program
    mu: ModuleOp
    stages: ModuleOp
    cutlass: ModuleOp
    measured: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """By kernel and stage, where a schedule comes from that was measured."""

    @cached_property
    def manifest(self) -> ManifestJson:
        """The manifest that the `.so` carries."""
        from mucc.compiler.manifest import build_manifest

        return build_manifest(self.mu, self.cutlass, self.options.dims)

    @property
    def cache_text(self) -> str:
        """The canonical IR: equal texts make equal machine code."""
        import json

        return f"{self.cutlass!s}\n{json.dumps(self.manifest, sort_keys=True)}"

    def emit(self, kind: str) -> str:
        """The text that `--emit` calls so. Raises KeyError for what the toolchain makes (ptx, cubin, so)."""
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
            case "schedule":
                return schedule_text(self._programs(), self.measured)
            case "cu":
                from mucc.compiler.emit import emit

                return emit(self.cutlass, self.manifest, self.source)
            case "header":
                from mucc.library.header import header_text

                return header_text(self.manifest)
            case "manifest":
                import json

                return json.dumps(self.manifest, indent=2) + "\n"
            case _:
                raise KeyError(kind)

    def parts(self) -> Parts:
        """The C++ of the program in the parts that are compiled apart."""
        from mucc.compiler.emit import emit_parts

        return emit_parts(self.cutlass, self.manifest)

    def interpret(self, kernel: str, inputs: Sequence[Any]) -> list[Any]:
        """What the language says a kernel computes: float64 arrays, one per result.

        `inputs` are arrays of NumPy or torch, one per parameter; scalars may be numbers. Those of sparse
        parameters may be packed or not.
        """
        from mucc.dialects.mu.interpreter import interpret_kernel

        found = next(k for k in self._kernels(self.mu) if k.sym_name.data == kernel)
        return interpret_kernel(found, _dense(found, inputs))

    def interpret_stages(self, kernel: str, inputs: Sequence[Any], *, rounds: int) -> list[Any]:
        """What the program makes of inputs once it is divided into stages, in float64.

        With `rounds` of 1 or -1 as device kernels round it: values between these, all that is computed, to
        f32, and what sums lose, with this sign. With 0 nothing is rounded.
        """
        from mucc.dialects.mu.interpreter import interpret_kernel
        from mucc.dialects.mu.roundings import ExactFunctions, OppositeFunctions, RoundedFunctions

        found = next(k for k in self._kernels(self.stages) if k.sym_name.data == kernel)
        functions = {0: ExactFunctions, 1: RoundedFunctions, -1: OppositeFunctions}[rounds]
        return interpret_kernel(found, _dense(found, inputs), functions)

    def interpret_lowered(self, kernel: str, inputs: Sequence[Any]) -> list[Any]:
        """What the fully lowered program computes, by interpretation of its device kernels."""
        from mucc.kernels.interpreter import interpret_program

        program = next(p for p in self._programs() if p.sym_name.data == kernel)
        return interpret_program(program, _dense(program, inputs))

    @staticmethod
    def _kernels(module: ModuleOp) -> list[KernelOp]:
        from mucc.dialects.mu.ops.kernel import KernelOp

        return [op for op in module.body.block.ops if isinstance(op, KernelOp)]

    def _programs(self) -> list[ProgramOp]:
        from mucc.dialects.cutlass.ops import ProgramOp

        return [op for op in self.cutlass.body.block.ops if isinstance(op, ProgramOp)]


def _dense(entry: EntryOp, inputs: Sequence[Any]) -> list[Any]:
    """Inputs as interpreters know them: sparse matrices with their zeros."""
    from mucc.dialects.mu.rules import is_sparse
    from mucc.library.sparse import densify, is_packed

    types = [arg.type for arg in entry.body.block.args]
    return [
        densify(value) if is_sparse(type) and is_packed(value) else value
        for type, value in zip(types, inputs, strict=False)
    ]


def schedule_text(
    programs: Sequence[ProgramOp], measured: Mapping[tuple[str, str], str] = MappingProxyType({})
) -> str:
    """The chosen schedules as source that can be pasted back, with a comment on each that was `measured`."""
    from mucc.kernels.registry import kind_of

    blocks: list[str] = []
    for program in programs:
        scheduled = [k for k in program.kernels if kind_of(k).has_schedule]
        for kernel in scheduled:
            name, stage = program.sym_name.data, kernel.stage.data
            origin = measured.get((name, stage))
            kind = kind_of(kernel)
            held = kind.schedule(kernel)
            settings = [s for s in kind.settings if not s.is_unset(s.of(held))]
            lines = [
                *([f"// measured: {origin}"] if origin else []),
                f"schedule {name if len(scheduled) == 1 else f'{name}.{stage}'} for {program.target.data} {{",
                *(f"    {s.name:<9} = {s.text(held[s.name])}" for s in settings),
                "}",
            ]
            blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def entries(module: ModuleOp) -> list[EntryOp]:
    """The kernels of a module, at whatever level it is."""
    from mucc.dialects.mu.entry import EntryOp

    return [op for op in module.body.block.ops if isinstance(op, EntryOp)]


@dataclass
class _Compiler:
    source: Source
    options: Options
    sink: DiagnosticSink = field(init=False)
    program: ast.Program = field(init=False)
    measured: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def run(self) -> Compilation:
        from mucc import frontend

        program, self.sink = frontend.parse(self.source)
        self.program = program
        self.sink.raise_if_errors()
        module = frontend.lower(program, self.sink)
        self.sink.raise_if_errors()
        if self.options.dims:
            from mucc.compiler.typical_dims import check_names

            check_names(entries(module), self.options.dims)
        mu = stages = module
        if self.options.keep_levels:
            mu = module.clone()
        select = self.select(module)
        if select:
            self.measured = select.used
        for step, level in pipeline(self.options.target, self.options.dims, select):
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

    def select(self, module: ModuleOp) -> SelectMeasured | None:
        """What chooses schedules where some were measured."""
        from mucc.measured.home import database_path

        if not self.options.tuned or not os.path.exists(database_path()):
            return None
        from mucc.measured.lookup import SelectMeasured

        return SelectMeasured.of(module, self.options.dims, self.sink)

    def step(self, step: Any, module: ModuleOp) -> None:
        """Apply a pass. Raises DiagnosticError where the program is at fault."""
        try:
            step.apply(None, module)
        except PassError as e:
            for finding in e.findings:
                self.sink.emit(self.diagnostic(finding))
            self.sink.raise_if_errors()

    def verify(self, level: Any, module: ModuleOp, after: str) -> None:
        try:
            level.verify(module)
        except LevelError as e:
            raise DiagnosticError(
                Diagnostic(
                    "MU9002",
                    f"after {after}: {e}",
                    span=self.span(e.op.location),
                    source=self.source,
                    helps=("this is a defect of mucc: please report it with the program",),
                )
            ) from e

    def show(self, name: str, module: ModuleOp) -> None:
        stream = self.options.print_ir_after_all
        if stream is not None and (not self.options.print_ir_after or name in self.options.print_ir_after):
            stream.write(f"// -----// IR after {name} //----- //\n{module!s}\n\n")

    def span(self, location: Attribute | None) -> Span | None:
        """The source range of an op's location: the expression that starts there, else one word."""
        if not isinstance(location, FileLineColLoc):
            return None
        start = self.source.offset(location.line.data, location.column.data)
        end = start + 1
        text = self.source.text
        while end < len(text) and (text[end].isalnum() or text[end] in "_."):
            end += 1
        return Span(start, end)

    def diagnostic(self, finding: Finding) -> Diagnostic:
        """A finding in terms of the source: at the schedule setting to blame, or at the expression."""
        setting = self.setting_span(finding)
        span = setting or self.span(finding.location)
        fixes: tuple[Fix, ...] = ()
        helps = finding.helps
        if finding.fix is not None and finding.setting is not None:
            text = f"{finding.setting} = {finding.fix}"
            if setting is not None:
                fixes = (Fix(setting, finding.fix, f"write `{text}`", Applicability.MACHINE_APPLICABLE),)
            else:
                helps = (*helps, f"write `{text}` in the schedule")
        message = finding.message
        if finding.function and span and (called := self.called_at(span)):
            message = message.replace(f"`{finding.function}`", f"`{called}`")
        return Diagnostic(
            finding.code,
            message,
            span=span,
            notes=(*finding.notes, *self.unwritten(finding)),
            helps=helps,
            fixes=fixes,
            source=self.source,
        )

    def deepest(self) -> Span | None:
        """Where the value is that most operations precede; None where the program does not get so far."""
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
        return self.span(most[1].location) if most[1] else None

    def called_at(self, span: Span) -> str | None:
        """The function that the program calls at an expression."""
        text = self.source.text
        name = text[span.start : span.end]
        return name if name.isidentifier() and text[span.end :].lstrip()[:1] == "(" else None

    def unwritten(self, finding: Finding) -> tuple[str, ...]:
        """Notes on the settings that a finding speaks of and the program does not set: who chose them."""
        said = " ".join((finding.message, *finding.notes))
        is_measured = (finding.kernel, finding.stage) in self.measured
        who = "measured by `mucc tune`" if is_measured else "the compiler's choice"
        return tuple(
            f"`{name} = {SETTINGS[name].text(value)}` is {who}: the program does not set it"
            for name, value in finding.settings.items()
            if (name == finding.setting or _speaks_of(said, SETTINGS[name].mentions(value)))
            and self.setting_span(finding._replace(setting=name)) is None
        )

    def setting_span(self, finding: Finding) -> Span | None:
        """Where the program sets the value to blame: the stage's schedule first, then the kernel's."""
        if finding.setting is None:
            return None
        for stage in (finding.stage, None):
            for schedule in self.program.schedules:
                pinned = schedule.stage.text if schedule.stage else None
                place = (schedule.kernel.text, pinned, schedule.target.text)
                if place != (finding.kernel, stage, self.options.target):
                    continue
                for setting in schedule.settings:
                    if setting.name.text == finding.setting:
                        return setting.value.span
        return None


def _speaks_of(text: str, forms: Iterable[str]) -> bool:
    """Whether a message names a value by one of its forms, such as `pingpong` or `128x64x64`."""
    return any(re.search(rf"(?<![\w.]){re.escape(form)}(?!\w)", text) for form in forms if len(form) > 2)


def check_language(source: Source) -> tuple[Diagnostic, ...]:
    """What the language says of a source, whether it has kernels or not: its warnings.

    Raises DiagnosticError where the program has errors.
    """
    from mucc import frontend

    program, sink = frontend.parse(source)
    sink.raise_if_errors()
    frontend.lower(program, sink)
    sink.raise_if_errors()
    return tuple(sink.diagnostics)


def front_text(source: Source, kind: str) -> str:
    """The `ast` or the `mu` of a source, though later passes might refuse it.

    Raises DiagnosticError where the program has errors up to that level, KeyError for another kind.
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
    """Compile a source through every pass.

    Raises DiagnosticError with everything found where the program has errors.
    """
    compiler = _Compiler(source, options or Options())
    try:
        return compiler.run()
    except RecursionError:
        raise too_deep(source, compiler.deepest()) from None


def too_deep(source: Source | None = None, span: Span | None = None) -> DiagnosticError:
    """MU2011: some part of mucc walks along values that depend on each other, and came to no end."""
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
