"""From a module of `cutlass.program`s to one readable `.cu` file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation

from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import DeviceKernelOp, GemmOp, MapOp, ProgramOp, ReduceOp
from mucc.dialects.mu.elementwise import ElementwiseOp
from mucc.target.cuda.gemm import Gemm, kernel_header
from mucc.target.cuda.host import host_side, workspace_struct
from mucc.target.cuda.memory import EmissionError, Places
from mucc.target.cuda.names import Namer, comment_text, raw_string_literal, words
from mucc.target.cuda.pointwise import pointwise_kernel

# What the functions around a kernel define themselves; a dim of the same name is renamed.
_LOCALS = words("c m n k l op Op arguments memo offsets scratch Workspace describe run scratch_bytes Kernel")

_PROGRAM_NAMES = words("args dims promises launch workspace Workspace scratch failed need c d")


def emit(module: ModuleOp, manifest: Mapping[str, object], source: Source | None = None) -> str:
    """The `.cu` text of all programs of a module.

    `manifest` is embedded as JSON. With `source`, the comment over each kernel quotes the lines that it
    came from. Raises EmissionError for IR that the passes before should not have let through.
    """
    module = _decomposed(module)
    programs = [op for op in module.body.block.ops if isinstance(op, ProgramOp)]
    namer = Namer()
    name = source.name if source is not None else str(manifest.get("source", "FILE.mcu"))
    parts = [_header(name, manifest, programs), "\n".join(_includes(programs))]
    parts += [_program(p, namer(p.sym_name.data), source) for p in programs]
    text = json.dumps(manifest, ensure_ascii=True, separators=(", ", ": "))
    parts.append(f"MUCC_MODULE({raw_string_literal(text, 'manifest')})")
    return "\n\n".join(parts) + "\n"


def _decomposed(module: ModuleOp) -> ModuleOp:
    """The module with composite activations rewritten, should some be left."""
    if not any(isinstance(op, ElementwiseOp) and op.COMPOSITE for op in module.walk()):
        return module
    from mucc.passes.decompose import Decompose

    clone = module.clone()
    Decompose().apply(Context(), clone)
    return clone


def _header(name: str, manifest: Mapping[str, object], programs: list[ProgramOp]) -> str:
    version = manifest.get("mucc", "")
    targets = sorted({p.target.data for p in programs})
    return (
        f"// Made by `mucc {comment_text(name)} --emit=cu` (mucc {version}) for {', '.join(targets)}.\n"
        "// Change the source, not this file."
    )


def _includes(programs: list[ProgramOp]) -> Iterator[str]:
    kernels = [op for p in programs for op in p.kernels]
    gemms = [op for op in kernels if isinstance(op, GemmOp)]
    yield "#include <mucc/host.h>"
    if gemms:
        yield "#include <mucc/gemm.cuh>"
        yield from (f"#include <{header}>" for header in sorted({kernel_header(op) for op in gemms}))
    if any(isinstance(op, MapOp) for op in kernels):
        yield "#include <mucc/map.cuh>"
    if any(isinstance(op, ReduceOp) for op in kernels):
        yield "#include <mucc/reduce.cuh>"


def _program(program: ProgramOp, name: str, source: Source | None) -> str:
    dims = Namer(_LOCALS)
    places = Places(program, {d: dims(d) for d in program.dim_names})
    stages = Namer(_PROGRAM_NAMES)
    scope = f"mu::{name}"
    parts: list[str] = []
    if workspace := workspace_struct(program, places):
        parts.append(_namespace(scope, workspace))
    names: list[str] = []
    for op in program.kernels:
        names.append(stages(op.stage.data))
        parts.append(
            _kernel(op, places, f"{scope}::{names[-1]}", f"{program.sym_name.data}.{op.stage.data}", source)
        )
    parts.append(_namespace(scope, host_side(program, places, names)))
    tables = ", ".join(
        "mucc::none" if not present else f"{scope}::{table}"
        for table, present in (
            ("args", True),
            ("dims", program.dim_names),
            ("promises", program.promises is not None or program.requirements),
        )
    )
    parts.append(f"MUCC_KERNEL({program.sym_name.data}, {tables}, {scope}::launch, {scope}::workspace)")
    return "\n\n".join(parts)


def _kernel(op: DeviceKernelOp, places: Places, scope: str, title: str, source: Source | None) -> str:
    match op:
        case GemmOp():
            gemm = Gemm(op, places)
            lines, summary = gemm.kernel(), gemm.summary()
        case MapOp() | ReduceOp():
            lines = pointwise_kernel(op, places)
            shape = ", ".join(str(d) for d in op.extents)
            axes = f" over axes {list(op.axes.get_values())}" if isinstance(op, ReduceOp) else ""
            summary = f"{op.name.removeprefix('cutlass.')} of [{shape}]{axes}"
        case _:
            raise EmissionError(f"{op.name} has no emission")
    comment = [f"// {comment_text(title)}: {summary}", *_quotes(op, source)]
    return "\n".join(comment) + "\n" + _namespace(scope, lines)


def _namespace(name: str, lines: list[str]) -> str:
    extra = (
        ["namespace fusion = cutlass::epilogue::fusion;\n"] if any("fusion::Sm90" in x for x in lines) else []
    )
    return "\n".join([f"namespace {name} {{\n", *extra, *lines, "", f"}}  // namespace {name}"])


def _quotes(op: Operation, source: Source | None) -> Iterator[str]:
    """The source lines that a kernel came from."""
    lines = sorted({(loc.filename.data, loc.line.data) for inner in op.walk() if (loc := _location(inner))})
    for file, line in lines:
        quoted = source.line_text(line).strip() if source is not None and source.name == file else ""
        yield comment_text(f"//   {file}:{line}: {quoted}" if quoted else f"//   {file}:{line}")


def _location(op: Operation) -> FileLineColLoc | None:
    return op.location if isinstance(op.location, FileLineColLoc) else None
