"""What numbers imports compute with: masks of attention, integers, NaN, and rounding of 16-bit floats."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from importerlib import Applied, agrees  # noqa: E402
from on_host import Program, run  # noqa: E402

from mucc.compiler.driver import Options, compile_text  # noqa: E402
from mucc.diagnostics import Source  # noqa: E402
from mucc.dialects.walk import postorder  # noqa: E402
from mucc.torch.importer import from_torch  # noqa: E402

F = torch.nn.functional
INFINITY = math.inf


# Masks


def bools() -> Any:
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[1] = False
    mask[2, 3:] = False
    return mask


MASKS = [
    bools(),
    torch.zeros(5, 7).masked_fill(~bools(), -INFINITY),
    torch.zeros(5, 7).masked_fill(~bools(), -1e30),
]


@pytest.mark.parametrize("mask", MASKS, ids=["bool", "infinity", "large"])
@pytest.mark.parametrize("whole", [False, True], ids=["compiled", "whole"])
def test_rows_that_are_masked_completely(mask: Any, whole: bool):
    torch.manual_seed(1)
    q, k, v = torch.randn(2, 5, 8), torch.randn(2, 7, 8), torch.randn(2, 7, 8)
    made = from_torch(Applied(F.scaled_dot_product_attention), (q, k, v, mask), whole=whole)
    assert made.program.kernels
    agrees(made, q, k, v, mask)
    got = made.interpreted()(q, k, v, mask)
    assert torch.isfinite(got).all()


def test_causal_attention_of_other_lengths():
    module = Applied(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    for rows, columns in ((5, 3), (3, 5)):
        q, k, v = torch.randn(2, rows, 8), torch.randn(2, columns, 8), torch.randn(2, columns, 8)
        agrees(from_torch(module, (q, k, v), whole=True), q, k, v)


@pytest.mark.parametrize("shape", [None, (1, 1, 5, 7), (5, 7)], ids=str)
@pytest.mark.parametrize("whole", [False, True], ids=["compiled", "whole"])
def test_heads_of_queries_may_share_keys(whole: bool, shape: tuple[int, ...] | None):
    q, k, v = (torch.randn(n, dtype=torch.float16) for n in ((1, 6, 5, 8), (1, 2, 7, 8), (1, 2, 7, 16)))
    mask = () if shape is None else (torch.randn(shape, dtype=torch.float16),)
    shared = Applied(lambda *inputs: F.scaled_dot_product_attention(*inputs, enable_gqa=True))
    made = from_torch(shared, (q, k, v, *mask), whole=whole)
    assert made.program.kernels
    agrees(made, q, k, v, *mask)


@pytest.mark.parametrize("shape", [None, (1, 1, 5, 7), (5, 7), (1, 6, 5, 7)], ids=str)
def test_repeated_heads_are_read_where_they_are(shape: tuple[int, ...] | None):
    """Keys and values are repeated as transformers does it; a mask of each head is of the repeated ones."""

    def attend(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        k, v = (x[:, :, None].expand(1, 2, 3, 7, x.shape[-1]).reshape(1, 6, 7, x.shape[-1]) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, *mask)

    inputs = [torch.randn(n, dtype=torch.float16) for n in ((1, 6, 5, 8), (1, 2, 7, 8), (1, 2, 7, 16))]
    inputs += [] if shape is None else [torch.randn(shape, dtype=torch.float16)]
    made = from_torch(Applied(attend), tuple(inputs), whole=True)
    assert "broadcast(" not in made.text
    agrees(made, *inputs)


def test_heads_that_are_repeated_otherwise_stay():
    """All heads in turn, one after the other, are no heads that neighbours share."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        k, v = (x[:, None].expand(1, 3, 2, 7, 8).reshape(1, 6, 7, 8) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v)

    inputs = tuple(torch.randn(1, n, m, 8) for n, m in ((6, 5), (2, 7), (2, 7)))
    agrees(from_torch(Applied(attend), inputs, whole=True), *inputs)


def test_safe_softmax():
    x = torch.tensor([[1.0, 2.0, -INFINITY], [-INFINITY] * 3, [math.nan, 1.0, 2.0]])
    made = from_torch(Applied(lambda x: torch.ops.aten._safe_softmax(x, -1)), (x,), whole=True)
    assert made.program.kernels
    agrees(made, x)


# Integers

BIG = torch.tensor([2**40 + 1, 5, -(2**35)])
ROWS = torch.tensor([2, 0])

WIDE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda b: b > 7, (BIG,)),
    (lambda b: b.float(), (BIG,)),
    (lambda b: b.flip(0).view(3, 1).expand(3, 2), (BIG,)),
    (lambda b: torch.cat([b, b]), (BIG,)),
    (lambda b: b.bool(), (BIG,)),
    (lambda b, i: b[i], (BIG, ROWS)),
    (lambda b, i: b.gather(0, i), (BIG, ROWS)),
    (lambda b, i: torch.index_select(b, 0, i), (BIG, ROWS)),
    (lambda x, b: x * b, (torch.randn(3), BIG)),
    (lambda x, b: x.masked_fill(b > 1, 0), (torch.randn(3), BIG)),
    (lambda b: (torch.arange(8)[None] < b[:, None]).float(), (BIG,)),
]


@pytest.mark.parametrize(("function", "args"), WIDE)
def test_integers_of_64_bits(function: Callable[..., Any], args: tuple[Any, ...]):
    agrees(from_torch(Applied(function), args, whole=True), *args)


def test_indices_and_counts_are_taken_by_kernels():
    x = torch.randn(4, 8)
    cases: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x, i: F.embedding(i, x).relu(), (x, torch.tensor([3, 0]))),
        (lambda x: (torch.arange(8)[None] < 5).float() * x, (x,)),
        (lambda x: (x.argmax(1) > 3).float(), (x,)),
    ]
    for function, args in cases:
        made = from_torch(Applied(function), args, whole=True)
        assert all(row.kernel for row in made.rows), made.rows
        agrees(made, *args)


REDUCED: list[Callable[..., Any]] = [
    lambda x: x.argmax(1) * 2,
    lambda x: x.argmin(0, keepdim=True).float(),
    lambda x: x.argmax().float() + x.argmin(),
    lambda x: x.argmax(keepdim=True).float(),
    lambda x: x.prod(1) + x.prod(),
    lambda x: (x > 2).any(1).float() + (x > -2).all().float(),
    lambda x: torch.logsumexp(x, 1),
    lambda x: torch.amax(x, (0, 1)) - torch.amin(x, 0),
]


@pytest.mark.parametrize("function", REDUCED)
def test_reductions_have_kernels(function: Callable[..., Any]):
    x = torch.randn(5, 7)
    made = from_torch(Applied(function), (x,), whole=True)
    assert all(row.kernel for row in made.rows), made.rows
    agrees(made, x)


ELEMENTARY: dict[str, Callable[[Any], Any]] = {
    "sinh": lambda x: x.sinh() / x,
    "cosh": torch.cosh,
    "asinh": lambda x: x.asinh() / x,
    "acosh": torch.acosh,
    "atanh": lambda x: x.atanh() / x,
    "exp2": torch.exp2,
    "log1p": lambda x: x.log1p() / x,
}


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_are_accurate_in_f32(name: str, tmp_path: Path):
    """In kernels, near 0 and where a sum of exponentials is about to overflow."""
    numbers = [
        1e-30,
        -1e-6,
        1e-3,
        0.3,
        -0.9,
        1.5,
        -3.0,
        20.0,
        -88.9,
        89.2,
        5e3,
        -3e4,
        1e20,
        INFINITY,
        math.nan,
    ]
    x = torch.tensor(numbers)
    made = from_torch(Applied(ELEMENTARY[name]), (x,))
    assert all(row.kernel for row in made.rows), made.rows
    agrees(made, x)
    torch.testing.assert_close(
        made.interpreted()(x), ELEMENTARY[name](x.double()).float(), rtol=1e-6, atol=1e-6, equal_nan=True
    )
    program = Program.of(compile_text(Source("k.mcu", made.text), Options("sm_90a")), tmp_path)
    for seed in range(4):
        run(program, program.kernels[0], {}, seed, x.tolist(), 2e-6)


def kl(x: Any, y: Any, m: Any, n: Any) -> Any:
    return F.kl_div(x, y.relu())


COUNTED: dict[str, Callable[..., Any]] = {
    "bools": lambda x, y, m, n: [m * n, m + n, m == n, m != n, torch.where(m, n, ~n), n.masked_fill(m, True)],
    "orders": lambda x, y, m, n: [torch.maximum(m, n), torch.minimum(m, n), m < n, m >= n, m == x],
    "infinities": lambda x, y, m, n: [x.log().isinf(), x.log().isfinite(), x.masked_fill(m, math.nan)],
    "others than NaN": lambda x, y, m, n: [torch.fmax(x.log(), y), torch.fmin(y, x.log())],
    "losses": lambda x, y, m, n: [kl(x, y, m, n), torch.xlogy(x, y), F.logsigmoid(x), torch.logaddexp(x, y)],
    "means of some": lambda x, y, m, n: [(x * m).sum(1) / m.sum(1), x.masked_fill(m, math.nan).nanmean()],
    "counts": lambda x, y, m, n: [m.count_nonzero(1) * x.sum(1), (n.sum() + m[0].sum()).float()],
}


@pytest.mark.parametrize("name", COUNTED)
def test_bools_and_counts_are_in_kernels(name: str):
    torch.manual_seed(2)
    x, y, m, n = torch.randn(5, 7), torch.randn(5, 7), bools(), torch.rand(5, 7) > 0.5
    made = from_torch(Applied(COUNTED[name]), (x, y, m, n), whole=True)
    assert all(row.kernel for row in made.rows), made.rows
    agrees(made, x, y, m, n)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_signs(dtype: Any):
    x = torch.tensor([1.5, -2, 0, -0.0, math.nan, INFINITY, -INFINITY], dtype=dtype)
    made = from_torch(Applied(torch.sign), (x,), whole=True)
    assert made.program.kernels
    assert torch.equal(made.interpreted()(x), torch.sign(x))


INTEGRAL: dict[str, Callable[..., Any]] = {
    "angles": lambda x, y, n, m: [x.sin(), x.cos(), x.tan(), torch.atan2(x, y), x.atan()],
    "arcs": lambda x, y, n, m: [x.clamp(-1, 1).asin(), x.clamp(-1, 1).acos(), (x + 9).asin()],
    "rounding": lambda x, y, n, m: [x.floor(), x.ceil(), x.round(), x.trunc(), x.frac(), n.floor(), x.int()],
    "remainders": lambda x, y, n, m: [
        x % y,
        x.fmod(y),
        x % 2,
        torch.remainder(5, y),
        n % m,
        n.fmod(m),
        n % 7,
    ],
    "quotients": lambda x, y, n, m: [x // y, x // 0.1, n // m, n // 3, -7 // m],
    "modes": lambda x, y, n, m: [
        torch.div(a, b, rounding_mode=mode)
        for a, b in ((x, y), (n, m), (n, -3))
        for mode in ("floor", "trunc")
    ],
    "bits": lambda x, y, n, m: [n & m, n | 0x7FFFFFFF, n ^ m, ~n, n & 255, torch.bitwise_xor(3, n)],
    "shifts": lambda x, y, n, m: [n << 3, n >> m, n << m, 1 << m, torch.bitwise_right_shift(n, 2)],
    "bools": lambda x, y, n, m: [(n > 0) ^ (m > 0), torch.logical_xor(n, m > 2), ~(n > m), (n > 0) & n],
}


@pytest.mark.parametrize("name", INTEGRAL)
def test_what_rounds_or_takes_bits_is_in_kernels(name: str):
    torch.manual_seed(2)
    x = torch.cat([torch.randn(20) * 3, torch.tensor([0.5, 1.5, 2.5, -0.5, -0.0, 1e6, INFINITY, math.nan])])
    y = torch.cat([torch.randn(20) + 4, torch.tensor([2.0, -3.0, 0.25, INFINITY, 1.0, 7.0, 2.0, 1.0])])
    if name == "rounding":
        x = x[:-2]
    n, m = (
        torch.randint(-(2**31), 2**31, (28,), dtype=torch.int32),
        torch.randint(1, 31, (28,), dtype=torch.int32),
    )
    args = (x, y, n, m)
    made = from_torch(Applied(INTEGRAL[name]), args, whole=True)
    assert all(row.kernel for row in made.rows), made.rows
    agrees(made, *args)
    for got, want in zip(made.interpreted()(*args), INTEGRAL[name](*args), strict=True):
        if not want.is_floating_point():
            assert torch.equal(got, want)


def test_bits_of_narrow_integers():
    def bits(u: Any, s: Any) -> Any:
        return u & 15, ~u, u << 3, u >> 9, u ^ 255, s & 15, ~s, s >> 2, s | -128

    u = torch.arange(256, dtype=torch.uint8)
    args = (u, u.view(torch.int8))
    made = from_torch(Applied(bits), args, whole=True)
    assert all(row.kernel for row in made.rows), made.rows
    for got, want in zip(made.interpreted()(*args), bits(*args), strict=True):
        assert got.dtype == want.dtype and torch.equal(got, want)


# Rounding


def square(x: Any) -> Any:
    return (x * x).float()


def test_where_16_bit_floats_are_rounded():
    x = torch.full((8, 8), 1187.0, dtype=torch.float16)
    fused, eager = (from_torch(Applied(square), (x,), round=round) for round in ("fused", "eager"))
    assert "cast(x * x, f32)" in fused.text.replace("args_0", "x")
    assert "cast(cast(x * x, f16), f32)" in eager.text.replace("args_0", "x")
    assert fused.interpreted()(x)[0, 0] == 1408969
    assert torch.equal(eager.interpreted()(x), square(x))
    agrees(fused, x)
    agrees(eager, x)


def test_conversions_of_the_module_round_always():
    x = torch.randn(8, 8)
    made = from_torch(Applied(lambda x: (x * 1.001).half().float() - x), (x,))
    assert made.text.count("cast") == 2
    agrees(made, x)


CHAINS: list[Callable[[Any], Any]] = [
    lambda x: ((x + 1) - x).float(),
    lambda x: torch.softmax(x / 100, -1) * x,
    lambda x: F.layer_norm(x * 3, (8,)).float().sqrt(),
    lambda x: (x.bfloat16() * 1.01 - x.bfloat16()).float(),
    lambda x: (x[:, :4].relu() + 0.1).t(),
    lambda x: torch.full((8, 8), 0.1, dtype=torch.float16).float() * x,
]


@pytest.mark.parametrize("function", CHAINS)
@pytest.mark.parametrize("round", ["fused", "eager"])
def test_each_way_of_rounding_agrees(function: Callable[[Any], Any], round: str):
    torch.manual_seed(2)
    x = (torch.randn(8, 8) * 300).half()
    agrees(from_torch(Applied(function), (x,), round=round, whole=True), x)


def test_wrong_results_of_16_bit_floats_are_found():
    from mucc.torch.importer.precise import nearest

    eager, exact = torch.tensor([math.inf, 1.0, 2.0]), torch.tensor([70000.0, 1.5, 2.5]).double()
    got = torch.tensor([70001.0, 1.1, 9.0])
    assert nearest(got, eager, exact).tolist() == [70000.0, 1.0, 2.5]


def test_rounding_by_the_backend():
    from mucc.torch.backend import torch_backend

    x = torch.full((8, 8), 1187.0, dtype=torch.float16)
    for round, expected in (("fused", 1408969.0), ("eager", math.inf)):
        torch._dynamo.reset()
        backend = torch_backend(interpret=True, fallback="error", round=round, regions="all")
        assert torch.compile(Applied(square), backend=backend)(x)[0, 0] == expected


# Problem files

CONSTRUCTED = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = [r.item() for r in torch.linspace(0, 0.2, 3)]
        self.hidden = torch.zeros(4, 8)
    def forward(self, x):
        self.hidden = torch.tanh(self.hidden + x) * self.rates[1]
        return self.hidden + self.rates[2]
def get_inputs():
    x = torch.rand(4, int(torch.tensor([8]).sum().item()))
    return [x]
"""


def test_a_constructor_may_look_at_values(tmp_path: Path):
    from mucc.torch.importer.child import serve
    from mucc.torch.importer.request import Request

    answer = serve(Request.of(str(tmp_path / "p.py"), CONSTRUCTED, verify=True))
    assert answer.agrees and {c.name for c in answer.checks} >= {"result 0", "hidden"}


# Walks


def test_postorder_is_that_of_a_recursion():
    needs = {"a": "bc", "b": "d", "c": "db", "d": "", "e": ""}
    assert "".join(postorder("a", lambda n: needs[n])) == "dbca"
    assert list(postorder(0, lambda n: [n + 1] if n < 100_000 else []))[-1] == 0
