"""Two products of one left operand in one kernel: found where they meet, and with the same meaning."""

from __future__ import annotations

import numpy as np
import pytest
from budget import examples
from builders import lowered
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.dialects.cutlass import ops as c
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.interpreter import interpret_program

PASSES = ("mu-canonicalize", "decompose", "mu-canonicalize", "form-stages", "pair-contractions")


def program(mcu: str) -> c.ProgramOp:
    found = lowered(mcu, *PASSES, "convert-to-cutlass", "fuse-epilogue").body.block.first_op
    assert isinstance(found, c.ProgramOp)
    return found


def kinds(mcu: str) -> list[str]:
    """Each kernel of the first program in a word."""
    return [
        "pair" if isinstance(k, GemmOp) and k.is_pair else k.name.removeprefix("cutlass.")
        for k in program(mcu).kernels
    ]


ACTIVATIONS = {
    "silu({})": lambda x: x / (1 + np.exp(-x)),
    "relu({})": lambda x: np.maximum(x, 0),
    "tanh({})": np.tanh,
    "{}": lambda x: x,
}


@settings(max_examples=examples(25))
@given(
    activation=st.sampled_from(sorted(ACTIVATIONS)),
    join=st.sampled_from(("*", "-", "+")),
    swapped=st.booleans(),
    bias=st.booleans(),
    transposed=st.booleans(),
    batch=st.sampled_from(("", "x", "both")),
    seed=st.integers(0, 99),
)
def test_a_gated_unit_is_one_kernel_with_the_same_meaning(
    activation: str, join: str, swapped: bool, bias: bool, transposed: bool, batch: str, seed: int
) -> None:
    right = "N, K" if transposed else "K, N"
    right = f"B, {right}" if batch == "both" else right
    left = "B, M, K" if batch else "M, K"
    result = "B, M, N" if batch else "M, N"
    gate = f"x @ g{'.T' * transposed}" + " + b" * bias
    parts = [activation.format(f"({gate})"), f"(x @ u{'.T' * transposed})"]
    body = f" {join} ".join(parts[::-1] if swapped else parts)
    found = program(
        f"kernel k[{'B, ' * bool(batch)}M, N, K]"
        f"(x: f16[{left}], g: f16[{right}], u: f16[{right}], b: f32[N]) -> f32[{result}] {{ return {body} }}"
    )
    (gemm,) = found.kernels
    assert isinstance(gemm, GemmOp)
    assert gemm.is_pair

    rng = np.random.default_rng(seed)
    sizes = {"B": 2, "M": 3, "N": 4, "K": 5}
    x, g, u = (rng.standard_normal([sizes[d] for d in t.split(", ")]) for t in (left, right, right))
    b = rng.standard_normal(4)
    products = [x @ (np.swapaxes(w, -1, -2) if transposed else w) for w in (g, u)]
    values = [ACTIVATIONS[activation](products[0] + b * bias), products[1]]
    want = {"*": np.multiply, "-": np.subtract, "+": np.add}[join](*(values[::-1] if swapped else values))
    (got,) = interpret_program(found, [x, g, u, b])
    # Only the result is rounded, to f32: neither product is.
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


HEAD = "kernel k[M, N, K](x: {0}[M, K], g: {0}[{1}], u: {0}[{1}], s: f32[M, N]) -> f32[M, N] {{ {2} }}"
GATED = "return silu(x @ g) * (x @ u)"
TURNED = "return silu(x @ g.T) * (x @ u.T)"


@pytest.mark.parametrize(
    ("dtype", "right", "body", "schedule", "expected"),
    [
        ("f32", "N, K", TURNED, "", ["pair"]),
        # Operands of this kind trade places, and only a right one may be double.
        ("f32", "K, N", GATED, "", ["gemm", "gemm"]),
        ("bf16", "K, N", GATED, "", ["pair"]),
        ("bf16", "N, K strides(256, 1)", TURNED, "", ["pair"]),
        ("e4m3", "N, K", TURNED, "", ["pair"]),
        ("s8", "N, K", TURNED, "", ["gemm", "gemm"]),
        # Strides that differ at run time lead nowhere.
        ("bf16", "N, K strides(_, 1)", TURNED, "", ["gemm", "gemm"]),
        ("bf16", "N, K", TURNED, "schedule k for sm_90a { mainloop = multistage }", ["gemm", "gemm"]),
        ("bf16", "N, K", TURNED, "schedule k for sm_90a { mainloop = pingpong }", ["pair"]),
        # What another kernel does with the result, or before the products, is no hindrance.
        (
            "bf16",
            "N, K",
            "stage h = silu(x @ g.T) * (x @ u.T) return h / sum(h)",
            "",
            ["pair", "reduce", "map"],
        ),
        ("bf16", "N, K", "y = relu(x) return tanh(y @ g.T) * (y @ u.T)", "", ["map", "pair"]),
        # Three products: two of them.
        ("bf16", "N, K", "return (x @ g.T) * (x @ u.T) + (x @ (g * u).T)", "", ["pair", "map", "gemm"]),
        ("bf16", "N, K", "return silu(x @ g.T) * (x @ u.T) + s", "", ["pair"]),
        # What both products meet only after a reduction of one of them.
        ("bf16", "N, K", "h = x @ g.T return h / sum(h) * (x @ u.T)", "", ["gemm", "gemm"]),
    ],
)
def test_what_makes_a_pair(dtype: str, right: str, body: str, schedule: str, expected: list[str]) -> None:
    extents, _, layout = right.partition(" strides")
    shape = f"{extents}] strides{layout}" if layout else f"{extents}]"
    text = HEAD.replace("[{1}]", "[{1}").format(dtype, shape, body)
    assert kinds(f"{text}\n{schedule}") == expected


@pytest.mark.parametrize(("dtype", "expected"), [("e4m3", ["pair"]), ("s8", ["gemm", "gemm"])])
def test_results_of_eight_bits(dtype: str, expected: list[str]) -> None:
    text = HEAD.format("bf16", "N, K", TURNED).replace("-> f32[M, N]", f"-> {dtype}[M, N]")
    assert kinds(text) == expected


REDUCTIONS = {
    "sum(y, axis=1)": ("[M]", lambda y: y.sum(axis=1)),
    "max(y * y, axis=0)": ("[N]", lambda y: (y * y).max(axis=0)),
    "amax(y)": ("[]", lambda y: np.abs(y).max()),
}


@settings(max_examples=examples(15))
@given(
    reduced=st.sampled_from(sorted(REDUCTIONS)),
    stored=st.booleans(),
    residual=st.sampled_from(("", "r", "t.T")),
    keeps_gate=st.booleans(),
    seed=st.integers(0, 99),
)
def test_residuals_reductions_and_further_results_are_part_of_the_kernel(
    reduced: str, stored: bool, residual: str, keeps_gate: bool, seed: int
) -> None:
    type, reduction = REDUCTIONS[reduced]
    wanted = {"y": "f32[M, N]"} if stored else {}
    wanted |= {"gate": "f32[M, N]"} if keeps_gate else {}
    wanted |= {"s": f"f32{type}"}
    values = ", ".join(reduced if name == "s" else name for name in wanted)
    found = program(
        "kernel k[M, N, K](x: f16[M, K], g: f16[N, K], u: f16[N, K], r: f16[M, N], t: f32[N, M])"
        f" -> ({', '.join(f'{n}: {t}' for n, t in wanted.items())}) {{"
        f" gate = x @ g.T y = tanh(gate) * (x @ u.T){f' + {residual}' * bool(residual)} return {values} }}"
    )
    (gemm,) = found.kernels
    assert isinstance(gemm, GemmOp)
    assert gemm.is_pair

    rng = np.random.default_rng(seed)
    sizes = {"M": 3, "N": 4, "K": 5}
    x, g, u, r, t = (rng.standard_normal([sizes[d] for d in dims]) for dims in ("MK", "NK", "NK", "MN", "NM"))
    y = np.tanh(x @ g.T) * (x @ u.T) + {"": 0, "r": r, "t.T": t.T}[residual]
    want = {"y": y, "gate": x @ g.T, "s": reduction(y)}
    for name, got in zip(wanted, interpret_program(found, [x, g, u, r, t]), strict=True):
        np.testing.assert_allclose(got, want[name], rtol=1e-6, atol=1e-6)
