"""Generate names that are unique in a program and differ from reserved words, dtypes and functions."""

from __future__ import annotations

import re

from mucc.dialects.mu.types import DTYPES
from mucc.frontend.exprgen import INFINITY
from mucc.frontend.functions import FUNCTIONS
from mucc.frontend.lexer import KEYWORDS


class Names:
    """Generator of unique names for one scope."""

    def __init__(self, *taken: str) -> None:
        self.taken: set[str] = {*KEYWORDS, *DTYPES, *FUNCTIONS, INFINITY, *taken}
        self.counts: dict[str, int] = {}
        """The next number to try behind a name: those below are taken."""

    def new(self, wanted: str) -> str:
        """Return `wanted` as a legal name, with a number at its end if the name is taken."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", wanted).lstrip("_") or "v"
        if base[0].isdigit():
            base = f"v{base}"
        name, count = base, self.counts.get(base, 1)
        while name in self.taken:
            name, count = f"{base}{'_' if base[-1].isdigit() else ''}{count}", count + 1
        self.taken.add(name)
        self.counts[base] = count
        return name
