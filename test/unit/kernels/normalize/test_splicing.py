"""Which bodies of norms of rows of any length are spliced into a skeleton."""

from __future__ import annotations

import re

import pytest

from mucc.compiler.program import compile_source
from mucc.compiler.source import decode

NORM = "kernel k[M, N](x: bf16[M, N], g: bf16[N]) -> bf16[M, N] {{\n    return {value}\n}}\n"


def calls(value: str) -> tuple[str, list[str]] | None:
    """Return the skeleton and the spliced bodies of a norm; None if it is compiled in one piece."""
    (image,) = compile_source(decode(NORM.format(value=value).encode(), "k.mcu"), "sm_90a").parts().images
    if image.divided is None:
        return None
    return image.divided.skeleton, re.findall(r"struct Body\d+ \{.*?\n\};", image.divided.bodies, re.S)


@pytest.mark.parametrize(
    ("value", "spliced", "kept"),
    [
        pytest.param("gelu(layer_norm(x) * g)", ["gelu"], ["v2 * v2"], id="a variance stays"),
        pytest.param("silu(rms_norm(x))", ["sigmoid"], ["x * x"], id="squares stay"),
        pytest.param("softmax(x, axis=1)", ["exp", "row_reduce"], [], id="exponentials"),
        pytest.param("pow(layer_norm(x), 1.3)", ["pow"], ["v2 * v2"], id="branches behind the norm"),
    ],
)
def test_what_is_spliced(value: str, spliced: list[str], kept: list[str]) -> None:
    found = calls(value)
    assert found is not None
    skeleton, bodies = found
    assert [function for function, body in zip(spliced, bodies, strict=True) if function not in body] == []
    assert all(text in skeleton for text in kept) and not any(f"mucc::{f}" in skeleton for f in spliced)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("log_softmax(x, axis=1)", id="a logarithm for each row"),
        pytest.param("layer_norm(pow(x, 1.3))", id="a function with branches in several phases"),
    ],
)
def test_what_llvm_computes_once_is_compiled_in_one_piece(value: str) -> None:
    assert calls(value) is None
