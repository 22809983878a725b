"""Elementwise functions of PyTorch at zeros, infinities, NaN and the ends of f32, as imports compute them."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from importerlib import Applied  # noqa: E402

from mucc.torch.importer import from_torch  # noqa: E402

F = torch.nn.functional
Function = Callable[..., Any]

SIZES = (0.0, 1e-45, 1e-38, 1e-3, 0.5, 1.0, 1.5, 2.5, 3.0, 6.0, 20.0, 40.0, 88.0, 1e10, 1e20, 3.4028234e38)
NUMBERS = (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.5, -1.5, 0.25, math.inf, -math.inf)

UNARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "log", "log1p", "neg", "relu", "round"),
            *("rsqrt", "sigmoid", "sign", "sin", "sqrt", "tan", "tanh", "trunc", "reciprocal", "atan"),
            *("asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "frac", "square", "log2"),
            *("log10", "erfc", "rad2deg", "isnan", "isinf", "isfinite", "logical_not"),
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            *("hardsigmoid", "hardswish", "mish", "selu", "silu", "gelu", "softplus", "elu", "leaky_relu"),
            *(
                "hardtanh",
                "relu6",
                "softsign",
                "logsigmoid",
                "celu",
                "tanhshrink",
                "hardshrink",
                "softshrink",
            ),
        )
    },
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu written out": lambda x: x * 0.5 * (1 + torch.erf(x * 0.7071067811865476)),
    "silu written out": lambda x: x / (1 + torch.exp(-x)),
    "threshold": lambda x: F.threshold(x, 0.5, -3.0),
    "steep": lambda x: F.leaky_relu(x, 2.0),
    "flat": lambda x: F.leaky_relu(x, 0.0),
    "elu of 2": lambda x: F.elu(x, 2.0),
    "elu of 0": lambda x: F.elu(x, 0.0),
    "softplus of 2": lambda x: F.softplus(x, beta=2.0),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp from below": lambda x: x.clamp(min=0.5),
    "clamp from above": lambda x: x.clamp(max=0.5),
    "clamp to infinities": lambda x: x.clamp(-math.inf, math.inf),
    "clamp between crossed bounds": lambda x: x.clamp(1.0, -1.0),
    "numbers for NaN": lambda x: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    "masked": lambda x: x.masked_fill(x > 0, -math.inf),
}
"""Functions of one tensor. What differs with a dtype's largest number, as `nan_to_num(x)`, is not here."""

BINARY: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("add", "sub", "mul", "div", "maximum", "minimum", "pow", "atan2", "fmax", "fmin", "remainder"),
            *("fmod", "floor_divide", "lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or"),
            *("logical_xor", "copysign", "hypot", "xlogy"),
        )
    },
    "whole quotient": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "where": lambda x, y: torch.where(x > y, x, y),
    "between tensors": lambda x, y: torch.lerp(x, y, 0.25),
}

WITH_NUMBERS: dict[str, Callable[[Any, float], Any]] = {
    "x ** n": lambda x, n: x**n,
    "n ** x": lambda x, n: n**x,
    "x + n": lambda x, n: x + n,
    "x * n": lambda x, n: x * n,
    "x / n": lambda x, n: x / n,
    "n / x": lambda x, n: n / x,
    "x % n": lambda x, n: x % n if n else x,
    "fmod": lambda x, n: torch.fmod(x, n) if n else x,
    "comparisons": lambda x, n: torch.where(x < n, 1.0, 0.0) + torch.where(x != n, 2.0, 0.0),
}

ZEROS = {"relu", "relu6", "clamp", "selu", "elu", "elu of 2", "elu of 0", "celu", "fmax", "fmin"} | {
    *("maximum", "minimum", "hardtanh", "softshrink", "hardshrink", "clamp between crossed bounds")
}
"""Functions whose zeros have any sign: IEEE 754 leaves that of the larger of two zeros to the machine."""


def points() -> Any:
    return torch.tensor([math.nan, math.inf, -math.inf, *SIZES, *(-s for s in SIZES)])


def wrong(got: Any, exact: Any, zeros: bool) -> Any:
    """Where a result is no number of the kind that the exact one is in f32, or not near it."""
    want, got = exact.to(got.dtype).float(), got.float()
    is_same = (got == want) | (got.isnan() & want.isnan())
    is_near = got.isfinite() & want.isfinite() & ((got - want).abs() <= 1e-5 * want.abs() + 1e-44)
    found = ~(is_same | is_near)
    return found | ((got == 0) & (want == 0) & (got.signbit() != want.signbit()) & zeros)


def differing(functions: dict[str, Function], *inputs: Any) -> dict[str, list[tuple[float, ...]]]:
    """Import functions as one module; returns operands, result and exact result where each is wrong."""
    made = from_torch(Applied(lambda *x: [f(*x) for f in functions.values()]), inputs)
    found: dict[str, list[tuple[float, ...]]] = {}
    exact = [f(*(t.double() for t in inputs)) for f in functions.values()]
    for name, got, want in zip(functions, made.interpreted()(*inputs), exact, strict=True):
        places = wrong(got, want, name not in ZEROS).nonzero()[:, 0].tolist()
        if places:
            found[name] = [tuple(float(t[i]) for t in (*inputs, got, want)) for i in places[:6]]
    return found


def test_functions_of_one_tensor():
    assert not differing(UNARY, points())


def test_functions_of_two_tensors():
    x = points()
    assert not differing(BINARY, x.repeat_interleave(len(x)), x.repeat(len(x)))


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_functions_with_numbers(name: str):
    function = WITH_NUMBERS[name]
    assert not differing({f"{name}, {n}": lambda x, n=n: function(x, n) for n in NUMBERS}, points())
