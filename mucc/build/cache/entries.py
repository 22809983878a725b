"""The file format of cache entries, with checksums, and counters of hits and misses."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mucc.diagnostics.core import Diagnostic
from mucc.files.digest import FORMAT

LEVELS = {
    "requests": "which artefact a text with its flags led to",
    "artefacts": "what is handed out: .so, cubin, PTX",
    "makers": "which toolchains made an artefact",
    "device": "PTX of skeletons, and of attention's kernels without score functions",
    "host": "host objects of skeletons",
    "objects": "small host objects: glue, support run time",
    "headers": "precompiled headers, used in place",
    "graphs": "graphs of torch.compile whose kernels were built",
}
"""The levels by name, each a folder in the cache, with descriptions."""

SUFFIX = ".mucc"
"""The suffix of all files of a cache, so that its directory may have other files."""

_MAGIC = FORMAT.encode() + b" "
_HEADER = len(_MAGIC) + 64


class Entry(NamedTuple):
    """An entry: the bytes, the warnings of their build, and further JSON values."""

    data: bytes
    warnings: tuple[Diagnostic, ...] = ()
    fields: Mapping[str, object] = MappingProxyType({})


def entry_path(directory: str, level: str, key: str) -> str:
    """Return the path of an entry. Raises ValueError for an unknown level or a malformed key."""
    if level not in LEVELS or len(key) != 64:
        raise ValueError(f"no level or no key: {level} {key}")
    return os.path.join(directory, level, key[:2], key[2:] + SUFFIX)


def pack(level: str, key: str, entry: Entry) -> bytes:
    """Serialise an entry to the bytes of its file."""
    line = b""
    if entry.warnings or entry.fields:
        import json

        from mucc.diagnostics.render import to_json

        values = {"warnings": [to_json(w) for w in entry.warnings], "fields": dict(entry.fields)}
        line = json.dumps(values).encode()
    body = line + b"\n" + entry.data
    return _MAGIC + _checksum(level, key, body) + b"\n" + body


def unpack(level: str, key: str, data: bytes) -> Entry | None:
    """Parse an entry's file; None if it is damaged or the entry of another key."""
    body = memoryview(data)[_HEADER + 1 :]
    if data[: _HEADER + 1] != _MAGIC + _checksum(level, key, body) + b"\n":
        return None
    end = data.index(b"\n", _HEADER + 1)
    if end == _HEADER + 1:
        return Entry(data[end + 1 :])
    import json

    from mucc.diagnostics.render import from_json

    values: dict[str, Any] = json.loads(data[_HEADER + 1 : end])
    return Entry(data[end + 1 :], tuple(from_json(w) for w in values["warnings"]), values["fields"])


def _checksum(level: str, key: str, body: bytes | memoryview) -> bytes:
    """Compute a checksum of key and body; with the key, a misplaced file is not taken for an entry."""
    state = hashlib.blake2b(f"{level}/{key}\n".encode(), digest_size=32)
    state.update(body)
    return state.hexdigest().encode()


def count(directory: str, level: str, what: str) -> None:
    """Increment a counter by appending a byte to its file, which is safe with several processes."""
    with contextlib.suppress(OSError), open(_counter(directory, level, what), "ab", buffering=0) as file:
        file.write(b".")


def counted(directory: str, level: str, what: str) -> int:
    """Return the value of a counter since the cache was cleared."""
    try:
        return os.path.getsize(_counter(directory, level, what))
    except OSError:
        return 0


def _counter(directory: str, level: str, what: str) -> str:
    return os.path.join(directory, level, what + SUFFIX)
