"""The keys of the cache: hashes of all that decides what an entry holds.

The key of a request holds fingerprints, which are file sizes and times, for speed. Every other key
holds contents and versions and no path or time, so that a cache directory can be copied to another
machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mucc.files.digest import Part, digest, files_below, tree_contents
from mucc.files.package import PACKAGE
from mucc.version import __version__


def content_key(level: str, *parts: Part) -> str:
    """The key of an entry of `level` that is decided by `parts` and by this version of mucc.

    The parts must hold everything that shapes the bytes: texts, flags, versions of the tools. They
    must not hold paths or times, or the entry is not found on another machine.
    """
    return digest(level, __version__, *parts)


def request_key(source: bytes, flags: tuple[str, ...], toolchain: tuple[str, ...]) -> str:
    """The key of a request. `toolchain` is `Toolchain.fingerprint()`."""
    return content_key("requests", package_fingerprint(), flags, toolchain, source)


def package_fingerprint() -> str:
    """Changes when a file of the installed mucc does; made from names, sizes and times."""
    return digest(*(f"{path} {size} {time}" for path, size, time in sorted(files_below(PACKAGE))))


_COMMENT = re.compile(r"^[ \t]*//.*\n|^[ \t]*\n", re.MULTILINE)
_PROVENANCE = re.compile(r'"(?:(?:source|source_hash)": *"[^"]*"|typical": *\{[^}]*\}),? *')


def artefact_key(
    ir: str, code: str, flags: tuple[str, ...], versions: tuple[str, ...], headers: Sequence[str]
) -> str:
    """The key of an artefact.

    `ir` is the canonical IR, `code` the emitted C++, `headers` the folders of mucc's own headers. Comment
    lines of the code and the file name in its manifest do not count: an artefact's manifest names
    the text and the typical sizes that it was first made from.
    """
    return content_key("artefacts", *_built(ir, code, flags, headers), versions)


def makers_key(ir: str, code: str, flags: tuple[str, ...], headers: Sequence[str]) -> str:
    """The key of what is known of the toolchains that made an artefact; arguments as `artefact_key`'s."""
    return content_key("makers", *_built(ir, code, flags, headers))


def _built(ir: str, code: str, flags: tuple[str, ...], headers: Sequence[str]) -> tuple[Part, ...]:
    """All that decides an artefact but the toolchain."""
    ir, code = (_PROVENANCE.sub("", text) for text in (ir, _COMMENT.sub("", code)))
    return ir, code, flags, tree_contents(*headers)
