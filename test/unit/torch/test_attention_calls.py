"""Calls of attention that PyTorch takes apart into products and a softmax: kernels store no scores."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from budget import alternately_long

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.compiler.driver import compile_text  # noqa: E402
from mucc.diagnostics.core import Source  # noqa: E402

pytestmark = pytest.mark.usefixtures("compiled_anew")

attention: Any = torch.nn.functional.scaled_dot_product_attention
B, H, S, T, D = 2, 4, 24, 40, 16


def tensors(*lead: int, keys: tuple[int, ...] | None = None, dtype: Any = None) -> list[Any]:
    heads = lead if keys is None else keys
    made = (torch.randn(*d, D, dtype=dtype or torch.bfloat16) for d in ((*lead, S), (*heads, T), (*heads, T)))
    return [t.requires_grad_() for t in made]


def agree(expected: Any, got: Any) -> None:
    torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)


def programs(function: Any, *inputs: Any, grad: bool = False) -> list[str]:
    """Compile a function, compare results and gradients with eager PyTorch; returns the lowered programs."""
    import mucc

    made = mucc.torch_backend(interpret=True, fallback="error", regions="all", rest="eager")
    compiled = torch.compile(function, backend=made)
    with torch.set_grad_enabled(grad):
        expected, got = function(*inputs), compiled(*inputs)
    agree(expected, got)
    if grad:
        learned = [t for t in inputs if t.requires_grad]
        by = torch.randn_like(expected)
        for one, other in zip(*(torch.autograd.grad(y, learned, by) for y in (expected, got)), strict=True):
            agree(one, other)
    return [str(compile_text(Source("k.mcu", p.text())).cutlass) for p in made.programs]


def stores_scores(lowered: str) -> bool:
    return f"{S}, {T}]" in lowered.partition("slots =")[2].partition("\n")[0]


# Other than four axes

MASKS = {
    "2": ((), None),
    "3": ((B,), None),
    "3 with a mask of rows and columns": ((B,), (S, T)),
    "3 with a mask of all axes": ((B,), (B, S, T)),
    "5": ((2, B, H), None),
    "5 with a mask of all axes": ((2, B, H), (2, B, 1, S, T)),
    "5 with a mask that broadcasts": ((2, B, H), (1, 1, H, S, T)),
}


@pytest.mark.parametrize("form", MASKS)
@pytest.mark.parametrize("grad", [False, True])
def test_attention_of_other_axes_is_one_kernel(form: str, grad: bool):
    lead, dims = MASKS[form]
    if grad and dims:
        dims = (*(1 for _ in dims[:-2]), *dims[-2:])
    more = [] if dims is None else [torch.randn(dims).bfloat16()]
    found = programs(lambda *given: attention(*given), *tensors(*lead), *more, grad=grad)
    assert len(found) == 1 + grad
    assert "cutlass.attention " in found[0] and (not grad or "cutlass.attention_backward " in found[1])
    assert not any(map(stores_scores, found))


def test_attention_of_three_axes_is_causal_and_shares_heads():
    q, k, v = tensors(H, keys=(2,))
    (found,) = programs(lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True), q, k, v)
    assert "cutlass.attention " in found and not stores_scores(found)


@pytest.mark.parametrize(
    "call",
    [
        lambda q, k, v: attention(q, k, v, dropout_p=0.5),
        lambda q, k, v: attention(q[:, None], k[:, None], v[:, None]),
        lambda q, k, v: attention(q[None], k, v),
    ],
)
def test_other_calls_stay_as_they_are(call: Any):
    from mucc.torch.backend.four_axes import give_four_axes

    changed: list[int] = []

    def backend(module: Any, inputs: Any) -> Any:
        changed.append(give_four_axes(module))
        return module

    torch.compile(call, backend=backend)(*tensors(B))
    assert changed == [0]


# PyTorch's math path


@pytest.fixture
def as_tf32() -> Iterator[None]:
    """Products of f32 may be rounded to tf32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


FORMS: dict[str, tuple[Any, Any]] = {
    "plain": (lambda q, k, v: attention(q, k, v), None),
    "scale": (lambda q, k, v: attention(q, k, v, scale=0.3), None),
    "causal": (lambda q, k, v: attention(q, k, v, is_causal=True), None),
    "mask": (lambda q, k, v, m: attention(q, k, v, m), (B, 1, S, T)),
    "expanded": (lambda q, k, v, m: attention(q, k, v, m.expand(B, H, S, T)), (1, 1, S, T)),
    "bools": (lambda q, k, v, m: attention(q, k, v, m > -1), (S, T)),
    "shared": (lambda q, k, v, m: attention(q, k, v, m, enable_gqa=True), (B, 1, S, T)),
    "hidden rows": (lambda q, k, v, m: attention(q, k, v, m > 0), (B, 1, S, 1)),
}


def in_every_dtype() -> Iterator[Any]:
    """Every form in one dtype, and a form with and without a mask in all; long tests take the rest."""
    for form, dtype in itertools.product(FORMS, ("float32", "bfloat16", "float16")):
        is_short = dtype == "bfloat16" or form in ("plain", "mask")
        yield pytest.param(form, dtype, marks=() if is_short else pytest.mark.long)


@pytest.mark.parametrize(("form", "dtype"), [*in_every_dtype()])
@pytest.mark.usefixtures("as_tf32")
def test_attention_in_parts_is_one_kernel(form: str, dtype: str):
    function, dims = FORMS[form]
    inputs = tensors(B, H, keys=(B, 2) if form == "shared" else None, dtype=getattr(torch, dtype))
    more = [] if dims is None else [torch.randn(dims, dtype=inputs[0].dtype)]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        (found,) = programs(function, *inputs, *more)
    assert found.count("cutlass.attention ") == 1 and not stores_scores(found)


def test_products_of_f32_that_are_not_of_tf32_stay():
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        (found,) = programs(lambda q, k, v: attention(q, k, v), *tensors(B, H, dtype=torch.float32))
    assert "cutlass.attention " not in found and stores_scores(found)


# nn.TransformerEncoderLayer


LAYERS = [*itertools.product(({}, {"norm_first": True, "activation": "gelu"}), ("", "keys", "all"))]
"""Options of a layer, and what it masks."""


@pytest.mark.parametrize("case", alternately_long(LAYERS), ids=str)
def test_encoder_layers_are_taken_apart(case: tuple[dict[str, Any], str]):
    options, masked = case
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dtype=torch.bfloat16, **options)
    given: dict[str, Any] = {}
    if masked:
        given["src_key_padding_mask"] = torch.arange(S) > torch.tensor([[20], [23]])
    if masked == "all":
        given["src_mask"] = torch.ones(S, S, dtype=torch.bool).triu(1)
    (found,) = programs(lambda x: layer.eval()(x, **given), torch.randn(B, S, 64).bfloat16())
    assert found.count("cutlass.attention ") == 1
