"""The sizes at which a problem file is run on a CPU: small, but rounding must not decide its results.

Batch normalisation of two values gives 1 and -1, and rounding says which is which. At such sizes right
cannot be told from wrong.
"""

from __future__ import annotations

import ast
from contextlib import suppress

from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer.capture import Captured, capture, torch
from mucc.torch.importer.problem import guarded, load_problem
from mucc.torch.importer.request import BEARABLE, Request
from mucc.torch.importer.scale import scalings
from mucc.torch.importer.tolerance import SHRUNK, compared
from mucc.torch.importer.verify import Given, called, observed, observed_exactly
from mucc.torch.importer.work import Work, work_of

OPERATIONS = 3e9
MOVED = 4e8
"""Operations and bytes of what is still verified as it is: seconds on a CPU."""


def is_large(operations: float, moved: float) -> bool:
    """Whether work is too much to be verified as it is."""
    return bool(operations and moved) and (operations > OPERATIONS or moved > MOVED)


def smaller(request: Request, tree: ast.Module, *, steady: bool) -> ast.Module:
    """Return the file at the smallest sizes at which it can be captured; as it is if there are none.

    With `steady` these are sizes at which PyTorch's own error in f32 is acceptable, or where it is least
    if it is acceptable at none that a CPU can run.
    """
    *candidates, whole = scalings(tree)
    best: tuple[float, ast.Module] | None = None
    for candidate in candidates:
        with suppress(DiagnosticError):
            problem = load_problem(request, candidate)
            captured = capture(problem.module, problem.inputs)
            if not steady:
                return candidate
            if best and is_large(*_work(captured)):
                break
            if (noise := own_noise(request, candidate)) <= BEARABLE:
                return candidate
            if best is None or noise < best[0]:
                best = noise, candidate
    return best[1] if best else whole


def _work(captured: Captured) -> tuple[int, int]:
    done = sum((work_of(n) for n in captured.graph.nodes if n.op == "call_function"), Work())
    return done.operations, done.bytes


def own_noise(request: Request, tree: ast.Module) -> float:
    """Return the largest error of PyTorch's own results over their rms; 0 if it is not known.

    Results that are 0 but for rounding do not count: they are that at any size. Raises DiagnosticError for
    what the file raises.
    """
    problem = load_problem(request, tree, fake=False, seed=request.seed)
    given: Given = (tuple(problem.inputs), {})
    exact = observed_exactly(problem.module, given, request.seed)
    if exact is None:
        return 0.0
    run = lambda: observed(problem.module, given, request.seed, called)  # noqa: E731
    own = guarded(request.shown, "the module, as PyTorch runs it,", run)
    noises = (
        compared(near, want, near, "declared").noise
        for name, near in own.values.items()
        if isinstance(near, torch.Tensor)
        and (want := exact.values.get(name)) is not None
        and near.shape == want.shape
    )
    return max((n for n in noises if n * SHRUNK < 1), default=0.0)
