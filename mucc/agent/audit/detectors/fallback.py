"""Exceptions that are swallowed, with PyTorch in their place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, minor, reject
from mucc.agent.audit.observations import Observations


class Fallback:
    """`try` and `except` around the work: what the text says, and what happened."""

    name = "fallback"
    looks_at = "exceptions that calls raise and catch, and handlers in the file"

    def check(self, seen: Observations) -> Iterator[Finding]:
        raised = sorted({r for c in seen.calls for r in c.raised})
        if raised:
            places = ", ".join(f"{name} in line {line}" for line, name in raised)
            said, lines = f"calls raise and catch: {places}", [list(r) for r in raised]
            answered = seen.source is None or any(True for _ in handlers(seen.source))
            calls = [c.case.name for c in seen.calls if c.raised]
            if answered and len(calls) > 1:
                yield reject(self.name, said, cases=calls, raised=lines)
            else:
                yield minor(self.name, said, raised=lines)
            return
        for line, called in handlers(seen.source):
            said = f"line {line} would answer an exception with {called}; none was raised"
            yield minor(self.name, said, line=line)


def handlers(tree: ast.Module | None) -> Iterator[tuple[int, str]]:
    """Handlers of exceptions that call PyTorch or the module itself, but for those of constructors."""
    for function in _functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and (called := _computes(node)):
                yield node.lineno, called


def _functions(tree: ast.Module | None) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            yield node


def _computes(handler: ast.ExceptHandler) -> str:
    for node in (n for statement in handler.body for n in ast.walk(statement)):
        match node:
            case ast.Call(func=func):
                text = ast.unparse(func)
                if text.split(".")[0] in ("torch", "F", "nn", "self") and not text.startswith("torch.cuda"):
                    return f"{text}()"
            case ast.BinOp(op=ast.MatMult()):
                return "@"
            case _:
                pass
    return ""
