"""What the values of a problem's inputs have in common: triangles, symmetry, constants, by looking at some.

The inputs of the file at small sizes are made twice, with different random numbers. What holds for both, and
for matrices that are not tiny, is a property of `get_inputs()` and no accident.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from mucc.analysis.structure import GENERAL, Pattern, Structure
from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer.capture import Captured, torch
from mucc.torch.importer.problem import OpenedProblem, fake_tensors
from mucc.torch.importer.request import Request
from mucc.torch.importer.scale import scaled

SMALL = ((32, 4), (64, 8), (128, 16))
"""The largest numbers, and batches, of a file at the sizes that are tried, in their order."""

MOST = 1 << 26
"""Bytes of inputs that are still made."""

TELLING = 4
"""The least extent of a matrix in which zeros are no accident."""

SEEDS = (1, 2)


def structures(request: Request, tree: ast.Module, captured: Captured) -> dict[str, Structure]:
    """Return the structure of the arguments of a graph, by their names there; general ones are left out."""
    for limit, batch in SMALL:
        smaller = scaled(tree, limit, batch)
        try:
            if _fake_bytes(request, smaller) > MOST:
                return {}
            samples = [_leaves(request, smaller, seed) for seed in SEEDS]
        except DiagnosticError:
            continue
        found = [_common(values) for values in zip(*samples, strict=True)]
        return {
            name: found[given.position]
            for name, given in captured.inputs.items()
            if given.is_argument and given.position < len(found) and found[given.position] != GENERAL
        }
    return {}


def _leaves(request: Request, tree: ast.Module, seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return torch.utils._pytree.tree_leaves(list(OpenedProblem(request, tree).inputs()))


def _fake_bytes(request: Request, tree: ast.Module) -> int:
    """Return the bytes of the inputs of a problem file, without making the inputs."""
    with fake_tensors():
        leaves = _leaves(request, tree, SEEDS[0])
    return sum(t.numel() * t.element_size() for t in leaves if isinstance(t, torch.Tensor))


def _common(values: Sequence[Any]) -> Structure:
    first, *others = map(structure_of, values)
    return first if all(first == other for other in others) else GENERAL


def structure_of(value: Any) -> Structure:
    """Return the structure of one tensor of floats; GENERAL of anything else."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() < TELLING**2:
        return GENERAL
    first = value.flatten()[0]
    if bool((value == first).all()):
        return Structure(constant=float(first))
    if value.dim() < 2 or min(value.shape[-2:]) < TELLING:
        return GENERAL
    upper, lower = torch.equal(value, value.triu()), torch.equal(value, value.tril())
    if upper or lower:
        return Structure(Pattern.DIAGONAL if upper and lower else Pattern.UPPER if upper else Pattern.LOWER)
    is_square = value.shape[-1] == value.shape[-2]
    return Structure(Pattern.SYMMETRIC) if is_square and torch.equal(value, value.mT) else GENERAL
