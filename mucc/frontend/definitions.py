"""The names that a kernel or a function defines: each once, none of them a type, and all of them used."""

from __future__ import annotations

from collections.abc import Collection

from mucc.dialects.mu.types import DTYPES
from mucc.frontend import ast
from mucc.frontend.context import Context


def defined_twice(context: Context, what: str, name: ast.Ident, first: ast.Ident) -> None:
    """Report a second definition of a name."""
    context.error(
        "MU1003",
        f"the {what} '{name.text}' is defined twice",
        name.span,
        labels=((first.span, "first defined here"),),
        helps=("give each its own name",),
    )


class Definitions:
    """The definition of each dim, parameter and value, in order."""

    def __init__(self, context: Context):
        self.context = context
        self.names: dict[str, ast.Ident] = {}

    def add(self, what: str, name: ast.Ident) -> None:
        """Add a definition; report a name that is taken, or that is a type."""
        first = self.names.setdefault(name.text, name)
        if first is not name:
            defined_twice(self.context, what, name, first)
        elif name.text in DTYPES:
            self.context.error(
                "MU1019",
                f"'{name.text}' is a type and cannot name a {what}",
                name.span,
                helps=("choose another name",),
            )

    def warn_unused(self, used: Collection[str], params: Collection[str], values: Collection[str]) -> None:
        """Warn of parameters and values that are not used, but those whose names begin with `_`."""
        for name, ident in self.names.items():
            if name in used or name.startswith("_"):
                continue
            help_ = f"remove it, or call it '_{name}' to keep it"
            if name in params:
                self.context.warn("MU1013", f"the parameter '{name}' is never used", ident.span, help_)
            elif name in values:
                self.context.warn("MU1014", f"the value '{name}' is never used", ident.span, help_)
