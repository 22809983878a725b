"""Scans, softmax, normalisation, attention and elements by number: against torch, and after `decompose`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders import kernel, tensor
from tensorlib import check, random, run, same_when_decomposed

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu import tensor_rules
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.rules import TypeRuleError
from mucc.passes.decompose import EXPANSIONS

torch = pytest.importorskip("torch")
F = torch.nn.functional

X = random(2, 4, 3, 6)


@pytest.mark.parametrize(
    ("expression", "reference"),
    [
        ("cumsum(x, axis=1)", lambda x: x.cumsum(1)),
        ("cumprod(x, -1)", lambda x: x.cumprod(-1)),
        ("cumsum(x, axis=3, reverse=on)", lambda x: x.flip(3).cumsum(3).flip(3)),
        ("cumsum(x, axis=2, exclusive=on)", lambda x: x.cumsum(2) - x),
        ("cumprod(x, axis=1, exclusive=on, reverse=on)", lambda x: x.flip(1).cumprod(1).flip(1) / x),
        ("softmax(x)", lambda x: x.softmax(-1)),
        ("softmax(1000 * x, axis=1)", lambda x: (1000 * x).softmax(1)),
        ("log_softmax(1000 * x, axis=-2)", lambda x: (1000 * x).log_softmax(-2)),
        ("logsumexp(1000 * x, axis=(0, 3))", lambda x: (1000 * x).logsumexp((0, 3))),
        ("logsumexp(x, axis=1, keepdims=on)", lambda x: x.logsumexp(1, keepdim=True)),
        ("layer_norm(x)", lambda x: F.layer_norm(x, (6,))),
        ("layer_norm(x, axis=(-2, -1), eps=0.1)", lambda x: F.layer_norm(x, (3, 6), eps=0.1)),
        ("rms_norm(x, eps=1e-6)", lambda x: F.rms_norm(x, (6,), eps=1e-6)),
        ("rms_norm(x, axis=1)", lambda x: x * (x.square().mean(1, keepdim=True) + 1e-5).rsqrt()),
        ("batch_norm(x, eps=1e-3)", lambda x: F.batch_norm(x, None, None, training=True, eps=1e-3)),
        (
            "batch_norm(reshape(x, (8, 18)))",
            lambda x: F.batch_norm(x.reshape(8, 18), None, None, training=True),
        ),
        ("instance_norm(x)", lambda x: F.instance_norm(x)),
        ("group_norm(x, 2)", lambda x: F.group_norm(x, 2)),
        ("group_norm(x, groups=4, eps=0.5)", lambda x: F.group_norm(x, 4, eps=0.5)),
    ],
)
def test_against_torch(expression: str, reference: Any) -> None:
    check(expression, reference, X)


@pytest.mark.parametrize("function", sorted(str(op.SURFACE) for op in EXPANSIONS))
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_functions_of_narrow_numbers(function: str, dtype: str) -> None:
    """What is computed of numbers alone is f32, whatever they were rounded to; `decompose` keeps that."""
    call = f"{function}(cast(0.75, {dtype}){', 0.5, 1' if function == 'clamp' else ''})"
    compilation = compile_text(Source("f.mcu", f"kernel f[M](a: f32[M]) -> f32[M] {{ return a - -{call} }}"))
    inputs = [random(5)]
    wanted = compilation.interpret("f", inputs)
    np.testing.assert_allclose(compilation.interpret_lowered("f", inputs)[0], wanted[0], rtol=1e-5)


ATTENTION = [
    ("attention(q, k, v)", {}),
    ("attention(q, k, v, scale=0.5)", {"scale": 0.5}),
    ("attention(q, k, v, causal=on)", {"is_causal": True}),
    ("attention(q, k, v, m)", {"attn_mask": True}),
    ("attention(q, k, v, mask=m > 0)", {"attn_mask": True}),
]


@pytest.mark.parametrize(("call", "options"), ATTENTION)
def test_attention(call: str, options: dict[str, Any]) -> None:
    q, k, v, m = random(2, 3, 5, 4), random(2, 3, 7, 4), random(2, 3, 7, 6), random(5, 7)
    m[:, 0] = 1.0
    m[2] = -np.inf  # a row that sees nothing
    mcu = f"""kernel f[B, H=3, M, N, D=4](q: f32[B, H, M, D], k: f32[B, H, N, D], v: f32[B, H, N, 6],
        m: f32[M, N])
        -> f32[B, H, M, 6] {{ return {call} }}"""
    (y,) = run(mcu, q, k, v, m)
    if "attn_mask" in options:
        mask = torch.from_numpy(m)
        options = {"attn_mask": mask > 0 if "> 0" in call else mask}
    expected = F.scaled_dot_product_attention(*(torch.from_numpy(t) for t in (q, k, v)), **options)
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-9, atol=1e-12)
    (y,) = run(mcu.replace("D=4", "D"), q, k, v, m)  # the scale follows from an extent of the call
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-9, atol=1e-12)


def test_elements_by_number() -> None:
    x = random(3, 5)
    index = np.array([[4, 0], [1, 1], [2, 3]])
    mcu = "kernel f[M](x: f32[M, 5], i: s32[M, 2]) -> f32[M, 2] { return take_along(x, i, axis=1) }"
    (y,) = run(mcu, x, index.astype(np.float64))
    np.testing.assert_array_equal(y, np.take_along_axis(x, index, 1))
    with pytest.raises(ValueError, match="MU6024"):
        interpret_kernel(kernel(mcu), [x, index + 1])


def test_losses_are_compositions() -> None:
    x, rows = random(4, 10), np.array([3.0, 0.0, 9.0, 9.0])
    (y,) = run(
        """kernel cross_entropy[N](x: f32[N, 10], rows: s32[N]) -> f32[] {
            return -mean(take_along(log_softmax(x), rows[:, None], axis=1))
        }""",
        x,
        rows,
    )
    expected = F.cross_entropy(torch.from_numpy(x), torch.from_numpy(rows).long())
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-12)


def test_infinities() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 0.0], [-np.inf, 2.0]])
    mcu = "kernel f(x: f32[3, 2]) -> (a: f32[3], b: f32[3, 2]) { return logsumexp(x, axis=1), softmax(x) }"
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = run(mcu, x)
        found = kernel(mcu, "decompose")
        c, _ = interpret_kernel(found, [x])
    expected = torch.logsumexp(torch.from_numpy(x), 1).numpy()
    np.testing.assert_array_equal(a, expected)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_array_equal(b, torch.from_numpy(x).softmax(1).numpy())


@pytest.mark.parametrize(
    "body",
    [
        "softmax(x)",
        "softmax(x, axis=0)",
        "log_softmax(x) * 2",
        "logsumexp(x, axis=1, keepdims=on) - x",
        "layer_norm(x) * w + w",
        "rms_norm(x, axis=1) * w",
        "batch_norm(x)",
        "group_norm(x, 3)",
        "instance_norm(reshape(x, (2, 2, 6)))",
        "softmax(x @ x.T)",
        "attention(x, x, x)",
        "attention(x, x, x, w[:, None] + w * 0 > 0)",
        "attention(x, x, x, log(relu(w))[:, None] + w * 0)",
    ],
)
def test_composites_have_kernels(body: str) -> None:
    x, w = (random(*shape).astype(np.float32) for shape in ((6, 6), (6,)))
    if "instance" in body:
        x = x[:4]
    mcu = f"kernel f(x: f32[{len(x)}, 6], w: f32[6]) -> f32[] {{ y = {body} return sum(y * y) + amax(y) }}"
    w[:2] = 1.0, -1.0  # in masks of attention, a row that sees all and one that sees nothing
    same_when_decomposed(mcu, x, w)
    compilation = compile_text(Source("f.mcu", mcu))
    (expected,) = compilation.interpret("f", [x, w])
    (lowered,) = compilation.interpret_lowered("f", [x, w])
    np.testing.assert_allclose(lowered, expected, rtol=2e-2)


@pytest.mark.parametrize("call", ["softmax(x)", "attention(x, x, x)", "attention(x, x, x, x @ x.T)"])
def test_composites_over_run_time_dims(call: str) -> None:
    mcu = f"kernel f[M, N](x: bf16[M, N]) -> bf16[M, N] {{ return {call} }}"
    compilation = compile_text(Source("f.mcu", mcu))
    x = random(4, 7)
    (expected,) = compilation.interpret("f", [x])
    (lowered,) = compilation.interpret_lowered("f", [x])
    np.testing.assert_allclose(lowered, expected, rtol=1e-2)


@pytest.mark.parametrize(
    ("rule", "code", "message"),
    [
        (
            lambda: tensor_rules.attention(tensor("M", 8), tensor("N", 4), tensor("N", 8)),
            "MU1103",
            "queries f32[M, 8], keys f32[N, 4] and values f32[N, 8] do not fit",
        ),
        (
            lambda: tensor_rules.attention(*[tensor("M", 8, dtype="s8")] * 3),
            "MU1103",
            "attention needs three tensors of bf16, f16, f32 or e4m3, got s8, s8, s8",
        ),
        (
            lambda: tensor_rules.attention(*[tensor("M", 8)] * 3, tensor("N")),
            "MU1103",
            "mask f32[N] does not broadcast to the scores [M, M]",
        ),
        (
            lambda: tensor_rules.take_along(tensor("M", 8), tensor("M", dtype="s32"), 1),
            "MU1104",
            "index s32[M] does not lie along axis 1 of f32[M, 8]",
        ),
        (
            lambda: tensor_rules.take_along(tensor("M", 8), tensor("M", 1), 1),
            "MU1072",
            "the index must be a tensor of s32, got f32[M, 1]",
        ),
        (
            lambda: tensor_rules.take_along(tensor("M", dtype="bool"), tensor("M", dtype="s32"), 0),
            "MU1073",
            "take_along needs a tensor of numbers, got bool[M]",
        ),
        (
            lambda: tensor_rules.along("softmax", tensor("M"), (1,)),
            "MU1028",
            "axis 1 is out of range for 1 axes",
        ),
    ],
)
def test_refusals(rule: Any, code: str, message: str) -> None:
    with pytest.raises(TypeRuleError) as error:
        rule()
    assert (error.value.code, error.value.message) == (code, message)


def test_dtypes() -> None:
    assert tensor_rules.scan(tensor("M", dtype="bf16"), 0) == tensor("M", dtype="bf16")
    assert tensor_rules.scan(tensor("M", dtype="u8"), 0) == tensor("M", dtype="s32")
    assert tensor_rules.scan(tensor("M", dtype="e4m3"), 0) == tensor("M")
    assert tensor_rules.along("softmax", tensor("M", dtype="f16"), (0,)) == tensor("M", dtype="f16")
    assert tensor_rules.log_sum(tensor("M", dtype="f16"), (0,)) == tensor()
