"""Emit C++ for a module of `cutlass.program`s: one readable `.cu` file, or parts for separate compilation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mucc.codegen.body import bodies_source
from mucc.codegen.kernel_code import ENTRY, KernelCode, Skeleton, SkeletonCode
from mucc.codegen.lines import directed, marked, marking
from mucc.codegen.memory import Places
from mucc.codegen.names import Namer, comment_text, raw_string_literal, words
from mucc.codegen.texts import Texts
from mucc.compiler.host import (
    dispatcher,
    functions,
    host_side,
    launches_lists,
    shared_promises,
    workspace_struct,
)
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.locations import places_of
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.kernels.registry import kind_of

# Names that the functions around a kernel define; a dim of the same name is renamed.
_LOCALS = words(
    """
    c p op Op Work to arguments skeleton stage code codes image offsets scratch Workspace describe run fill
    run_list calls count scratch_bytes Kernel
    """
)

_PROGRAM_NAMES = words(
    "args dims promises launch launch_each calls count workspace Workspace scratch failed need c d"
)


def emit(
    module: ModuleOp, manifest: Mapping[str, object], source: Source | None = None, *, lines: bool = False
) -> str:
    """Emit the `.cu` text of all programs of a module.

    `manifest` is embedded as JSON. With `source`, the comment above each kernel quotes its source lines; with
    `lines`, too, `#line` directives lead from kernels to it.
    Raises EmissionError for IR that earlier passes should have rejected.
    """
    module = _decomposed(module)
    programs = _programs(module)
    name = source.name if source is not None else str(manifest.get("source", "FILE.mcu"))
    stages = _SingleFile(source)
    with marking(lines and source is not None):
        texts = _program_texts(programs, stages)
    includes = "\n".join(_includes(stages.codes))
    parts = [_header(name, manifest, programs), includes, *texts]
    parts.append(f"MUCC_MODULE({raw_string_literal(manifest_text(manifest), 'manifest')})")
    text = "\n\n".join(parts) + "\n"
    return directed(text, os.path.abspath(name), OWN_NAME) if lines and source is not None else text


def manifest_text(manifest: Mapping[str, object]) -> str:
    """Print a manifest as JSON, as a library embeds it."""
    return json.dumps(manifest, ensure_ascii=True, separators=(", ", ": "))


OWN_NAME = "kernel.cu"
"""What directives call the file with the C++ itself."""


@dataclass(frozen=True, slots=True)
class Divided:
    """A source in two parts: a skeleton with markers, and the bodies that belong there.

    The names of the skeleton's kernels begin with `ENTRY`. With `straight`, bodies that have branches are not
    spliced: all is compiled in one piece.
    """

    skeleton: str
    bodies: str
    straight: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """The device code of one stage: `source` alone, or a `skeleton` with the bodies in `source`.

    `title` is the name of the stage in messages, and `entry` the name of its kernel, or the common prefix of
    its kernels. `source` is C++ without CUTLASS; for bodies, it has one kernel `mucc_body_<i>` for each.
    Without `skeleton`, `divided` may hold the same code as `source` in two parts, and `kernels` are the names
    of kernels that are assembled apart, each to device code with a symbol of its own.
    """

    title: str
    symbol: str
    source: str
    entry: str
    skeleton: Skeleton | None = None
    divided: Divided | None = None
    kernels: tuple[str, ...] = ()

    @property
    def symbols(self) -> dict[str, str]:
        """The symbols of device code, each with the name of its kernel, or "" where it has all kernels."""
        return {f"{self.symbol}_{i}": kernel for i, kernel in enumerate(self.kernels)} or {self.symbol: ""}


@dataclass(frozen=True, slots=True)
class Parts:
    """A module in separately compiled parts; `program` is host C++ without CUTLASS, linked with the rest."""

    program: str
    manifest: str
    images: tuple[Image, ...]

    @property
    def skeletons(self) -> tuple[Skeleton, ...]:
        """The skeletons in use, without duplicates."""
        return tuple({i.skeleton.symbol: i.skeleton for i in self.images if i.skeleton}.values())

    @property
    def text(self) -> str:
        """The text of all parts, for cache keys."""
        devices = [text for s in self.skeletons for text in (s.device, s.host)]
        return "\n".join([self.program, self.manifest, *devices, *(i.source for i in self.images)])


def emit_parts(module: ModuleOp, manifest: Mapping[str, object]) -> Parts:
    """Emit a module in parts. Raises EmissionError, as `emit` does."""
    module = _decomposed(module)
    stages = _SeparateImages()
    texts = _program_texts(_programs(module), stages)
    names = [f"extern {s.type} const {s.symbol};" for s in stages.skeletons]
    names += [f"extern unsigned char const {symbol}[];" for i in stages.images for symbol in i.symbols]
    headers = ["#include <mucc/program.h>", *(f"#include <{h}>" for h in sorted(stages.headers))]
    head = "\n".join([*headers, "", 'extern "C" {', *names, "}"])
    return Parts("\n\n".join([head, *texts]) + "\n", manifest_text(manifest), tuple(stages.images))


def _programs(module: ModuleOp) -> list[ProgramOp]:
    return [op for op in module.body.block.ops if isinstance(op, ProgramOp)]


def _decomposed(module: ModuleOp) -> ModuleOp:
    """Decompose composite activations that are left in a module."""
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


def _includes(codes: list[KernelCode]) -> Iterator[str]:
    headers = [h for code in codes if (h := code.headers) is not None]
    yield from (f"#define {macro}" for macro in sorted({m for h in headers for m in h.defines}))
    yield "#include <mucc/launch.h>"
    yield from (
        f"#include <{header}>" for header in sorted({h for code in codes for h in code.launch_headers})
    )
    yield from (f"#include <{header}>" for header in sorted({h.host for h in headers}))
    yield from (f"#include <{header}>" for header in sorted({m for h in headers for m in h.more}))
    yield from (f"#include <{header}>" for header in sorted({h.kernel for h in headers}))
    yield from (
        f"#include <{header}>" for header in sorted({h for code in codes for h in code.light_headers})
    )


class _StageWriter(Protocol):
    """Interface of writers of device kernels, one stage at a time."""

    def write(self, op: DeviceKernelOp, places: Places, scope: str, entry: str) -> str: ...


@dataclass
class _SingleFile(_StageWriter):
    """Writer of all code in one file, for reading and for nvcc."""

    source: Source | None
    codes: list[KernelCode] = field(default_factory=list[KernelCode])

    def write(self, op: DeviceKernelOp, places: Places, scope: str, entry: str) -> str:
        code = kind_of(op).code(op, places)
        self.codes.append(code)
        title = f"{places.program.sym_name.data}.{op.stage.data}"
        comment = [f"// {comment_text(title)}: {code.summary()}", *_quotes(op, self.source)]
        with_lines = marked(_namespace(scope, code.kernel(entry)), _line(op))
        return "\n".join([*comment, with_lines])


class _ImageEntry(NamedTuple):
    """The C++ name of a stage's image or array of images, and the prefix of its kernels' names there."""

    image: str
    entry: str


@dataclass
class _SeparateImages(_StageWriter):
    """Writer of host code that refers to separate device images, which it collects.

    Stages whose kernels differ in names only share the image of the first.
    """

    images: list[Image] = field(default_factory=list[Image])
    skeletons: dict[Skeleton, None] = field(default_factory=dict[Skeleton, None])
    headers: set[str] = field(default_factory=set[str])
    """Headers for launching kernels, besides <mucc/program.h>."""
    _codes: dict[tuple[str, str], _ImageEntry] = field(default_factory=dict[tuple[str, str], _ImageEntry])

    def write(self, op: DeviceKernelOp, places: Places, scope: str, entry: str) -> str:
        written = kind_of(op).code(op, places, canonical=True)
        self.headers.update(written.launch_headers)
        if (texts := written.texts(entry)) is not None:
            return self._write_without_cutlass(op, places, scope, written, texts, entry)
        assert isinstance(written, SkeletonCode)
        skeleton = written.skeleton()
        self.skeletons[skeleton] = None
        source = bodies_source(dict(enumerate(written.bodies)))
        code, own = self._image_entry(op, places, scope, source, entry, skeleton)
        table = f'mucc::Code code{{"{code.entry}", &{code.image}}};'
        return _namespace(scope, [*own, table, "", *written.launch(skeleton.symbol)])

    def _write_without_cutlass(
        self, op: DeviceKernelOp, places: Places, scope: str, written: KernelCode, texts: Texts, entry: str
    ) -> str:
        """Write a stage whose kernels need no CUTLASS."""
        head = f"#include <{written.device_header}>"
        divided = None
        if apart := texts.apart:
            skeleton = _named(f"{head}\n\n{texts.skeleton}\n", entry, ENTRY)
            divided = Divided(skeleton, bodies_source(apart), texts.straight)
        source = f"{head}\n\n{texts.device}\n"
        kernels = texts.kernels if texts.has_several_images else ()
        code, own = self._image_entry(op, places, scope, source, entry, divided=divided, kernels=kernels)
        if code.entry != entry:
            renamed = written.texts(code.entry)
            assert renamed is not None
            texts = renamed
        return _namespace(scope, [*own, texts.data, "", texts.codes(code.image), "", texts.launch])

    def _image_entry(
        self,
        op: DeviceKernelOp,
        places: Places,
        scope: str,
        source: str,
        entry: str,
        skeleton: Skeleton | None = None,
        divided: Divided | None = None,
        kernels: tuple[str, ...] = (),
    ) -> tuple[_ImageEntry, list[str]]:
        """Return the image of a stage, and the lines that define the image unless an equal stage did."""
        key = (_named(source, entry, ""), skeleton.symbol if skeleton else "")
        if (equal := self._codes.get(key)) is not None:
            return equal, []
        symbol = f"mucc_image_{len(self.images)}"
        title = f"{places.program.sym_name.data}.{op.stage.data}"
        image = Image(title, symbol, source, entry, skeleton, divided, kernels)
        self.images.append(image)
        self._codes[key] = _ImageEntry(f"::{scope}::image", entry)
        each = ", ".join(f"{{{symbol}}}" for symbol in image.symbols)
        defined = f"image[] = {{{each}}}" if kernels else f"image{each}"
        return _ImageEntry("image", entry), [f"mucc::Image {defined};"]


def _named(source: str, entry: str, name: str) -> str:
    """Replace the prefix `entry` of kernels' names by `name`."""
    return re.sub(rf"\b{entry}(?![A-Za-z0-9])", name, source)


def _program_texts(programs: list[ProgramOp], stages: _StageWriter) -> list[str]:
    namer, entries = Namer(), Namer()
    texts: list[str] = []
    families: dict[str, list[tuple[ProgramOp, str]]] = {}
    for program in programs:
        name = namer(program.sym_name.data)
        texts.append(_program(program, name, stages, entries))
        if program.entry_of is not None:
            families.setdefault(program.kernel_name, []).append((program, f"mu::{name}"))
    for kernel, family in families.items():
        scope = f"mu::{namer(f'{kernel}_by_size')}"
        texts.append(_family(kernel, [p for p, _ in family], [s for _, s in family], scope))
    return texts


def _program(program: ProgramOp, name: str, stages: _StageWriter, entries: Namer) -> str:
    slots = (f"slot{i}" for i in range(len(program.slots or ())))
    dims = Namer({*_LOCALS, *slots, "end"})
    places = Places(program, {d: dims(d) for d in program.dim_names})
    namer = Namer(_PROGRAM_NAMES)
    scope = f"mu::{name}"
    parts: list[str] = []
    if workspace := workspace_struct(program, places):
        parts.append(_namespace(scope, workspace))
    names: list[str] = []
    for op in program.kernels:
        names.append(namer(op.stage.data))
        inner = f"{scope}::{names[-1]}"
        entry = entries(f"mu_{program.sym_name.data}_{op.stage.data}")
        parts.append(stages.write(op, places, inner, entry))
    if program.entry_of is not None:
        return "\n\n".join([*parts, _namespace(scope, functions(program, places, names))])
    parts.append(_namespace(scope, host_side(program, places, names, namer)))
    each = ""
    if program.is_each:
        each = f", true, {f'{scope}::launch_each' if launches_lists(program) else 'nullptr'}"
    parts.append(_kernel(program, program.sym_name.data, scope, bool(shared_promises([program])), each))
    return "\n\n".join(parts)


def _family(kernel: str, entries: list[ProgramOp], scopes: list[str], scope: str) -> str:
    """Emit the doors of a kernel with several entries, which choose one for each call."""
    table = _namespace(scope, dispatcher(entries, scopes))
    doors = _kernel(entries[-1], kernel, scope, bool(shared_promises(entries)))
    return "\n\n".join([table, doors, f"MUCC_ENTRIES({kernel}, {scope}::entry)"])


def _kernel(program: ProgramOp, name: str, scope: str, has_promises: bool, each: str = "") -> str:
    """Emit the doors of a kernel whose tables and functions are in a namespace."""
    tables = ", ".join(
        "mucc::none" if not present else f"{scope}::{table}"
        for table, present in (("args", True), ("dims", program.dim_names), ("promises", has_promises))
    )
    return f"MUCC_KERNEL({name}, {tables}, {scope}::launch, {scope}::workspace{each})"


def _namespace(name: str, lines: list[str]) -> str:
    extra = ["namespace fusion = cutlass::epilogue::fusion;\n"] if any("fusion::" in x for x in lines) else []
    return "\n".join([f"namespace {name} {{\n", *extra, *lines, "", f"}}  // namespace {name}"])


def _line(op: DeviceKernelOp) -> int | None:
    """Return the line of a kernel: that of its own location, else the first of what is in it."""
    places = (place for inner in op.walk() for place in places_of(inner.location))
    first = next(places_of(op.location), None) or min(places, key=lambda p: p.line.data, default=None)
    return None if first is None else first.line.data


def _quotes(op: Operation, source: Source | None) -> Iterator[str]:
    """Yield comments that quote the source lines of a kernel."""
    places = (place for inner in op.walk() for place in places_of(inner.location))
    lines = sorted({(place.filename.data, place.line.data) for place in places})
    for file, line in lines:
        quoted = source.line_text(line).strip() if source is not None and source.name == file else ""
        yield comment_text(f"//   {file}:{line}: {quoted}" if quoted else f"//   {file}:{line}")
