"""What `mucc run` and `mucc bench` call: one kernel of a file, with a value for each of its dims."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mucc.compiler import files

if TYPE_CHECKING:
    from mucc.cli.reporting import Reporter
    from mucc.compiler.compilation import Compilation
    from mucc.diagnostics.core import Source
    from mucc.library.signature import KernelInfo


class Subject(NamedTuple):
    """A kernel of a compiled program."""

    data: bytes
    """The bytes of the file."""
    source: Source
    compilation: Compilation
    info: KernelInfo
    dims: dict[str, int]


def compiled_subject(
    path: str, target: str, kernel: str | None, words: list[str], reporter: Reporter
) -> Subject:
    """Compile a file for a target as far as no tool is needed; `words` are the values of `--dims`.

    Raises DiagnosticError, also for dims that are missing, unknown, or against a promise of the kernel.
    """
    from mucc.build.artefact import compile_source
    from mucc.compiler.source import decode
    from mucc.library.dims import parse_dims
    from mucc.library.signature import Manifest
    from mucc.measure.dims import check_promises, choose_kernel, complete_dims

    given = parse_dims(words)
    data = files.read_bytes(path)
    source = decode(data, path)
    compilation = compile_source(source, target)
    reporter.add(compilation.sink.diagnostics, source)
    info = choose_kernel(Manifest.parse(compilation.emit("manifest")), kernel)
    dims = complete_dims(info, given)
    check_promises(info, dims)
    return Subject(data, source, compilation, info, dims)
