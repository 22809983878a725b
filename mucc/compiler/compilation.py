"""A compiled source at several levels of the IR, the options of its compilation, and its entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from xdsl.dialects.builtin import ModuleOp

from mucc.diagnostics import DiagnosticSink, Source
from mucc.library.dims import Size
from mucc.library.errors import MuccRuntimeError
from mucc.library.manifest_json import ManifestJson
from mucc.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from mucc.compiler.emit import Parts
    from mucc.dialects.cutlass.ops import ProgramOp
    from mucc.dialects.mu.entry import EntryOp
    from mucc.dialects.mu.ops.kernel import KernelOp
    from mucc.frontend import ast
    from mucc.library.entries import Guard


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


@dataclass(frozen=True)
class Entry:
    """One entry of a kernel: the program, the compilation that it comes from, the sizes that it was made for.

    `guards` are boxes of sizes that it computes; the last entry of a kernel has none and takes the rest.
    """

    program: ProgramOp
    compilation: Compilation
    sizes: tuple[Mapping[str, int], ...]
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Entries:
    """All entries of a kernel, the last for whatever no guard takes."""

    kernel: str
    entries: tuple[Entry, ...]


@dataclass
class Compilation:
    """A compiled program: its IR at each level of lowering, and methods that emit or interpret it."""

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

                return graph(self.stages, self.programs, self.options.target, self.options.dims)
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
        Raises MuccError, with the codes of calls, for arguments that do not fit.
        """
        from mucc.dialects.mu.interpreter import MuFunctions, interpret_kernel
        from mucc.dialects.mu.roundings import ExactFunctions

        op = self._called(self.mu, kernel, inputs)
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

        op = self._called(self.stages, kernel, inputs)
        if not bounded:
            return interpret_kernel(op, _dense(op, inputs), ExactFunctions)
        program = self.entry(kernel, [getattr(x, "shape", ()) for x in inputs])
        meaning = partial(BoundedFunctions, unstored=program.unstored_stages)
        return interpret_kernel(op, _dense(op, inputs), meaning)

    def interpret_lowered(self, kernel: str, inputs: Sequence[Any]) -> list[Any]:
        """Interpret the fully lowered program, device kernel by device kernel."""
        from mucc.kernels.interpreter import interpret_program

        self._called(self.mu, kernel, inputs)
        program = self.entry(kernel, [getattr(x, "shape", ()) for x in inputs])
        return interpret_program(program, _dense(program, inputs))

    def entry(self, kernel: str, shapes: Sequence[Sequence[int]]) -> ProgramOp:
        """Return the lowered program that a call of a kernel runs for inputs of these shapes."""
        programs = [p for p in self.programs if p.kernel_name == kernel]
        if len(programs) == 1:
            return programs[0]
        from mucc.library.signature import Manifest

        info = next(k for k in Manifest.parse(self.manifest).kernels if k.name == kernel)
        return programs[info.entry(info.bind(shapes))]

    @staticmethod
    def _called(module: ModuleOp, kernel: str, inputs: Sequence[Any]) -> KernelOp:
        """Return the kernel of a name. Raises MU6037 where there is none, MU6040 for other inputs."""
        from mucc.dialects.mu.interpreter import check_count
        from mucc.dialects.mu.ops.kernel import KernelOp

        found = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, KernelOp)}
        if kernel not in found:
            raise MuccRuntimeError(
                "MU6037", f"the program has no kernel '{kernel}', it has {', '.join(found)}"
            )
        check_count(found[kernel], inputs)
        return found[kernel]

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
