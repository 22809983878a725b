"""What results may be off under a policy: as much as PyTorch is in the format that it permits."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit.rounding import FORMATS, permitted  # noqa: E402
from mucc.torch.importer.tolerance import compared  # noqa: E402


def gated(x: Any, g: Any, u: Any) -> Any:
    return torch.nn.functional.silu(x @ g) * (x @ u)


@pytest.fixture(scope="module")
def values() -> tuple[Any, Any, Any]:
    """The sizes at which errors of both products meet in one element."""
    torch.manual_seed(0)
    return torch.randn(64, 512), torch.randn(512, 256) / 8, torch.randn(512, 256) / 8


@pytest.mark.parametrize("precision", ["tf32", "f16", "bf16"])
def test_honest_rounding_is_tolerated_and_what_is_narrower_is_not(
    values: tuple[Any, Any, Any], precision: str
):
    exact = gated(*(v.double() for v in values))
    near = gated(*values)
    with permitted(precision):
        narrow = gated(*values)
    assert not torch.equal(near, narrow)
    honest = gated(*(FORMATS[precision](v.clone()) for v in values))
    assert compared(honest, exact, near, precision, narrow=narrow).excess <= 0.6
    coarse = gated(*(v.to(torch.float8_e4m3fn).float() for v in values))
    assert compared(coarse, exact, near, precision, narrow=narrow).excess > 1
    assert compared(near * 1.2, exact, near, precision, narrow=narrow).excess > 1


def test_a_gated_product_may_be_off_where_errors_of_both_factors_meet():
    torch.manual_seed(1)
    weights = [torch.randn(512, 512) / 32 for _ in range(2)]
    values = (torch.randn(256, 512) * torch.tensor([16.0] + [1.0] * 255)[:, None], *weights)
    exact, near = gated(*(v.double() for v in values)), gated(*values)
    with permitted("tf32"):
        narrow = gated(*values)
    honest = gated(*(FORMATS["tf32"](v) for v in values))
    assert compared(honest, exact, near, "tf32").excess > 1
    assert compared(honest, exact, near, "tf32", narrow=narrow).excess < 0.5


def test_a_convolution_and_attention_are_rounded_too():
    x, w = torch.randn(2, 8, 12, 12), torch.randn(4, 8, 3, 3)
    q = torch.randn(1, 2, 16, 8)
    for call in (
        lambda: torch.nn.functional.conv2d(x, w),
        lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q),
        lambda: torch.einsum("bhqd,bhkd->bhqk", q, q),
        lambda: torch.nn.functional.linear(x, w[:, 0, 0].repeat(1, 4), torch.randn(4)),
    ):
        torch.manual_seed(0)
        plain = call()
        torch.manual_seed(0)
        with torch.no_grad(), permitted("bf16"):
            assert not torch.equal(call(), plain)
        torch.manual_seed(0)
        assert torch.equal(call(), plain)
