"""Put activations together again that PyTorch has taken apart: kernels compute them in fewer instructions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.folding import literal
from mucc.dialects.mu.ops import elementwise as e

CLOSE = 1e-5
"""The relative distance of coefficients, which models write with 7 to 16 digits."""

DEGREE = 3
"""The highest power in a polynomial that is looked for."""

Polynomial = dict[int, float]

TANH: Polynomial = {1: math.sqrt(2 / math.pi), 3: math.sqrt(2 / math.pi) * 0.044715}
ERF: Polynomial = {1: math.sqrt(0.5)}
"""The arguments of `gelu`, by its approximation by tanh, and without."""


def restore_activations(block: Block) -> None:
    """Replace `x * 0.5 * (1 + tanh(...))` and the form with `erf` by `gelu`, `x / (1 + exp(-x))` by `silu`.

    And `1 / (1 + exp(-x))` by `sigmoid`. Unused operations are left.
    """
    for op in list(block.ops):
        if not isinstance(op, e.MulOp | e.DivOp) or (made := _restored(op)) is None:
            continue
        if made.results[0].type == op.result.type:
            block.insert_op_before(made, op)
            made.location = op.location
            made.results[0].name_hint = op.result.name_hint
            op.result.replace_all_uses_with(made.results[0])


def _restored(op: e.MulOp | e.DivOp) -> Operation | None:
    if isinstance(op, e.DivOp):
        x, divisor = op.operands
        if (argument := _logistic(divisor)) is None:
            return None
        if literal(x) == 1:
            return e.SigmoidOp(argument)
        return e.SiluOp(argument) if argument is x else None
    scale, factors = _factors(op.result)
    if len(factors) != 2 or not _is_close(scale, 0.5):
        return None
    for x, cdf in (factors, factors[::-1]):
        for part in _beside_one(cdf):
            if not isinstance(function := part.owner, e.TanhOp | e.ErfOp):
                continue
            uses_tanh = isinstance(function, e.TanhOp)
            polynomial = _polynomial(function.operands[0], x)
            if polynomial is not None and _are_close(polynomial, TANH if uses_tanh else ERF):
                return e.GeluOp(x, "tanh" if uses_tanh else "none")
    return None


def _logistic(divisor: SSAValue) -> SSAValue | None:
    """Return x of a divisor `1 + exp(-x)`."""
    for part in _beside_one(divisor):
        if isinstance(part.owner, e.ExpOp) and isinstance(minus := part.owner.operands[0].owner, e.NegOp):
            return minus.operands[0]
    return None


def _beside_one(value: SSAValue) -> Iterator[SSAValue]:
    """Yield x of a sum `x + 1`."""
    if isinstance(add := value.owner, e.AddOp):
        a, b = add.operands
        if literal(b) == 1:
            yield a
        if literal(a) == 1:
            yield b


def _factors(value: SSAValue) -> tuple[float, list[SSAValue]]:
    """Return the constant and the other factors of a product."""
    if (number := literal(value)) is not None:
        return number, []
    if not isinstance(product := value.owner, e.MulOp):
        return 1.0, [value]
    (c, left), (d, right) = map(_factors, product.operands)
    return c * d, left + right


def _polynomial(value: SSAValue, x: SSAValue) -> Polynomial | None:
    """Return the coefficients by powers of x, up to `DEGREE`; None for another function of it."""
    if value is x:
        return {1: 1.0}
    if (number := literal(value)) is not None:
        return {0: number}
    op = value.owner
    if not isinstance(op, e.AddOp | e.MulOp | e.DivOp):
        return None
    a, b = (_polynomial(o, x) for o in op.operands)
    if a is None or b is None:
        return None
    if isinstance(op, e.AddOp):
        return {n: a.get(n, 0.0) + b.get(n, 0.0) for n in a | b}
    if isinstance(op, e.DivOp):
        return {n: c / b[0] for n, c in a.items()} if set(b) == {0} and b[0] else None
    found: Polynomial = {}
    for n, c in a.items():
        for m, d in b.items():
            found[n + m] = found.get(n + m, 0.0) + c * d
    return found if max(found) <= DEGREE else None


def _are_close(a: Polynomial, b: Polynomial) -> bool:
    return set(a) == set(b) and all(_is_close(a[n], b[n]) for n in b)


def _is_close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=CLOSE)
