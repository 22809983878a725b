"""Cache keys: hashes of all inputs of an entry.

For speed, the key of a request is made from fingerprints, which are file sizes and times. All other keys are
made from contents and versions, without paths and times, so that a cache directory can be copied to another
machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from mucc.files.digest import Part, digest, files_below, tree_contents
from mucc.files.package import PACKAGE
from mucc.version import __version__


def content_key(level: str, *parts: Part) -> str:
    """Compute the key of an entry of `level` from its inputs `parts` and the version of mucc.

    `parts` must have everything that determines the bytes: texts, flags, versions of tools. They must not
    have paths or times, or other machines cannot find the entry.
    """
    return digest(level, __version__, *parts)


def request_key(source: bytes, flags: tuple[str, ...], toolchain: tuple[str, ...]) -> str:
    """Compute the key of a request. `toolchain` is `Toolchain.fingerprint()`."""
    return content_key("requests", package_fingerprint(), flags, toolchain, source)


def package_fingerprint() -> str:
    """Compute a fingerprint of the installed mucc from names, sizes and times of its files."""
    return digest(*(f"{path} {size} {time}" for path, size, time in sorted(files_below(PACKAGE))))


@cache
def loaded_fingerprint() -> str:
    """Return the fingerprint of the mucc that this process runs: that of the first call."""
    return package_fingerprint()


_COMMENT = re.compile(r"^[ \t]*//.*\n|^[ \t]*\n", re.MULTILINE)
_PROVENANCE = re.compile(r'"(?:(?:source|source_hash)": *"[^"]*"|typical": *\{[^}]*\}),? *')


def artefact_key(
    ir: str, code: str, flags: tuple[str, ...], versions: tuple[str, ...], headers: Sequence[str]
) -> str:
    """Compute the key of an artefact.

    `ir` is the canonical IR, `code` the emitted C++, `headers` the folders of mucc's own headers. Comment
    lines of the code, and file name and typical dims in the manifest, are ignored: the manifest of a cached
    artefact has those of its first build.
    """
    return content_key("artefacts", *_built(ir, code, flags, headers), versions)


def makers_key(ir: str, code: str, flags: tuple[str, ...], headers: Sequence[str]) -> str:
    """Compute the key of the list of toolchains that built an artefact; arguments as for `artefact_key`."""
    return content_key("makers", *_built(ir, code, flags, headers))


def _built(ir: str, code: str, flags: tuple[str, ...], headers: Sequence[str]) -> tuple[Part, ...]:
    """Return the inputs of an artefact besides the toolchain."""
    ir, code = (_PROVENANCE.sub("", text) for text in (ir, _COMMENT.sub("", code)))
    return ir, code, flags, tree_contents(*headers)
