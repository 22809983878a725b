"""Results of convolutions that are stored with channels last for convolutions behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
from convolutions import check_on_host

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.conv import orders
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.op import Strategy
from mucc.target.facts import Facts

BLOCK = """
kernel block(x: bf16[2, 16, 5, 6], w1: bf16[16, 16, 1, 1], w2: bf16[24, 16, 3, 3], w3: bf16[16, 24, 1, 1],
             v1: bf16[8, 16, 3, 3], v2: bf16[16, 8, 1, 1], b: bf16[24])
    -> (y: bf16[2, 16, 3, 3], z: bf16[2, 16, 3, 3]) {
  a = sign(conv(x, w1))
  c = sign(conv(sign(conv(a, w2, pad=1) + b[:, None, None]), w3)) + a
  d = sign(conv(c, v1, stride=2, pad=1))
  e = sign(conv(c, w1, stride=2))
  f = sign(conv(d, v2)) + e
  return conv(f, w1), conv(relu(f), w1)
}
"""


@pytest.mark.parametrize("strategy", [Strategy.WARPGROUPS, Strategy.TILES])
def test_kernels_agree_with_the_interpreter(
    strategy: Strategy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(layer: Layer, facts: Facts) -> Strategy:
        return strategy

    monkeypatch.setattr(orders, "choose", chosen)
    check_on_host(BLOCK, strategy, tmp_path, monkeypatch)


def _stored(body: str, parameters: str, result: str = "bf16[32, 128, 28, 28]") -> list[str]:
    """Return the extents, outermost first, of each tensor between kernels, but for those of weights."""
    common = "x: bf16[32, 128, 28, 28], w: bf16[128, 128, 3, 3], v: bf16[128, 128, 1, 1]"
    text = f"kernel k({common}{parameters}) -> {result} {{\n{body}\n}}"
    lines = compile_text(Source("k.mcu", text)).emit("cutlass").splitlines()
    found = [line.split("!mu.tensor<[")[1].split("]")[0] for line in lines if "cutlass.workspace" in line]
    return [dims for dims in found if dims.startswith("32")]


FIRST, LAST = "32, 128, 28, 28", "32, 28, 28, 128"


def test_channels_are_last_between_convolutions() -> None:
    copied = [LAST]  # x
    assert _stored("  return conv(conv(x, w, pad=1), w, pad=1)", "") == [*copied, LAST]
    # A residual is read in the order of the result behind it.
    body = "  h = conv(x, w, pad=1)\n  k = relu(conv(h, v)) + h\n  return conv(k, w, pad=1)"
    assert _stored(body, "") == [*copied, LAST, LAST]
    body = "  h = conv(x, w, pad=1)\n  return sum(relu(conv(h, v) + h), axis=(2, 3))"
    assert _stored(body, "", "f32[32, 128]") == [*copied, LAST, LAST]


def test_channels_stay_first_where_a_reader_or_the_program_has_them_so() -> None:
    copied = [LAST]
    body = "  h = conv(x, w, pad=1)\n  return conv(h, w, pad=1) + h"  # a result of the program
    assert _stored(body, "") == [*copied, FIRST, LAST]
    body = "  h = conv(x, w, pad=1) + r\n  return conv(h, w, pad=1)"  # an argument
    assert _stored(body, ", r: bf16[32, 128, 28, 28]") == [*copied, FIRST, LAST]
    body = "  h = conv(x, w, pad=1)\n  return conv(h, d, pad=1, groups=128)"
    assert _stored(body, ", d: bf16[128, 1, 3, 3]") == [*copied, FIRST]
    body = "  stage h = conv(x, w, pad=1)\n  return max_pool(h, 2)"
    assert _stored(body, "", "bf16[32, 128, 14, 14]") == [*copied, FIRST]
