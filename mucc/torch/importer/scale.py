"""Problem files at smaller sizes: the same program with its module-level numbers reduced, for a CPU.

Sizes hang together in ways that only the file knows (heads divide channels, kernels fit into images), so
several ways of reducing are tried, from the smallest sizes up, until one runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

BATCH = ("batch", "bs", "num_samples")
"""Words in the names of numbers that are best very small."""

LIMITS = (
    (8, 2),
    (8, 8),
    (16, 2),
    (16, 16),
    (24, 4),
    (32, 4),
    (32, 32),
    (64, 8),
    (128, 8),
    (256, 16),
    (512, 16),
)
"""The largest number that stays as it is, and the same for batches, in the order in which they are tried."""


def constants(tree: ast.Module) -> dict[str, int]:
    """Return the whole numbers, by name, that a file assigns at its top level."""
    found: dict[str, int] = {}
    for node in tree.body:
        for name, value in _assigned(node):
            if isinstance(value, ast.Constant) and type(value.value) is int:
                found[name] = value.value
    return found


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for name, value in zip(target.elts, node.value.elts, strict=False):
                    if isinstance(name, ast.Name):
                        yield name.id, value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value


def reduced(value: int, limit: int) -> int:
    """Return a number of about `limit` at most: halved while that is exact, else cut; odd stays odd."""
    while value > limit and value % 2 == 0:
        value //= 2
    return value if value <= limit else limit - 1 + (limit + value) % 2


class _Reduce(ast.NodeTransformer):
    """Reduces whole numbers in what a file assigns at its top level."""

    def __init__(self, limit: int):
        self.limit = limit

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if type(node.value) is int and node.value > self.limit:
            return ast.copy_location(ast.Constant(reduced(node.value, self.limit)), node)
        return node


def scaled(tree: ast.Module, limit: int, batch: int) -> ast.Module:
    """Return the file with numbers above a limit reduced, those called as a batch to at most `batch`."""
    import copy

    tree = copy.deepcopy(tree)
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        names = [name for name, _ in _assigned(node)]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple) and len(names) > 1:
            node.value.elts = [
                _Reduce(_limit(n, limit, batch)).visit(v) for n, v in zip(names, node.value.elts, strict=True)
            ]
        elif names:
            node.value = _Reduce(_limit(names[0], limit, batch)).visit(node.value)
    return tree


def _limit(name: str, limit: int, batch: int) -> int:
    return batch if any(word in name.lower() for word in BATCH) else limit


def scalings(tree: ast.Module) -> Iterator[ast.Module]:
    """Yield the file at smaller sizes, the smallest first, and at last as it is."""
    for limit, batch in LIMITS:
        yield scaled(tree, limit, batch)
    yield tree
