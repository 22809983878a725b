"""The interpreters: every operation against its formula, rounding against an implementation of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import kernel, lowered, parsed
from hypothesis import given
from hypothesis import strategies as st

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.arrays import NumpyArrays, TorchArrays, arrays_for
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.gemm.nodes import (
    LOADS,
    STORES,
    AccFetchOp,
    GroupRowOp,
    GroupScalarOp,
    GroupStoreOp,
    ScatterDOp,
)
from mucc.kernels.interpreter import interpret_program

# Rounding

FORMATS = {"bf16": (8, -126, 127), "f16": (11, -14, 15), "f32": (24, -126, 127)}
"""Bits of the significand with the hidden one, and the smallest and largest exponent of a normal number."""


def rounded(x: float, dtype: str) -> float:
    """What is left of x after it was computed in f32 and stored in a format."""
    return nearest(nearest(x, "f32"), dtype)


def nearest(x: float, dtype: str) -> float:
    """The number of a format that is nearest to x, ties to even, by exact arithmetic."""
    if math.isnan(x) or math.isinf(x) or x == 0:
        return x
    bits, smallest, largest = FORMATS[dtype]
    exponent = max(math.frexp(x)[1] - 1, smallest)
    unit = Fraction(2) ** (exponent - bits + 1)
    # Python rounds fractions to the nearest integer, ties to even.
    found = round(Fraction(x) / unit) * unit
    if abs(found) >= Fraction(2) ** (largest + 1):
        return math.copysign(math.inf, x)
    return math.copysign(float(found), x)


def representable() -> st.SearchStrategy[float]:
    """Numbers near the limits and the ties of every format."""
    ties = st.builds(
        lambda m, e, half: math.ldexp(m + half, e),
        st.integers(-(2**12), 2**12),
        st.integers(-160, 120),
        st.sampled_from((0.0, 0.5, 0.25, 0.5 + 2**-40, 0.5 - 2**-40)),
    )
    single = st.floats(width=32)
    special = st.sampled_from((0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149, 65504.0, 65520.0, 3.4e38))
    return st.one_of(ties, single, special)


@pytest.fixture(params=["numpy", "torch"])
def arrays(request: pytest.FixtureRequest) -> Any:
    if request.param == "numpy":
        return NumpyArrays()
    torch = pytest.importorskip("torch")
    return TorchArrays(torch.device("cpu"))


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


@pytest.mark.parametrize("dtype", FORMATS)
@given(value=representable())
def test_numpy_rounds_to_nearest_even(dtype: str, value: float) -> None:
    assert same(float(NumpyArrays().round_to(np.float64(value), dtype)), rounded(value, dtype))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    "value",
    [
        *(1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-30, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-24, -1 - 2**-8),
        *(2.0**-130, 3 * 2.0**-134, 2.0**-133, 2.0**-134, 2.0**-135, 2.0**-24, 2.0**-25, 3 * 2.0**-25),
        *(65504.0, 65519.0, 65520.0, 3.3895e38, 3.3961775292304957e38, 3.4e38, 3.5e38, 1e300),
        *(0.0, -0.0, math.inf, -math.inf, math.nan),
    ],
)
def test_rounding_of_ties_limits_and_subnormals(arrays: Any, dtype: str, value: float) -> None:
    assert same(float(arrays.round_to(arrays.float64(value), dtype)), rounded(value, dtype))


@pytest.mark.parametrize(("dtype", "bits"), [("bf16", 8), ("f16", 11)])
def test_what_f32_cannot_tell_from_a_tie_is_one(arrays: Any, dtype: str, bits: int) -> None:
    above = 1 + 2**-bits
    assert float(arrays.round_to(arrays.float64(above + 2**-40), dtype)) == 1
    assert float(arrays.round_to(arrays.float64(above + 2**-23), dtype)) == 1 + 2 ** (1 - bits)


def test_arrays_are_taken_from_the_library_of_the_inputs() -> None:
    torch = pytest.importorskip("torch")
    assert isinstance(arrays_for(np.zeros(2), 1.0), NumpyArrays)
    assert isinstance(arrays_for(1.0, torch.zeros(2)), TorchArrays)


def test_what_libraries_spell_differently(arrays: Any) -> None:
    x = arrays.float64([[1.0, -5.0], [2.0, 3.0]])
    expected = {"sum": [3, -2], "max": [2, 3], "min": [1, -5], "amax": [2, 5]}
    for kind, values in expected.items():
        assert [float(v) for v in arrays.reduce(kind, x, (0,))] == values
    assert float(arrays.reduce("amax", x, (0, 1))) == 5.0
    assert [[float(v) for v in row] for row in arrays.reduce("amax", x, ())] == [[1, 5], [2, 3]]
    assert [[float(v) for v in row] for row in arrays.full((1, 2), 7.0)] == [[7, 7]]
    assert float(arrays.erf(x)[0][0]) == pytest.approx(math.erf(1))


# Operations

X = np.array([-800.0, -40.0, -3.5, -1.0, -0.25, -1e-9, 0.0, 1e-9, 0.25, 1.0, 2.5, 3.5, 6.0, 40.0, 800.0])
P = np.abs(X) + 0.5


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def softplus(x: float, beta: float = 1.0) -> float:
    return (max(beta * x, 0.0) + math.log1p(math.exp(-abs(beta * x)))) / beta


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def elu(x: float, alpha: float) -> float:
    return x if x > 0 else alpha * math.expm1(x)


def tanh_gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "-x": lambda x: -x,
    "abs(x)": abs,
    "tanh(x)": math.tanh,
    "erf(x)": math.erf,
    "exp(min(x, 50))": lambda x: math.exp(min(x, 50)),
    "log(abs(x) + 1)": lambda x: math.log(abs(x) + 1),
    "sqrt(abs(x))": lambda x: math.sqrt(abs(x)),
    "rsqrt(abs(x) + 1)": lambda x: 1 / math.sqrt(abs(x) + 1),
    "pow(abs(x), 0.3)": lambda x: abs(x) ** 0.3,
    "sigmoid(x)": sigmoid,
    "gelu(x)": lambda x: x * phi(x),
    "gelu(x, approximate=tanh)": tanh_gelu,
    "softplus(x)": softplus,
    "softplus(x, beta=2)": lambda x: softplus(x, 2.0),
    "relu(x)": lambda x: max(x, 0.0),
    "leaky_relu(x)": lambda x: x if x > 0 else 0.01 * x,
    "leaky_relu(x, slope=0.2)": lambda x: x if x > 0 else 0.2 * x,
    "elu(x)": lambda x: elu(x, 1.0),
    "elu(x, alpha=1.5)": lambda x: elu(x, 1.5),
    "selu(x)": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "silu(x)": lambda x: x * sigmoid(x),
    "softsign(x)": lambda x: x / (1 + abs(x)),
    "mish(x)": lambda x: x * math.tanh(softplus(x)),
    "hardsigmoid(x)": lambda x: min(max(x / 6 + 0.5, 0.0), 1.0),
    "hardswish(x)": lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0),
    "hardtanh(x)": lambda x: min(max(x, -1.0), 1.0),
    "hardtanh(x, lo=-2, hi=3)": lambda x: min(max(x, -2.0), 3.0),
    "clamp(x, -0.5, 2)": lambda x: min(max(x, -0.5), 2.0),
    "where(x < 0, 1, 2)": lambda x: 1.0 if x < 0 else 2.0,
    "where(x <= 0, 1, 2)": lambda x: 1.0 if x <= 0 else 2.0,
    "where(x == 0, 1, 2)": lambda x: 1.0 if x == 0 else 2.0,
    "where(x != 0, 1, 2)": lambda x: 1.0 if x != 0 else 2.0,
    "where(x > 0 and x < 3, x, -x)": lambda x: x if 0 < x < 3 else -x,
    "where(x < -1 or x >= 1, x, 0)": lambda x: x if x < -1 or x >= 1 else 0.0,
    "where(not (x > 1), x, 0)": lambda x: x if not x > 1 else 0.0,
    "where((x > -1) == (x < 1), x, 0)": lambda x: x if -1 < x < 1 else 0.0,
    "cast((x > -1) != (x < 1), f32)": lambda x: float(not -1 < x < 1),
    "cast(x > 0, f32)": lambda x: float(x > 0),
    "cast(x, bf16)": lambda x: nearest(x, "bf16"),
    "max(x, 1) - min(x, -1) * 2 / 4": lambda x: max(x, 1) - min(x, -1) * 2 / 4,
}


@pytest.mark.parametrize("expression", FUNCTIONS)
@pytest.mark.parametrize("passes", [(), ("mu-canonicalize", "decompose", "mu-canonicalize")])
def test_functions(expression: str, passes: tuple[str, ...]) -> None:
    found = kernel(f"kernel k[M](x: f32[M]) -> f32[M] {{ return {expression} }}", *passes)
    with np.errstate(over="ignore"):
        (got,) = interpret_kernel(found, [X])
    want = np.array([FUNCTIONS[expression](float(x)) for x in X])
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def test_nan_spreads_through_min_and_max() -> None:
    found = kernel(
        "kernel k[M](x: f32[M], y: f32[M]) -> (a: f32[M], b: f32[M]) { return min(x, y), max(x, y) }"
    )
    for got in interpret_kernel(found, [np.array([math.nan, 1.0]), np.array([1.0, math.nan])]):
        assert np.isnan(got).all()


def test_relations_with_nan_do_not_hold() -> None:
    relations = {"<": 0.0, "<=": 0.0, ">": 0.0, ">=": 0.0, "==": 0.0, "!=": 1.0}
    for relation, want in relations.items():
        found = kernel(f"kernel k[M](x: f32[M]) -> f32[M] {{ return cast(x {relation} x, f32) }}")
        assert interpret_kernel(found, [np.array([math.nan])])[0] == [want]


def test_contractions_views_reductions_broadcasts() -> None:
    random = np.random.default_rng(1)
    x, w, b, s = (random.standard_normal(n) for n in ((2, 3, 4), (5, 4), (5,), ()))
    found = kernel(
        """kernel k[B, M, N, K](x: f32[B, M, K], w: f32[N, K], b: f32[N], s: f32)
               -> (y: f32[B, M, N], z: f32[B, 1], m: f32[N], a: f32[]) {
            y = (x @ w.T + b) * s
            return y, sum(y, axis=(1, 2))[:, None], min(y, axis=(0, 1)), amax(y)
        }"""
    )
    y, z, m, a = interpret_kernel(found, [x, w, b, s])
    want = (x @ w.T + b) * s
    np.testing.assert_allclose(y, want)
    np.testing.assert_allclose(z, want.sum((1, 2))[:, None])
    np.testing.assert_allclose(m, want.min((0, 1)))
    np.testing.assert_allclose(a, np.abs(want).max())


def test_only_casts_and_stages_round() -> None:
    value = np.array([1 + 2**-9])
    plain = "kernel k[M](x: f32[M]) -> bf16[M] { return x * 1.5 }"
    pinned = "kernel k[M](x: bf16[M]) -> f32[M] { stage h = x * 1.5 return cast(h, f32) * 2 }"
    assert interpret_kernel(kernel(plain), [value])[0] == nearest(1.5 * value[0], "bf16")
    assert interpret_kernel(kernel(pinned), [value])[0] == 2 * nearest(1.5 * value[0], "bf16")
    unpinned = pinned.replace("stage ", "")
    assert interpret_kernel(kernel(unpinned), [value])[0] == 3 * value[0]


def test_torch_inputs_give_torch_results() -> None:
    torch = pytest.importorskip("torch")
    mcu = """kernel k[M](x: bf16[M, M], b: f32[M]) -> (y: bf16[M, M], z: f32[M]) {
        y = gelu(x @ x + b)
        return y, max(y, axis=0)
    }"""
    x, b = torch.randn(4, 4).to(torch.bfloat16), torch.randn(4)
    got = interpret_kernel(kernel(mcu), [x, b])
    want = interpret_kernel(kernel(mcu), [x.double().numpy(), b.numpy()])
    assert all(isinstance(g, torch.Tensor) and g.dtype is torch.float64 for g in got)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-12)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((2, 3), (4, 5)), "dim K is 3, but an array has extent 4"),
        (((2, 3, 1), (3, 5)), r"expected f32\[M, K\], got an array of shape \(2, 3, 1\)"),
        (((2, 3), (3, 6)), "an extent must be 5, but an array has extent 6"),
    ],
)
def test_shapes_that_do_not_fit(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    found = kernel("kernel k[M, K](x: f32[M, K], w: f32[K, 5]) -> f32[M, 5] { return x @ w }")
    with pytest.raises(ValueError, match=message):
        interpret_kernel(found, [np.zeros(s) for s in shapes])


# Lowered programs


PIPELINE = (
    "mu-canonicalize",
    "decompose",
    "mu-canonicalize",
    "form-stages",
    "pair-contractions",
    "convert-to-cutlass",
)


def program(mcu: str) -> c.ProgramOp:
    found = lowered(mcu, *PIPELINE).body.block.first_op
    assert isinstance(found, c.ProgramOp)
    return found


PROGRAMS = Path(__file__).resolve().parents[3] / "gpu" / "programs"


@pytest.mark.parametrize("name", ["operands_in_place", "linear_combination", "pairs"])
def test_programs_mean_the_same_before_and_after_lowering(name: str) -> None:
    text = (PROGRAMS / f"{name}.mcu").read_text(encoding="utf-8")
    module = lowered(text)
    programs = lowered(text, *PIPELINE)
    random = np.random.default_rng(3)
    extents = {"B": 2, "H": 3, "M": 4, "N": 5, "K": 6}
    for found, low in zip(module.body.block.ops, programs.body.block.ops, strict=True):
        if not isinstance(found, KernelOp):
            continue
        assert isinstance(low, c.ProgramOp)
        shapes = [[extents.get(d, d) for d in Shaped.of(a.type).dims] for a in found.body.block.args]
        inputs = [random.standard_normal(s) for s in shapes]
        (want,), (got,) = interpret_kernel(found, inputs), interpret_program(low, inputs)
        np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2)


def test_a_lowered_program_rounds_what_it_stores() -> None:
    mcu = "kernel k[M](x: bf16[M, M]) -> f32[M, M] { stage h = exp(x) return cast(h, f32) + cast(h, f32) }"
    x = np.array([[0.5, 1.0], [0.25, 2.0]])
    (got,) = interpret_program(program(mcu), [x])
    assert got.tolist() == [[2 * nearest(math.exp(v), "bf16") for v in row] for row in x.tolist()]


def test_every_node_of_an_epilogue() -> None:
    random = np.random.default_rng(2)
    x, w, r, q = (random.standard_normal(s) for s in ((2, 3, 4), (2, 4, 5), (2, 3, 5), (2, 3, 5)))
    b, col, s = (random.standard_normal(n) for n in (5, 3, ()))
    found = program(
        """kernel k[B, M, N, K](x: f32[B, M, K], w: f32[B, K, N], r: f32[B, M, N], q: f32[B, M, N], b: f32[N],
                              c: f32[M], s: f32)
               -> (y: f32[B, M, N], h: f32[B, M, N], u: f32[B, M], v: f32[B, N], t: f32[N], e: f32[B],
                   a: f32[]) {
            h = x @ w * s + b + c[:, None]
            y = h + r * q
            return y, h, sum(y, axis=2), max(y, axis=1), sum(y, axis=(0, 1)), sum(y, axis=(1, 2)), amax(y)
        }"""
    )
    (gemm,) = found.kernels
    # Grouped contractions only scatter rows and load rows and numbers of groups: test_indexed.py. Numbers of
    # groups of columns are stored by products that a norm joined: test_join_rows.py.
    grouped = {ScatterDOp, GroupRowOp, GroupScalarOp, GroupStoreOp}
    for node in {*LOADS, *STORES, AccFetchOp} - grouped:
        assert any(isinstance(op, node) for op in gemm.nodes), node.name
    h = x @ w * s + b + col[:, None]
    y = h + r * q
    want = [y, h, y.sum(2), y.max(1), y.sum((0, 1)), y.sum((1, 2)), np.abs(y).max()]
    for got, expected in zip(interpret_program(found, [x, w, r, q, b, col, s]), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_reading_what_no_launch_has_written() -> None:
    module = parsed(
        """cutlass.program @p(%x: !mu.tensor<[2], f32>, %y: !mu.tensor<[2], f32>)
               attributes {target = "sm_90a", arg_names = ["x", "y"], num_inputs = 1 : i64, dims = []} {
             %t = cutlass.workspace : !mu.tensor<[2], f32>
             cutlass.map "m" space [#builtin.int<2>] {
               %0 = cutlass.load %t : !mu.tensor<[2], f32>
               cutlass.store %0, %y : !mu.tensor<[2], f32>
             }
           }"""
    )
    found = module.body.block.first_op
    assert isinstance(found, c.ProgramOp)
    with pytest.raises(ValueError, match="a tensor is read before a launch has written it"):
        interpret_program(found, [np.zeros(2)])
