"""`mucc.compile` and `mucc.check`: the compiler, called from Python."""

from __future__ import annotations

import atexit
import dataclasses
import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity, Source
from mucc.files.atomic import replace_file
from mucc.files.process_lock import ProcessLock
from mucc.library.errors import MuccError
from mucc.process import reaper
from mucc.runtime.module import Module, load
from mucc.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from mucc.build.artefact import Artefact
    from mucc.build.pool import Outcome, Pool
    from mucc.compiler.typical_dims import Given


class CompileError(MuccError):
    """The program has errors, or the toolchain failed. `diagnostics` holds all, the text shows them."""

    def __init__(self, diagnostics: Sequence[Diagnostic]):
        from mucc.diagnostics.render import render_text

        errors = [d for d in diagnostics if d.severity is Severity.ERROR] or list(diagnostics)
        super().__init__(errors[0].code, errors[0].message)
        self.diagnostics = tuple(diagnostics)
        self._text = "\n".join(render_text(d) for d in diagnostics).rstrip()

    def __str__(self) -> str:
        return f"the program does not compile\n\n{self._text}"


class MuccWarning(UserWarning):
    """What the compiler warned about."""


def compile(
    text: str,
    target: str = DEFAULT_TARGET,
    cache: bool = True,
    *,
    name: str = "<string>",
    dims: Given = None,
) -> Module:
    """Compile a program for a GPU and load it: kernels are attributes of the module, called with tensors.

    `target` is an architecture, such as `sm_90a`. A program that was compiled before comes from the cache;
    with `cache=False` it is compiled again, and not kept. `name` is what messages call it; `dims` are
    typical values of open dims, to choose schedules for: the library serves every size. A list of such, or a
    range (`{"M": "1..4096"}`), gives kernels several schedules, of which calls take one by their dims. Raises
    `CompileError` with every error found, and what `load` raises; warnings come as `MuccWarning`.
    """
    from mucc.build.artefact import Request, build
    from mucc.compiler.typical_dims import sizes_of

    try:
        sizes = sizes_of(dims)
        artefact = build(Request(text.encode(), name, "so", target, cached=cache, sizes=sizes))
    except DiagnosticError as error:
        raise CompileError(error.diagnostics) from None
    for diagnostic in artefact.warnings:
        warnings.warn(str(diagnostic), MuccWarning, stacklevel=2)
    return _loaded(artefact.data)


_Key = tuple[str, tuple[tuple[str, int | str], ...], str]


class Programs:
    """Programs that are compiled beside the caller, as cores and memory of the machine allow.

    A context: when it is left, all that was begun has ended; by an exception, it is cancelled.
    """

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._begun: dict[_Key, Iterator[Outcome[Artefact]]] = {}
        self._built: dict[_Key, Artefact | CompileError] = {}
        self._made: dict[_Key, Module | CompileError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._pool is not None:
            self._pool.__exit__(*error)

    @property
    def compiles(self) -> bool:
        """Whether something is not in the cache, and is being compiled."""
        return self._pool is not None and self._pool.compiles

    def begin(self, text: str, dims: Mapping[str, int | str], target: str = DEFAULT_TARGET) -> None:
        """Begin to compile a program for typical values of its dims, or ranges of them, once.

        Values that break a promise of a kernel are left out.
        """
        from mucc.build.artefact import Request, build
        from mucc.build.pool import Pool
        from mucc.compiler.typical_dims import sizes_of

        key = text, tuple(sorted(dims.items())), target
        if key in self._begun:
            return
        if self._pool is None:
            self._pool = Pool().__enter__()
        pool = self._pool

        def make(request: Request) -> Artefact:
            try:
                return build(request, pool=pool)
            except DiagnosticError as error:
                if not dims or error.diagnostics[0].code != "MU6052":
                    raise
                return build(dataclasses.replace(request, sizes=()), pool=pool)

        request = Request(text.encode(), "<torch.compile>", "so", target, sizes=sizes_of(dims))
        self._begun[key] = pool.map(make, [request])

    def get(
        self, text: str, dims: Mapping[str, int | str], target: str = DEFAULT_TARGET
    ) -> Module | CompileError:
        """Wait for a program; returns its library, loaded, or what is wrong with it.

        Raises what is no error of a program, such as `load` raises.
        """
        key = text, tuple(sorted(dims.items())), target
        if key not in self._made:
            built = self.built(text, dims, target)
            self._made[key] = built if isinstance(built, CompileError) else _loaded(built.data)
        return self._made[key]

    def built(
        self, text: str, dims: Mapping[str, int | str], target: str = DEFAULT_TARGET
    ) -> Artefact | CompileError:
        """Wait for a program; returns its library as a file, or what is wrong with it."""
        self.begin(text, dims, target)
        key = text, tuple(sorted(dims.items())), target
        if key not in self._built:
            try:
                self._built[key] = next(self._begun[key]).get()
            except DiagnosticError as error:
                self._built[key] = CompileError(error.diagnostics)
        return self._built[key]


def _loaded(library: bytes) -> Module:
    # The name goes with the contents, so the same program is one library to the process.
    name = f"{hashlib.sha256(library).hexdigest()[:16]}.so"
    try:
        with _writing.held():  # so that a thread finds no half of what another one writes
            path = _folder() / name
            if not path.exists():
                replace_file(str(path), library)
    except OSError as error:
        message = f"cannot keep a compiled library in a temporary directory: {error}"
        helps = ("set TMPDIR to a directory that can be written",)
        raise CompileError([Diagnostic("MU5107", message, helps=helps)]) from None
    return load(path)


_writing = ProcessLock()


def check(
    text: str, target: str = DEFAULT_TARGET, *, name: str = "<string>", dims: Given = None
) -> tuple[Diagnostic, ...]:
    """Find all errors and warnings of a program that can be found without nvcc.

    The arguments are those of `compile`. Returns an empty tuple where the program is good; errors are
    returned, too, and not raised.
    """
    from mucc.build.artefact import compile_source
    from mucc.compiler.typical_dims import sizes_of

    try:
        compilation = compile_source(Source(name, text), target, sizes=sizes_of(dims))
        compilation.emit("cutlass")
    except DiagnosticError as error:
        return error.diagnostics
    return tuple(compilation.sink.diagnostics)


@once
def _folder() -> Path:
    """Where this process keeps the libraries that it compiled; it goes with the process, however that ends.

    Raises OSError.
    """
    kept = ExitStack()
    folder = kept.enter_context(reaper.temporary_folder(tempfile.gettempdir()))
    atexit.register(kept.close)
    return Path(folder)


os.register_at_fork(after_in_child=_folder.cache_clear)
