"""Files that tools may name: those within one folder."""

from __future__ import annotations

import os

from mucc.api.diagnostics import Diagnostic, DiagnosticError


class Places:
    """A folder, which all paths are relative to, and which none may leave."""

    def __init__(self, root: str):
        self.root = os.path.realpath(root)
        if not os.path.isdir(self.root):
            raise DiagnosticError(Diagnostic("MU5010", f"there is no folder '{root}'"))

    def inside(self, path: str) -> str:
        """Return the path as commands that work in the folder take it. Links are followed before it is
        judged.

        Raises MU7251 where it leads out of the folder.
        """
        if not path or "\0" in path:
            raise DiagnosticError(Diagnostic("MU7251", f"{path!r} names no file"))
        found = os.path.realpath(os.path.join(self.root, path))
        if found != self.root and not found.startswith(os.path.join(self.root, "")):
            helps = (
                "give a path relative to it, or start the server with another --root",
                "a program may also be given as text: `source`",
            )
            message = f"'{path}' lies outside of the folder that this server works in"
            raise DiagnosticError(Diagnostic("MU7251", message, helps=helps))
        # With ./ no name is taken for an option, nor - for stdin.
        return os.path.join(".", os.path.relpath(found, self.root))
