"""Looking into the process that judges."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject, unsure
from mucc.agent.audit.frames import SHOWN
from mucc.agent.audit.observations import Observations

NAMES = ("mucc.agent", "__main__")
"""Modules that no solution has business with."""


class Harness:
    """Stacks, objects, and modules of the audit."""

    name = "harness"
    looks_at = "audit events of Python, and imports of the file"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if found := [one for one in seen.seen if one != SHOWN]:
            yield reject(self.name, f"the file {'; '.join(found)}", seen=found)
        elif seen.seen:
            yield unsure(
                self.name,
                f"the file {SHOWN}, which tells calls apart: leave out what makes text of the stack",
            )
        for line, name in _imports(seen.source):
            yield reject(self.name, f"reaches for '{name}' (line {line})", line=line)


def _imports(tree: ast.Module | None) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module)):
                found = [module]
            case ast.Constant(value=str(text)) if text == "__main__" or text.startswith("mucc.agent"):
                if not _is_main_guard(tree, node):
                    yield node.lineno, text
                continue
            case _:
                continue
        for name in found:
            if name == "__main__" or name.startswith("mucc.agent"):
                yield node.lineno, name


def _is_main_guard(tree: ast.Module | None, constant: ast.Constant) -> bool:
    """Whether a string belongs to `if __name__ == "__main__"`."""
    return any(
        isinstance(node, ast.If) and any(part is constant for part in ast.walk(node.test))
        for node in (tree.body if tree else ())
    )
