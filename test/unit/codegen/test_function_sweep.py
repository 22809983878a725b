"""Every pointwise function over all of f32 and s32: interpreters, C++ on the host, and PyTorch."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hostmath import applied, host_functions

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops import elementwise as e

torch: Any = pytest.importorskip("torch")
functional: Any = torch.nn.functional


class Case(NamedTuple):
    """An expression of x and y, what PyTorch computes for it, and what emitted code may be off.

    `ulp` and `growth` times |x| count spacings of f32 at the exact result; `share` of |x| comes
    to them. PyTorch computes in float64; `torch` is None where it has no such function. Where `zeros` is
    False, signs of zeros are left to the machine, as IEEE 754 leaves those of the larger of two zeros.
    """

    text: str
    torch: Callable[..., Any] | None = None
    ulp: float = 0.0
    growth: float = 0.0
    share: float = 0.0
    zeros: bool = True


def _power(exponent: float) -> Callable[[Any, Any], Any]:
    return lambda x, y: x.pow(exponent)


def _cast(dtype: Any) -> Callable[[Any, Any], Any]:
    return lambda x, y: x.float().to(dtype).double()


def _one(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(x)


FLOATS = (
    Case("x + y", torch.add),
    Case("x - y", torch.sub),
    Case("x * y", torch.mul),
    Case("x / y", torch.div),
    Case("x / 3", lambda x, y: x / 3),
    Case("x / 4", lambda x, y: x / 4),
    Case("x % y", torch.remainder),
    Case("x % 3", lambda x, y: x % 3),
    Case("fmod(x, y)", torch.fmod),
    Case("floor_divide(x, y)", torch.floor_divide, 2),
    Case("min(x, y)", torch.minimum, zeros=False),
    Case("max(x, y)", torch.maximum, zeros=False),
    Case("pow(x, y)", torch.pow, 1),
    Case("pow(x, 2)", _power(2)),
    Case("pow(x, 0.5)", _power(0.5), 1),
    Case("pow(x, -0.5)", _power(-0.5), 2),
    Case("-x", _one(torch.neg)),
    Case("abs(x)", _one(torch.abs)),
    Case("sign(x)", _one(torch.sign)),
    Case("floor(x)", _one(torch.floor)),
    Case("ceil(x)", _one(torch.ceil)),
    Case("round(x)", _one(torch.round)),
    Case("trunc(x)", _one(torch.trunc)),
    Case("exp(x)", _one(torch.exp), 1),
    Case("expm1(x)", _one(torch.expm1), 1),
    Case("log(x)", _one(torch.log), 1),
    Case("log1p(x)", _one(torch.log1p), 1),
    Case("sqrt(x)", _one(torch.sqrt), 1),
    Case("rsqrt(x)", _one(torch.rsqrt), 2),
    Case("sin(x)", _one(torch.sin), 1),
    Case("cos(x)", _one(torch.cos), 1),
    Case("tan(x)", _one(torch.tan), 1),
    Case("atan2(y, x)", lambda x, y: torch.atan2(y, x), 1),
    Case("tanh(x)", _one(torch.tanh), 2),
    Case("erf(x)", _one(torch.erf), 1),
    Case("sigmoid(x)", _one(torch.sigmoid), 4, 1, 1e-36),
    Case("gelu(x)", _one(functional.gelu), 2, share=2.5e-7, zeros=False),
    Case("gelu(x, approximate=tanh)", lambda x, y: functional.gelu(x, approximate="tanh"), 4, 12, 1e-15),
    Case("softplus(x)", _one(functional.softplus), 4, 1),
    Case("softplus(x, beta=2.5)", lambda x, y: functional.softplus(x, beta=2.5), 4, 5),
    Case("relu(x)", _one(torch.relu), zeros=False),
    Case("leaky_relu(x, slope=0.2)", lambda x, y: functional.leaky_relu(x, 0.2), 1),
    Case("elu(x, alpha=1.5)", lambda x, y: functional.elu(x, 1.5), 2, zeros=False),
    Case("selu(x)", _one(functional.selu), 2, zeros=False),
    Case("silu(x)", _one(functional.silu), 4, 1, 1e-36),
    Case("softsign(x)", _one(functional.softsign), 1),
    Case("mish(x)", _one(functional.mish), 4, 1),
    Case("hardsigmoid(x)", _one(functional.hardsigmoid), 1, share=6e-8),
    Case("hardswish(x)", _one(functional.hardswish), 1, share=2e-7),
    Case("hardtanh(x, lo=-0.5, hi=2)", lambda x, y: x.clamp(-0.5, 2), zeros=False),
    Case("clamp(x, -1, y)", lambda x, y: torch.minimum(x.clamp(min=-1), y), zeros=False),
    Case("where(x > y, x, y)", lambda x, y: torch.where(x > y, x, y)),
    Case("cast(x < y or x == 1 and not x >= 0, f32)", lambda x, y: (x < y).double()),
    Case("cast(x <= y, f32)", lambda x, y: (x <= y).double()),
    Case("cast(x != y, f32)", lambda x, y: (x != y).double()),
    Case("cast(cast(x, bf16), f32)", _cast(torch.bfloat16)),
    Case("cast(cast(x, f16), f32)", _cast(torch.float16)),
    Case("cast(cast(x, e4m3), f32)"),
    Case("cast(cast(x, e5m2), f32)"),
    Case("cast(cast(x, s8), f32)"),
    Case("cast(cast(x, u8), f32)"),
    Case("cast(cast(x, s32), f32)"),
)
INTEGERS = (
    Case("x + y", torch.add),
    Case("x - y", torch.sub),
    Case("x * y", torch.mul),
    Case("-x", _one(torch.neg)),
    Case("abs(x)", _one(torch.abs)),
    Case("sign(x)", _one(torch.sign)),
    Case("floor(x)", _one(torch.floor)),
    Case("ceil(x)", _one(torch.ceil)),
    Case("round(x)", _one(torch.round)),
    Case("trunc(x)", _one(torch.trunc)),
    Case("min(x, y)", torch.minimum),
    Case("max(x, y)", torch.maximum),
    Case("relu(x)", _one(torch.relu)),
    Case("clamp(x, -9, y)", lambda x, y: torch.minimum(x.clamp(min=-9), y)),
    Case("where(x > y, x, y)", lambda x, y: torch.where(x > y, x, y)),
    Case("cast(x <= y, s32)", lambda x, y: (x <= y).int()),
    Case("x % y", torch.remainder),
    Case("x % 7", lambda x, y: x % 7),
    Case("x % -8", lambda x, y: x % -8),
    Case("fmod(x, y)", torch.fmod),
    Case("floor_divide(x, y)", torch.floor_divide),
    Case("floor_divide(x, -7)", lambda x, y: torch.floor_divide(x, -7)),
    Case("bitwise_and(x, y)", torch.bitwise_and),
    Case("bitwise_and(x, 255)", lambda x, y: x & 255),
    Case("bitwise_or(x, y)", torch.bitwise_or),
    Case("bitwise_xor(x, y)", torch.bitwise_xor),
    Case("bitwise_xor(x, -2147483648)", lambda x, y: x ^ -(2**31)),
    Case("bitwise_not(x)", _one(torch.bitwise_not)),
    Case("left_shift(x, y)", torch.bitwise_left_shift),
    Case("left_shift(x, 3)", lambda x, y: x << 3),
    Case("left_shift(1, y)", lambda x, y: torch.bitwise_left_shift(torch.ones_like(y), y)),
    Case("right_shift(x, y)", torch.bitwise_right_shift),
    Case("right_shift(x, 31)", lambda x, y: x >> 31),
)

DIVIDING = ("x % y", "fmod(x, y)", "floor_divide(x, y)")

# Points

LEAST, MOST = np.float32(1e-45), np.finfo(np.float32).max
SIZES = np.array(
    [
        *(0, LEAST, 1e-40, 2.0**-126, 1e-30, 1e-7, 0.25, 0.5, 1, 1.5, 2, 2.5, 3, np.pi / 2, np.pi, 10.5, 20),
        *(40, 87, 88.7, 89, 104, 127.5, 255.5, 448, 465, 57344, 65520, 2**22 + 0.5, 2**23 + 1, 2**24, 2**31),
        *(2**31 + 256, 16367173 * 2.0**72, 1e10, 1e30, MOST, np.inf),
    ],
    np.float32,
)
VALUES = np.array([*SIZES, *(-v for v in SIZES), np.nan], np.float32)
EDGES = [0, 1, 2, 3, 7, 8, 31, 32, 33, 255, 2**24, 2**24 + 1, 123456789, 2**30, 2**31 - 2, 2**31 - 1]
WHOLE = np.array([*EDGES, *(-v for v in EDGES), -(2**31), 1 - 2**31], np.int32)
COUNT = 100_000


def _pairs(values: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Join all pairs of some values with further pairs."""
    first, second = np.meshgrid(values, values)
    joined = (np.concatenate([a.reshape(-1), b]) for a, b in ((first, x), (second, y)))
    return tuple(np.ascontiguousarray(a) for a in joined)  # type: ignore[return-value]


def _quiet(values: Any) -> Any:
    """Replace signalling NaNs, which no operation makes, by the usual one."""
    return np.where(np.isnan(values), np.float32(np.nan), values)


def _float_pairs() -> tuple[Any, Any]:
    """Every exponent of x with both signs, 195 times; y is anything, near x, or small."""
    random = np.random.default_rng(7)
    exponents = np.arange(COUNT, dtype=np.uint32) % 512 << 23
    x = _quiet((exponents | random.integers(0, 2**23, COUNT, np.uint32)).view(np.float32))
    anywhere = _quiet(random.integers(0, 2**32, COUNT, np.uint32).view(np.float32))
    near = (
        x.astype(np.float64) * random.uniform(-3, 3, COUNT) * 2.0 ** random.integers(-8, 9, COUNT)
    ).astype(np.float32)
    small = (random.integers(-40, 41, COUNT) / 4).astype(np.float32)
    which = random.integers(0, 3, COUNT)
    return _pairs(VALUES, x, np.choose(which, [anywhere, near, small]))


def _integer_pairs() -> tuple[Any, Any]:
    """Integers of every size; y also a count of places."""
    random = np.random.default_rng(8)
    x, y = (random.integers(-(2**31), 2**31, COUNT) >> random.integers(0, 32, COUNT) for _ in range(2))
    y = np.where(random.integers(0, 2, COUNT) == 1, random.integers(-3, 40, COUNT), y)
    return _pairs(WHOLE, x.astype(np.int32), y.astype(np.int32))


with np.errstate(all="ignore"):
    POINTS = {"f32": _float_pairs(), "s32": _integer_pairs()}


# Where the four agree


def _name(dtype: str, index: int) -> str:
    return f"{dtype}_{index}"


def _kernels(dtype: str, cases: Iterable[Case]) -> str:
    return "".join(
        f"kernel {_name(dtype, i)}[N](x: {dtype}[N], y: {dtype}[N]) -> {dtype}[N] {{ return {case.text} }}\n"
        for i, case in enumerate(cases)
    )


@pytest.fixture(scope="module")
def compilation() -> Compilation:
    return compile_text(Source("sweep.mcu", _kernels("f32", FLOATS) + _kernels("s32", INTEGERS)))


@pytest.fixture(scope="module")
def library(compilation: Compilation, tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    return host_functions(compilation, tmp_path_factory.mktemp("sweep"))


def single(values: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(np.float32)


def off(got: Any, want: Any) -> Any:
    """Count the numbers of f32 between two results; infinity for NaN against a number.

    Infinity is next to the largest number, and zeros are one number.
    """
    places = [np.asarray(v).view(np.int32).astype(np.int64) for v in (got, want)]
    first, second = (np.where(p < 0, -(2**31) - p, p) for p in places)
    both, one = np.isnan(got) & np.isnan(want), np.isnan(got) != np.isnan(want)
    return np.where(both, 0.0, np.where(one, np.inf, np.abs(first - second).astype(np.float64)))


def wrong(case: Case, x: Any, got: Any, want: Any) -> Any:
    """Find the results that are further off than the case allows."""
    size = np.abs(np.nan_to_num(x.astype(np.float64), posinf=1, neginf=1))
    far = off(got, want) > case.ulp + np.minimum(case.growth * size, 400)
    if case.share:
        with np.errstate(invalid="ignore"):
            near = np.abs(got.astype(np.float64) - want.astype(np.float64)) <= case.share * size
        far &= ~near
    zero = (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    return far | (zero & case.zeros)


def shown(found: Any, *columns: Any) -> list[tuple[float, ...]]:
    return [tuple(float(c[i]) for c in columns) for i in np.flatnonzero(found)[:6]]


@pytest.mark.parametrize("index", range(len(FLOATS)), ids=[c.text for c in FLOATS])
def test_floats_agree(index: int, compilation: Compilation, library: ct.CDLL) -> None:
    case, name = FLOATS[index], _name("f32", index)
    x, y = POINTS["f32"]
    given = [torch.from_numpy(v) for v in (x, y)]
    with np.errstate(all="ignore"):
        want = single(compilation.interpret(name, [x, y])[0])
        meant = single(compilation.interpret(name, given)[0].numpy())
        got = applied(library, name, x, y)
    # Libraries for float64 round in different ways, which can decide where an f32 is rounded to.
    found = wrong(case._replace(ulp=1, growth=0, share=0), x, meant, want)
    assert not found.any(), ("the interpreter with torch", shown(found, x, y, meant, want))
    found = wrong(case, x, got, want)
    assert not found.any(), ("C++", shown(found, x, y, got, want))
    if case.torch is not None:
        own = single(case.torch(*(v.double() for v in given)).numpy())
        found = wrong(case._replace(ulp=1, growth=0), x, own, want)
        assert not found.any(), ("PyTorch", shown(found, x, y, own, want))


@pytest.mark.parametrize("index", range(len(INTEGERS)), ids=[c.text for c in INTEGERS])
def test_integers_agree(index: int, compilation: Compilation, library: ct.CDLL) -> None:
    case, name = INTEGERS[index], _name("s32", index)
    x, y = POINTS["s32"]
    given = [torch.from_numpy(v) for v in (x, y)]
    (want,) = compilation.interpret(name, [x, y])
    meant = compilation.interpret(name, given)[0].numpy()
    got = applied(library, name, x, y)
    for who, values in (("the interpreter with torch", meant), ("C++", got)):
        assert np.array_equal(values, want), (who, shown(values != want, x, y, values, want))
    assert case.torch is not None
    if case.text in DIVIDING:  # PyTorch stops at both
        kept = np.flatnonzero((y != 0) & ~((x == -(2**31)) & (y == -1)))
        x, y, want = x[kept], y[kept], want[kept]
        given = [torch.from_numpy(v) for v in (x, y)]
    own = case.torch(*given).numpy()
    assert np.array_equal(own, want), ("PyTorch", shown(own != want, x, y, own, want))


def test_the_sweep_has_every_pointwise_operation(compilation: Compilation) -> None:
    known = {type(op) for op in compilation.mu.walk()}
    inner = {e.RetypeOp, e.StoredOp}  # which passes insert
    assert set(e.ELEMENTWISE) - known == inner
    computing = {
        type(op) for op in compilation.mu.walk() if isinstance(op, e.ElementwiseOp) and op.computes_integers
    }
    assert {cls for cls in e.ELEMENTWISE if cls.INTEGER} == computing


@pytest.mark.parametrize(
    ("text", "x", "y", "want"),
    [
        ("x % y", 5, 0, 0),
        ("x % y", -(2**31), -1, 0),
        ("x % y", -7, 3, 2),
        ("x % y", 7, -3, -2),
        ("fmod(x, y)", 5, 0, 0),
        ("fmod(x, y)", -(2**31), -1, 0),
        ("fmod(x, y)", -7, 3, -1),
        ("floor_divide(x, y)", 5, 0, 0),
        ("floor_divide(x, y)", -(2**31), -1, -(2**31)),
        ("floor_divide(x, y)", -7, 3, -3),
        ("left_shift(x, y)", 1, 32, 0),
        ("left_shift(x, y)", 1, -1, 0),
        ("left_shift(x, y)", 3, 31, -(2**31)),
        ("right_shift(x, y)", -5, 32, -1),
        ("right_shift(x, y)", -5, -1, -1),
        ("right_shift(x, y)", 5, 99, 0),
        ("right_shift(x, y)", -5, 1, -3),
    ],
)
def test_corners_of_integers_have_one_meaning(
    text: str, x: int, y: int, want: int, compilation: Compilation, library: ct.CDLL
) -> None:
    name = _name("s32", [c.text for c in INTEGERS].index(text))
    given = np.array([x], np.int32), np.array([y], np.int32)
    assert compilation.interpret(name, list(given))[0] == want
    assert applied(library, name, *given) == want


@pytest.mark.parametrize(
    ("text", "x", "y", "want"),
    [
        ("x % y", 5, 0, "nan"),
        ("x % y", -1, np.inf, "inf"),
        ("x % y", 1, np.inf, "1"),
        ("x % y", -0.0, 3, "-0"),
        ("x % y", np.inf, 3, "nan"),
        ("x % y", -1e-30, 3, "3"),
        ("fmod(x, y)", -7.5, 2, "-1.5"),
        ("fmod(x, y)", -1, np.inf, "-1"),
        ("floor_divide(x, y)", -1, np.inf, "-1"),
        ("floor_divide(x, y)", 1, 0, "inf"),
        ("floor_divide(x, y)", 0, -3, "-0"),
        ("floor_divide(x, y)", 7, -2, "-4"),
        ("sign(x)", np.nan, 0, "0"),
        ("sign(x)", -0.0, 0, "0"),
        ("round(x)", 2.5, 0, "2"),
        ("round(x)", -0.5, 0, "-0"),
        ("ceil(x)", -0.5, 0, "-0"),
        ("sin(x)", -0.0, 0, "-0"),
        ("cos(x)", np.inf, 0, "nan"),
        ("cos(x)", 16367173 * 2.0**72, 0, "-1.61476976e-09"),
        ("atan2(y, x)", -1, -0.0, "-3.14159274"),
    ],
)
def test_corners_of_floats_have_one_meaning(
    text: str, x: float, y: float, want: str, compilation: Compilation, library: ct.CDLL
) -> None:
    name = _name("f32", [c.text for c in FLOATS].index(text))
    given = np.array([x], np.float32), np.array([y], np.float32)
    with np.errstate(all="ignore"):
        assert f"{single(compilation.interpret(name, list(given))[0])[0]:.9g}" == want
    assert f"{applied(library, name, *given)[0]:.9g}" == want
