"""Reading sources, and writing files whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.compiler.files import check_output, read_bytes, read_source, write_output
    from mucc.compiler.source import decode
    from mucc.files.atomic import replace_file
    from mucc.files.json_text import json_text

__all__ = [
    "check_output",
    "decode",
    "json_text",
    "read_bytes",
    "read_source",
    "replace_file",
    "write_output",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.compiler.files": ("check_output", "read_bytes", "read_source", "write_output"),
        "mucc.compiler.source": ("decode",),
        "mucc.files.atomic": ("replace_file",),
        "mucc.files.json_text": ("json_text",),
    },
)
