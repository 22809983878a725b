"""From a program's bytes to the file that the toolchain makes of it, through the cache.

This is what `mucc FILE -o OUT`, `mucc run` and `mucc.compile` share. A program is built from parts (see
`mucc.build.toolchain.assembly`), of which those that take long are rarely new; or, where that was asked for
or cannot be, by one nvcc that compiles everything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from mucc.build.cache import Cache, Entry, artefact_key, makers_key, request_key
from mucc.build.toolchain.discover import MISSING, Toolchain, find_toolchain, present_versions
from mucc.build.toolchain.flags import Kind, ambient_flags, flags
from mucc.compiler.program import compile_source, placed
from mucc.compiler.source import decode
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity
from mucc.files.package import HEADERS
from mucc.library.checksum import seal

if TYPE_CHECKING:
    from mucc.build.pool import Pool
    from mucc.build.toolchain.nvcc import Built
    from mucc.compiler.driver import Compilation
    from mucc.compiler.emit import Parts


@dataclass(frozen=True, slots=True)
class Request:
    """A program to be built, and how.

    `data` is the source text in UTF-8 and `name` what it is called in messages. `nvcc` is the path of
    an nvcc or of a CUDA toolkit; with `plain` nvcc compiles the program in one piece; `timeout` is in seconds
    for each step; `save_temps` is a directory; `print_ir` gets the IR after every pass, or after those in
    `print_after`; `dims` are typical values of open dims, which schedules are chosen for, and with `tuned`
    measured ones are taken. With `save_temps` the compilers run even where the result is known: only then
    there is something to save.
    """

    data: bytes
    name: str
    kind: Kind = "so"
    target: str = "sm_90a"
    nvcc: str | None = None
    plain: bool = False
    cached: bool = True
    timeout: float | None = None
    verbose: bool = False
    save_temps: str | None = None
    print_ir: TextIO | None = None
    print_after: tuple[str, ...] = ()
    dims: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    tuned: bool = True

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


def build(
    request: Request,
    progress: Callable[[str], None] = lambda text: None,
    pool: Pool | Callable[[], Pool] | None = None,
) -> Artefact:
    """Build a program, or find it built. `progress` gets a line before something slow.

    What has to run goes through `pool`, or through one for this build alone, which a function may make.
    Where a part of the toolchain is missing, what any toolchain with the other parts has made will do.
    Raises DiagnosticError: errors in the program before those of the toolchain.
    """
    missing: DiagnosticError | None = None
    toolchain: Toolchain | None = None
    try:
        toolchain = find_toolchain(request.nvcc)
    except DiagnosticError as error:
        missing = error
    decisive = decisive_flags(request)
    cache = Cache() if request.cached else None
    key = ""
    if cache and toolchain:
        hints = tuple(f"{name}={value}" for name, value in request.dims.items())
        key = request_key(request.data, (*decisive, *hints, *_measurements(request)), toolchain.fingerprint())
        if not request.save_temps and not request.print_ir and (entry := cache.find_request(key)):
            warnings = entry.warnings and placed(entry.warnings, decode(request.data, request.name))
            return Artefact(entry.data, (*warnings, *cache.problems), cached=True)

    if toolchain and not request.plain:
        # What compiles pointwise work gets ready while the program goes through the compiler.
        from mucc.build.toolchain import nvrtc_worker

        nvrtc_worker.shared.start()
    source = decode(request.data, request.name)
    compilation = compile_source(
        source, request.target, request.print_ir, request.print_after, dims=request.dims, tuned=request.tuned
    )
    if request.save_temps:
        _save_texts(compilation, request.save_temps, request.stem)
    said = tuple(compilation.sink.diagnostics)
    if toolchain is None:
        if entry := cache and _made_before(request, compilation, cache, missing):
            return Artefact(entry.data, placed((*said, *entry.warnings), source), cached=True)
        raise missing or AssertionError("there is a toolchain, or a reason why not")
    builder = _Builder(request, compilation, toolchain, cache, progress, pool)
    made, artefact = builder.artefact()
    if cache:
        cache.store_request(key, artefact, said)
    warnings = placed((*said, *made.warnings), source)
    return Artefact(made.data, (*warnings, *(cache.problems if cache else ())), cached=made.cached)


def _measurements(request: Request) -> tuple[str, ...]:
    """What measured schedules a request would take: changes when one is added; none where there are none."""
    from mucc.database.home import fingerprint

    return fingerprint() if request.tuned else ()


def _made_before(
    request: Request, compilation: Compilation, cache: Cache, missing: DiagnosticError | None
) -> Entry | None:
    """What a toolchain has made that has all parts of the present one, where parts of it are missing."""
    if request.save_temps or not missing or any(d.code not in MISSING for d in missing.diagnostics):
        return None
    texts = _decisive_texts(request, compilation, None if request.plain else compilation.parts())
    return cache.find_made(makers_key(*texts, HEADERS), present_versions(request.nvcc))


def _decisive_texts(
    request: Request, compilation: Compilation, parts: Parts | None
) -> tuple[str, str, tuple[str, ...]]:
    """What decides an artefact beside the toolchain and mucc's headers: IR, C++, flags."""
    code = parts.text if parts else compilation.emit("cu")
    return compilation.cache_text, code, decisive_flags(request)


def decisive_flags(request: Request) -> tuple[str, ...]:
    """What decides the result besides the program and the toolchain."""
    way = "plain" if request.plain else "parts"
    return (request.kind, request.target, way, *flags(request.kind, request.target), *ambient_flags())


@dataclass(frozen=True, slots=True)
class _Builder:
    """Makes one artefact."""

    request: Request
    compilation: Compilation
    toolchain: Toolchain
    cache: Cache | None
    progress: Callable[[str], None]
    pool: Pool | Callable[[], Pool] | None

    def artefact(self) -> tuple[Artefact, str]:
        """Find or make the artefact; with its key in the cache."""
        request = self.request
        parts = None if request.plain else self.compilation.parts()
        fresh = False

        def make() -> Entry:
            nonlocal fresh
            fresh = True
            self._check()
            with self._pool() as pool:
                built = self._from_parts(parts, pool) if parts else self._plain(pool)
            data = seal(built.data) if request.kind == "so" else built.data
            return Entry(data, built.warnings)

        if self.cache is None:
            entry, key = make(), ""
        else:
            texts = _decisive_texts(request, self.compilation, parts)
            versions = self.toolchain.versions()
            key = artefact_key(*texts, versions, HEADERS)
            waiting = f"another mucc is compiling the same as {request.name}: waiting for it"
            entry = self.cache.build(
                "artefacts",
                key,
                make,
                fresh=request.save_temps is not None,
                waiting=lambda: self.progress(waiting),
            )
            self.cache.add_maker(makers_key(*texts, HEADERS), versions, key)
        return Artefact(entry.data, entry.warnings, cached=not fresh), key

    def _check(self) -> None:
        """Raise MU5112 where the parts of the toolchain do not fit together."""
        from mucc.build.toolchain.release import inconsistency

        if found := inconsistency(self.toolchain.nvcc):
            raise DiagnosticError(found)

    def _pool(self) -> AbstractContextManager[Pool]:
        from mucc.build.pool import Pool

        if isinstance(self.pool, Pool):
            return contextlib.nullcontext(self.pool)
        return self.pool() if self.pool else Pool(verbose=self.request.verbose)

    def _from_parts(self, parts: Parts, pool: Pool) -> Built:
        from mucc.build.toolchain.assembly import Assembly, Unspliceable

        request = self.request
        assembly = Assembly(
            self.toolchain,
            request.target,
            request.name,
            pool,
            self.cache,
            timeout=request.timeout,
            keep=request.save_temps,
            ahead=self.pool is pool,
        )
        try:
            if request.kind == "so":
                return assembly.build(parts)
            if len(parts.images) == 1:
                return assembly.image(parts.images[0], ptx=request.kind == "ptx")
        except Unspliceable as error:
            built = self._plain(pool)
            note = Diagnostic(
                "MU5209",
                f"this program takes the full build by nvcc, about a minute: {error}",
                severity=Severity.WARNING,
                helps=("--plain-nvcc asks for that build, without this warning",),
            )
            return dataclasses.replace(built, warnings=(note, *built.warnings))
        return self._plain(pool)

    def _plain(self, pool: Pool) -> Built:
        from mucc.build.toolchain import nvcc

        request = self.request
        return nvcc.build(
            self.compilation.emit("cu"),
            request.kind,
            self.toolchain,
            pool,
            target=request.target,
            program=request.name,
            name=request.stem if request.save_temps else "kernel",
            timeout=request.timeout,
            save_temps=request.save_temps,
        )


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
