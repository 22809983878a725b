"""Show progress on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.build.progress import clock, is_terminal

__all__ = [
    "clock",
    "is_terminal",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.build.progress": ("clock", "is_terminal"),
    },
)
