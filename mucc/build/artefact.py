"""Build a program to an artefact (`.so`, PTX or cubin), through the cache.

`mucc FILE -o OUT`, `mucc run` and `mucc.compile` use it. A program is built from parts, of which the slow
ones are mostly in the cache (see `mucc.build.toolchain.assembly`). On request, or where parts cannot be
combined, one run of nvcc compiles the whole program.
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
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity, Source
from mucc.files.package import HEADERS
from mucc.library.checksum import seal
from mucc.library.dims import Size
from mucc.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from mucc.build.pool import Pool
    from mucc.build.toolchain.nvcc import Built
    from mucc.compiler.compilation import Compilation
    from mucc.compiler.emit import Parts


@dataclass(frozen=True, slots=True)
class Request:
    """A program to build, with options.

    `data` is the source text in UTF-8 and `name` its name in messages. `nvcc` is the path of nvcc or of a
    CUDA toolkit; with `plain`, nvcc compiles the program in one piece; `timeout` is in seconds for each step;
    `save_temps` is a directory for intermediate files, and makes the compilers run even if the result is
    cached; `print_ir` gets the IR after every pass, or after those in `print_after`. Schedules are chosen for
    `dims`, typical values of open dims; with `sizes` in their place, kernels may have several schedules. With
    `tuned`, measured schedules take precedence. With `lines`,
    machine code leads back to lines of the program; nvcc then compiles it in one piece, since parts are
    shared by programs with other lines. `host` is the host that a library is for, one of
    `mucc.build.toolchain.flags.HOSTS`, and this machine where it is empty.
    """

    data: bytes
    name: str
    kind: Kind = "so"
    target: str = DEFAULT_TARGET
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
    lines: bool = False
    host: str = ""
    sizes: tuple[Size, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nvcc compiles the program in one piece."""
        return self.plain or self.lines

    @property
    def stem(self) -> str:
        """The name without directory and suffix, for names of intermediate files."""
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
    """Build a program, or find it in the cache. `progress` gets a line before a slow step.

    Jobs run in `pool`, which may be a function that makes a pool; without it, in a pool for this build. If a
    part of the toolchain is missing, a cached artefact of any toolchain with the present parts is returned.
    Raises DiagnosticError: errors in the program before those of the toolchain.
    """
    missing: DiagnosticError | None = None
    toolchain: Toolchain | None = None
    try:
        toolchain = find_toolchain(request.nvcc, request.host)
    except DiagnosticError as error:
        missing = error
    decisive = decisive_flags(request)
    cache = Cache() if request.cached else None
    key = ""
    if cache and toolchain:
        hints = tuple(f"{name}={value}" for name, value in request.dims.items())
        sizes = tuple(f"{dict(size.dims)} {size.is_sample}" for size in request.sizes if size.dims)
        decisive = (*decisive, *hints, *sizes, *_measurements(request))
        key = request_key(request.data, decisive, toolchain.fingerprint())
        if not request.save_temps and not request.print_ir and (entry := cache.find_request(key)):
            warnings = entry.warnings and placed(entry.warnings, decode(request.data, request.name))
            return Artefact(entry.data, (*warnings, *cache.problems), cached=True)

    if toolchain and not request.whole:
        # The process with NVRTC starts up while the passes run.
        from mucc.build.toolchain import nvrtc_worker

        nvrtc_worker.shared.start()
    source = decode(request.data, request.name)
    compilation = _compiled(request, source)
    if request.save_temps:
        _save_texts(compilation, request.save_temps, request.stem)
    frontend_warnings = tuple(compilation.sink.diagnostics)
    if toolchain is None:
        if entry := cache and _find_built(request, compilation, cache, missing):
            return Artefact(entry.data, placed((*frontend_warnings, *entry.warnings), source), cached=True)
        raise missing or AssertionError("there is a toolchain, or a reason why not")
    builder = _Builder(request, compilation, toolchain, cache, progress, pool)
    made, artefact = builder.artefact()
    if cache:
        cache.store_request(key, artefact, frontend_warnings)
    warnings = placed((*frontend_warnings, *made.warnings), source)
    return Artefact(made.data, (*warnings, *(cache.problems if cache else ())), cached=made.cached)


def build_into(request: Request, directory: str, pool: Pool) -> Artefact:
    """Build a program, or find it in the cache, and store it in another cache too, as `build` finds it there.

    On a machine that lacks parts of the toolchain, `build` takes it from that cache (`MUCC_CACHE_SHARED`).
    Raises DiagnosticError, also MU5203 where the other cache cannot be written.
    """
    toolchain = find_toolchain(request.nvcc)
    source = decode(request.data, request.name)
    compilation = _compiled(request, source)
    builder = _Builder(request, compilation, toolchain, Cache(), lambda text: None, pool)
    made, key = builder.artefact()
    other = Cache(directory, shared=())
    other.store("artefacts", key, Entry(made.data, made.warnings))
    texts = _decisive_texts(request, compilation, None if request.whole else compilation.parts())
    other.add_maker(makers_key(*texts, HEADERS), toolchain.versions(), key)
    if other.problems:
        raise DiagnosticError(other.problems)
    return made


def _compiled(request: Request, source: Source) -> Compilation:
    return compile_source(
        source,
        request.target,
        request.print_ir,
        request.print_after,
        dims=request.dims,
        tuned=request.tuned,
        sizes=request.sizes,
    )


def _measurements(request: Request) -> tuple[str, ...]:
    """Return a fingerprint of the tuning database; empty without measurements."""
    from mucc.database.home import fingerprint

    return fingerprint() if request.tuned else ()


def _find_built(
    request: Request, compilation: Compilation, cache: Cache, missing: DiagnosticError | None
) -> Entry | None:
    """Find an artefact built by another toolchain, for a machine that lacks parts of the toolchain."""
    if request.save_temps or not missing or any(d.code not in MISSING for d in missing.diagnostics):
        return None
    texts = _decisive_texts(request, compilation, None if request.whole else compilation.parts())
    return cache.find_made(makers_key(*texts, HEADERS), present_versions(request.nvcc, request.host))


def _decisive_texts(
    request: Request, compilation: Compilation, parts: Parts | None
) -> tuple[str, str, tuple[str, ...]]:
    """Return the parts of an artefact's key besides toolchain and headers: IR, C++, flags."""
    code = parts.text if parts else _whole_text(request, compilation)
    return compilation.cache_text, code, decisive_flags(request)


def _whole_text(request: Request, compilation: Compilation) -> str:
    """Return the C++ of a program that nvcc compiles in one piece."""
    return compilation.cu(lines=True) if request.lines else compilation.emit("cu")


def decisive_flags(request: Request) -> tuple[str, ...]:
    """Return the flags that determine the result besides program and toolchain."""
    way = "plain" if request.whole else "parts"
    lines = (os.path.abspath(request.name),) if request.lines else ()
    known = flags(request.kind, request.target, lines=request.lines)
    host = (request.host,) if request.host else ()
    return (request.kind, request.target, way, *known, *lines, *host, *ambient_flags())


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builder of one artefact."""

    request: Request
    compilation: Compilation
    toolchain: Toolchain
    cache: Cache | None
    progress: Callable[[str], None]
    pool: Pool | Callable[[], Pool] | None

    def artefact(self) -> tuple[Artefact, str]:
        """Find or build the artefact; returns it with its key in the cache."""
        request = self.request
        parts = None if request.whole else self.compilation.parts()
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
        """Raise MU5112 for a toolchain whose parts are of different releases."""
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
        if self.toolchain.cross and pool.remote:
            raise DiagnosticError(_only_here(self.toolchain.cross, "a cluster builds for its own"))
        assembly = Assembly(
            self.toolchain,
            request.target,
            request.name,
            pool,
            self.cache,
            timeout=request.timeout,
            keep=request.save_temps,
            ahead=self.pool is pool and not pool.remote,
        )
        try:
            if request.kind == "so":
                return assembly.build(parts)
            if len(parts.images) == 1:
                return assembly.image(parts.images[0], ptx=request.kind == "ptx")
        except Unspliceable as error:
            if self.toolchain.cross:
                raise DiagnosticError(_only_here(self.toolchain.cross, str(error))) from error
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
        if self.toolchain.cross and request.kind == "so":
            why = "nvcc compiles a whole program for the processor of this machine"
            raise DiagnosticError(_only_here(self.toolchain.cross, why))
        return nvcc.build(
            _whole_text(request, self.compilation),
            request.kind,
            self.toolchain,
            pool,
            target=request.target,
            program=request.name,
            name=request.stem if request.save_temps else "kernel",
            timeout=request.timeout,
            save_temps=request.save_temps,
            lines=request.lines,
        )


def _only_here(cross: str, why: str) -> Diagnostic:
    """Return MU5198 for a library for another host, of a build that has to be for this machine."""
    helps = ("leave out --plain-nvcc, --lineinfo and --ray", f"or build on a machine like {cross}")
    return Diagnostic("MU5198", f"this build cannot be for {cross}: {why}", helps=helps)


def _save_texts(compilation: Compilation, directory: str, stem: str) -> None:
    """Save the levels of IR in a directory; the step of nvcc adds the C++."""
    try:
        os.makedirs(directory, exist_ok=True)
        for kind in ("mu", "stages", "cutlass"):
            with open(os.path.join(directory, f"{stem}.{kind}.mlir"), "w", encoding="utf-8") as file:
                file.write(compilation.emit(kind))
    except OSError as error:
        message = f"cannot keep temporary files in '{directory}': {error.strerror}"
        raise DiagnosticError(Diagnostic("MU5014", message)) from error
