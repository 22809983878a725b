"""Activations that PyTorch has taken apart are whole again in kernels, and only those."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
F: Any = torch.nn.functional


def text_of(function: Callable[[Any], Any], dtype: str) -> str:
    """Compile `function(x @ w)` as one kernel, compare its values, and return its body."""
    import mucc

    torch._dynamo.reset()
    torch.manual_seed(0)
    x, w = (torch.randn(s).to(getattr(torch, dtype)) for s in ((8, 16), (16, 32)))
    made = mucc.torch_backend(interpret=True, fallback="error", rest="eager", regions="all")
    with torch.no_grad():
        got = torch.compile(lambda x, w: function(x @ w), backend=made)(x, w)
        tolerance = 1e-5 if dtype == "float32" else 3e-2
        torch.testing.assert_close(got, function(x @ w), rtol=tolerance, atol=tolerance)
    (program,) = made.programs
    return program.text().partition("{")[2]


def by_tanh(y: Any) -> Any:
    return 0.5 * y * (1.0 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))


def by_erf(y: Any) -> Any:
    return y * 0.5 * (1.0 + torch.erf(y / math.sqrt(2.0)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("function", "call"),
    [
        (F.gelu, "gelu("),
        (lambda y: F.gelu(y, approximate="tanh"), "approximate=tanh)"),
        (F.silu, "silu("),
        (by_tanh, "approximate=tanh)"),
        (by_erf, "gelu("),
        (lambda y: 1 / (1 + torch.exp(-y)), "sigmoid("),
    ],
)
def test_activations_are_whole(function: Callable[[Any], Any], call: str, dtype: str):
    text = text_of(function, dtype)
    assert call in text
    assert "erf(" not in text and "tanh(" not in text.replace("approximate=tanh)", "") and "exp(" not in text


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y * 0.5 * (1.0 + torch.erf(y / 1.5)),
        lambda y: y * 0.4 * (1.0 + torch.erf(y / math.sqrt(2.0))),
        lambda y: y * 0.5 * (1.0 - torch.erf(y / math.sqrt(2.0))),
        lambda y: y * 0.5 * (1.0 + torch.tanh(0.79 * (y + 0.044715 * y**3))),
        lambda y: y * 0.5 * (1.0 + torch.tanh(y + 0.044715 * y**4)),
        lambda y: (y + 1) / (1 + torch.exp(-y)),
        lambda y: y / (2 + torch.exp(-y)),
    ],
)
def test_what_only_looks_like_one_stays(function: Callable[[Any], Any]):
    text = text_of(function, "float32")
    assert not any(f"{name}(" in text for name in ("gelu", "silu", "sigmoid"))
