"""From a program's bytes to the file that nvcc makes of it, through the cache.

This is what `mucc FILE -o OUT`, `mucc run` and `mucc.compile` share.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from mucc.cache import Cache, Entry, artefact_key, request_key
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.program import compile_source, placed
from mucc.seal import seal
from mucc.source import decode
from mucc.toolchain.discover import SUPPORT_INCLUDE, Toolchain, find_toolchain
from mucc.toolchain.flags import Kind, ambient_flags, flags

if TYPE_CHECKING:
    from mucc.driver import Compilation


@dataclass(frozen=True, slots=True)
class Request:
    """A program to be built, and how.

    `data` is the source text in UTF-8 and `name` what it is called in messages. `nvcc` is the path of
    an nvcc or of a CUDA toolkit; `timeout` is in seconds; `save_temps` is a directory; `print_ir`
    gets the IR after every pass, or after those in `print_after`. With `save_temps` nvcc runs even
    where the result is known: only then there is something to save.
    """

    data: bytes
    name: str
    kind: Kind = "so"
    target: str = "sm_90a"
    nvcc: str | None = None
    cached: bool = True
    timeout: float | None = None
    verbose: bool = False
    save_temps: str | None = None
    print_ir: TextIO | None = None
    print_after: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """The name without directory and suffix, for the files that a build leaves behind."""
        stem = os.path.splitext(os.path.basename(self.name))[0]
        return re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII).strip("_.-") or "kernel"


@dataclass(frozen=True, slots=True)
class Artefact:
    """A built file: its bytes, the warnings, and whether it came from the cache."""

    data: bytes
    warnings: tuple[Diagnostic, ...]
    cached: bool


def build(request: Request, progress: Callable[[str], None] = lambda text: None) -> Artefact:
    """Build a program, or find it built. `progress` gets a line before something slow.

    Raises DiagnosticError: errors in the program before those of the toolchain.
    """
    missing: DiagnosticError | None = None
    toolchain: Toolchain | None = None
    try:
        toolchain = find_toolchain(request.nvcc)
    except DiagnosticError as error:
        missing = error
    decisive = (request.kind, request.target, *flags(request.kind, request.target), *ambient_flags())
    cache = Cache() if request.cached else None
    key = ""
    if cache and toolchain:
        key = request_key(request.data, decisive, toolchain.fingerprint())
        if not request.save_temps and not request.print_ir and (entry := cache.find_request(key)):
            warnings = entry.warnings and placed(entry.warnings, decode(request.data, request.name))
            return Artefact(entry.data, (*warnings, *cache.problems), cached=True)

    source = decode(request.data, request.name)
    compilation = compile_source(source, request.target, request.print_ir, request.print_after)
    if request.save_temps:
        _save_texts(compilation, request.save_temps, request.stem)
    if toolchain is None:
        raise missing or AssertionError("there is a toolchain, or a reason why not")
    said = tuple(compilation.sink.diagnostics)
    made, artefact = _artefact(request, compilation, decisive, toolchain, cache, progress)
    if cache:
        cache.store_request(key, artefact, said)
    warnings = placed((*said, *made.warnings), source)
    return Artefact(made.data, (*warnings, *(cache.problems if cache else ())), cached=made.cached)


def _artefact(
    request: Request,
    compilation: Compilation,
    decisive: tuple[str, ...],
    toolchain: Toolchain,
    cache: Cache | None,
    progress: Callable[[str], None],
) -> tuple[Artefact, str]:
    """Find or make what nvcc makes; with its key in the cache."""
    from mucc.toolchain import nvcc

    code = compilation.emit("cu")
    made: nvcc.Built | None = None

    def make() -> Entry:
        nonlocal made
        progress(f"compiling {request.name} with nvcc; a kernel that is new takes about a minute")
        made = nvcc.build(
            code,
            request.kind,
            toolchain,
            target=request.target,
            name=request.stem if request.save_temps else "kernel",
            timeout=request.timeout,
            verbose=request.verbose,
            save_temps=request.save_temps,
        )
        data = seal(made.data) if request.kind == "so" else made.data
        return Entry(data, made.warnings)

    if cache is None:
        entry, key = make(), ""
    else:
        versions = toolchain.versions()
        key = artefact_key(compilation.cache_text, code, decisive, versions, SUPPORT_INCLUDE)
        waiting = f"another mucc is compiling the same as {request.name}: waiting for it"
        fresh = request.save_temps is not None
        entry = cache.build(key, make, fresh=fresh, waiting=lambda: progress(waiting))
    return Artefact(entry.data, entry.warnings, cached=made is None), key


def _save_texts(compilation: Compilation, directory: str, stem: str) -> None:
    """Leave the levels of IR behind; nvcc's step adds the C++."""
    try:
        os.makedirs(directory, exist_ok=True)
        for kind in ("mu", "stages", "cutlass"):
            with open(os.path.join(directory, f"{stem}.{kind}.mlir"), "w", encoding="utf-8") as file:
                file.write(compilation.emit(kind))
    except OSError as error:
        message = f"cannot keep temporary files in '{directory}': {error.strerror}"
        raise DiagnosticError(Diagnostic("MU5014", message)) from error
