"""Operands of gradients of attention that are parts of tensors: the kernel reads them where they lie."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source

SPLIT = """
    q = permute(reshape(x[:, :, :256], (B, S, 4, 64)), (0, 2, 1, 3))
    k = permute(reshape(x[:, :, 256:512], (B, S, 4, 64)), (0, 2, 1, 3))
    v = permute(reshape(x[:, :, 512:], (B, S, 4, 64)), (0, 2, 1, 3))
"""
PACKED = """
    z = reshape(x, (B, S, 3, 4, 64))
    q = permute(z[:, :, 0], (0, 2, 1, 3))
    k = permute(z[:, :, 1], (0, 2, 1, 3))
    v = permute(z[:, :, 2], (0, 2, 1, 3))
"""
PER_HEAD = """
    z = permute(reshape(x, (B, S, 4, WIDTH/4)), (0, 2, 1, 3))
    q = z[..., FIRST:FIRST+64]
    k = z[..., FIRST+64:FIRST+128]
    v = z[..., FIRST+128:FIRST+192]
"""


def _kernel(name: str, parts: str, width: int = 768, first: int = 0) -> str:
    body = parts.strip().replace("WIDTH/4", str(width // 4)).replace("FIRST", str(first))
    gradients = ", ".join(f"attention_d{x}(q, k, v, o, l, g, causal=on)" for x in "qkv")
    return f"""
kernel {name}[B, S](x: f16[B, S, {width}], dy: f16[B, S, 4, 64], y: f16[B, S, 4, 64], l: f32[B, 4, S])
    -> (dq: f16[B, 4, S, 64], dk: f16[B, 4, S, 64], dv: f16[B, 4, S, 64]) {{
    {body}
    g = permute(dy, (0, 2, 1, 3))
    o = permute(y, (0, 2, 1, 3))
    return {gradients}
}}
"""


COPIES = {
    "split": (_kernel("split", SPLIT), 0),
    "packed": (_kernel("packed", PACKED), 0),
    "per_head": (_kernel("per_head", PER_HEAD, 4 * 208, 8), 0),
    "unaligned": (_kernel("unaligned", PER_HEAD, 4 * 208, 4), 3),
    "odd_rows": (_kernel("odd_rows", PER_HEAD, 4 * 196), 3),
}
"""How many operands are copied: parts that do not begin at multiples of 16 bytes."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    text = "".join(text for text, _ in COPIES.values())
    return Program.of(compile_text(Source("k.mcu", text)), tmp_path_factory.mktemp("parts"))


@pytest.mark.parametrize("name", COPIES)
def test_parts_are_read_where_they_lie(program: Program, name: str) -> None:
    programs = str(program.compilation.cutlass).split("cutlass.program")
    lowered = next(text for text in programs if f"@{name}(" in text)
    assert lowered.count("cutlass.attention_backward ") == 1
    assert lowered.count("cutlass.map ") == COPIES[name][1]
    info = next(k for k in program.kernels if k.name == name)
    floats = (-0.5, -0.25, 0.0, 0.125, 0.5, 1.0)
    run(program, info, {"B": 2, "S": 150}, seed=3, floats=floats, within=2**-6, align=16)
