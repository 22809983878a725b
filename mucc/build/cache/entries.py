"""The files of a cache: entries with their checksums, and counters."""

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
    "device": "PTX of skeletons",
    "host": "host objects of skeletons",
    "objects": "small host objects: glue, support run time",
    "headers": "precompiled headers, used in place",
}
"""The levels, each a folder of this name in the cache, and what they hold."""

SUFFIX = ".mucc"
"""Of every file that is ours, so that a directory with other files can hold a cache."""

_MAGIC = FORMAT.encode() + b" "
_HEADER = len(_MAGIC) + 64


class Entry(NamedTuple):
    """An entry: the bytes, the warnings of what made them, and further values that JSON can hold."""

    data: bytes
    warnings: tuple[Diagnostic, ...] = ()
    fields: Mapping[str, object] = MappingProxyType({})


def entry_path(directory: str, level: str, key: str) -> str:
    """Where an entry lies. Raises ValueError for a level or a key that cannot be."""
    if level not in LEVELS or len(key) != 64:
        raise ValueError(f"no level or no key: {level} {key}")
    return os.path.join(directory, level, key[:2], key[2:] + SUFFIX)


def pack(level: str, key: str, entry: Entry) -> bytes:
    """The bytes of an entry's file."""
    line = b""
    if entry.warnings or entry.fields:
        import json

        from mucc.diagnostics.render import to_json

        values = {"warnings": [to_json(w) for w in entry.warnings], "fields": dict(entry.fields)}
        line = json.dumps(values).encode()
    body = line + b"\n" + entry.data
    return _MAGIC + _checksum(level, key, body) + b"\n" + body


def unpack(level: str, key: str, data: bytes) -> Entry | None:
    """The entry that is in a file; None where it is damaged, or is not the entry of this key."""
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
    """Covers the key too: a file under the name of another is no entry."""
    state = hashlib.blake2b(f"{level}/{key}\n".encode(), digest_size=32)
    state.update(body)
    return state.hexdigest().encode()


def count(directory: str, level: str, what: str) -> None:
    """Count by appending a byte: safe with several processes, and no file is ever rewritten."""
    with contextlib.suppress(OSError), open(_counter(directory, level, what), "ab", buffering=0) as file:
        file.write(b".")


def counted(directory: str, level: str, what: str) -> int:
    """What `count` came to since the cache was cleared."""
    try:
        return os.path.getsize(_counter(directory, level, what))
    except OSError:
        return 0


def _counter(directory: str, level: str, what: str) -> str:
    return os.path.join(directory, level, what + SUFFIX)
