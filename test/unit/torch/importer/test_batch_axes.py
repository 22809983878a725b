"""Attention whose products have one axis of batches, as modules write it: what is imported has all axes."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from importerlib import Applied, agrees  # noqa: E402

import mucc  # noqa: E402
from mucc.compiler.driver import compile_text  # noqa: E402
from mucc.diagnostics.core import Source  # noqa: E402
from mucc.torch.importer import from_torch  # noqa: E402

B, H, S, T, D = 2, 4, 6, 10, 8


def clip(q: Any, k: Any, v: Any, mask: Any) -> Any:
    q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
    weights = torch.bmm(q * D**-0.5, k.transpose(1, 2))
    weights = (weights.view(B, H, S, T) + mask).view(B * H, S, T)
    return torch.bmm(weights.softmax(-1), v).view(B, H, S, D)


def bloom(q: Any, k: Any, v: Any, mask: Any) -> Any:
    bias = mask[:1, 0, :1].expand(B * H, 1, T)
    q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
    scores = bias.baddbmm(q, k.transpose(-1, -2), beta=1.0, alpha=D**-0.5).view(B, H, S, T)
    weights = (scores + mask).softmax(-1).view(B * H, S, T)
    return torch.bmm(weights, v).view(B, H, S, D)


def einsum(q: Any, k: Any, v: Any, mask: Any) -> Any:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / D**0.5 + mask
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def grouped(q: Any, k: Any, v: Any, mask: Any) -> Any:
    q, (k, v) = q.view(B, 2, 2, S, D), (x[:, :2] for x in (k, v))
    scores = torch.einsum("bhgqd,bhkd->bhgqk", q, k) / D**0.5 + mask[:, None]
    return torch.einsum("bhgqk,bhkd->bqhgd", scores.softmax(-1), v).flatten(2)


def windows(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Swin splits the axis of batches for the mask only."""
    scores = q @ k.transpose(-2, -1) * D**-0.5
    scores = (scores.view(1, B, H, S, T) + mask[None]).view(-1, H, S, T)
    return scores.softmax(-1) @ v


def lone_query(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = torch.einsum("bhqd,bhkd->bhqk", q[:, :, :1], k) / D**0.5 + mask[:, :, :1]
    return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)


def temperature(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Inductor writes a softmax of scaled values with a test of whether they are finite."""
    return (q @ k.transpose(-2, -1) * mask[:1, :, :1, :1]).softmax(-1) @ v


FORMS = (clip, bloom, einsum, grouped, windows, lone_query, temperature)


def _inputs() -> tuple[Any, ...]:
    torch.manual_seed(1)
    return (*(torch.randn(B, H, n, D).half() for n in (S, T, T)), torch.randn(B, 1, S, T).half())


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_attention_is_found(form: Callable[..., Any]) -> None:
    inputs = _inputs()
    made = from_torch(Applied(form), inputs, whole=True)
    lowered = str(compile_text(Source("k.mcu", made.program.text())).cutlass)
    assert lowered.count("cutlass.attention ") == 1 and "cutlass.gemm" not in lowered
    agrees(made, *inputs)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_attention_is_found_in_graphs_of_dynamo(form: Callable[..., Any]) -> None:
    """There every product is a `bmm`, with reshapes around it, and softmax is taken apart."""
    inputs = _inputs()
    backend = mucc.torch_backend(interpret=True, fallback="error", regions="all", rest="eager")
    with torch.no_grad():
        got = torch.compile(form, backend=backend)(*inputs)
    (program,) = backend.programs
    lowered = str(compile_text(Source("k.mcu", program.text())).cutlass)
    assert lowered.count("cutlass.attention ") == 1 and "cutlass.gemm" not in lowered
    torch.testing.assert_close(got, form(*inputs), rtol=0, atol=4e-3)


def test_weights_that_are_results_are_computed_once() -> None:
    def forward(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.reshape(B * H, -1, D) for x in (q, k, v))
        weights = torch.bmm(q, k.transpose(1, 2)).softmax(-1)
        return torch.bmm(weights, v), weights.view(B, H, S, T)

    inputs = _inputs()[:3]
    made = from_torch(Applied(forward), inputs, whole=True)
    text = made.program.text()
    assert text.count(" @ ") == 2 and text.count("softmax(") == 1
    agrees(made, *inputs)


def test_views_are_joined() -> None:
    """Axes that einsum inserts are dropped, and permutations of them are one."""

    def forward(q: Any, k: Any, v: Any) -> Any:
        return torch.einsum("bhij,bhjd->bihd", torch.einsum("bhid,bhjd->bhij", q, k), v)

    inputs = _inputs()[:3]
    made = from_torch(Applied(forward), inputs, whole=True)
    text = made.program.text()
    assert "reshape" not in text and "None" not in text and len(re.findall("permute", text)) <= 2
    agrees(made, *inputs)
