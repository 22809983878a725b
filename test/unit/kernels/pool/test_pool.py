"""Pooling kernels: what joins them, their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from builders import device_kernels, kernel_names
from hypothesis import given, settings
from hypothesis import strategies as st
from on_host import Program, program_of, run

from bench.accesses import costs
from mucc.build.toolchain import nvrtc
from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.dialects.mu.windows import Window
from mucc.kernels.pool.op import PoolKernelOp

KERNELS = """
kernel lines[N](x: f32[N, 3, 40]) -> f32[N, 3, 40] { return max_pool(x, 3, stride=1, pad=1) }
kernel dilated[N](x: f32[N, 2, 301]) -> f32[N, 2, 288] { return max_pool(x, 8, stride=1, pad=4, dilation=3) }
kernel long_lines[N](x: bf16[N, 1, 9000]) -> bf16[N, 1, 2250] { return avg_pool(x, 4) }
kernel strided_lines[N](x: f32[N, 1, 6001]) -> f32[N, 1, 1201] { return max_pool(x, 7, stride=5, pad=3) }
kernel halves[N](x: f32[N, 4, 12, 16]) -> f32[N, 4, 6, 8] { return max_pool(x, 2) }
kernel narrow[N](x: f16[N, 4, 12, 16]) -> f16[N, 4, 6, 8] { return avg_pool(x, 2) }
kernel quarters[N](x: bf16[N, 3, 6, 28]) -> bf16[N, 3, 3, 14] { return max_pool(x, 2) }
kernel pairs[N](x: f32[N, 3, 6, 14]) -> f32[N, 3, 6, 14] { return max_pool(x, 3, stride=1, pad=1) }
kernel same[N](x: bf16[N, 3, 14, 35]) -> bf16[N, 3, 14, 35] { return avg_pool(x, 3, stride=1, pad=1) }
kernel same_inside[N](x: f32[N, 2, 7, 33]) -> f32[N, 2, 7, 33] {
  return avg_pool(x, 5, stride=1, pad=2, count_pad=off)
}
kernel same_dilated[N](x: f32[N, 2, 9, 31]) -> f32[N, 2, 9, 31] {
  return max_pool(x, (3, 2), stride=1, pad=1, dilation=(1, 2))
}
kernel same_volume[N](x: bf16[N, 2, 5, 6, 3]) -> bf16[N, 2, 5, 6, 3] {
  return max_pool(x, 3, stride=1, pad=1)
}
kernel same_line[N](x: f32[N, 2, 7]) -> f32[N, 2, 7] { return max_pool(x, 7, stride=1, pad=3) }
kernel odd[N](x: f32[N, 3, 11, 13]) -> f32[N, 3, 6, 7] { return max_pool(x, 3, stride=2, pad=1) }
kernel ceiling[N](x: f32[N, 2, 11, 12]) -> f32[N, 2, 4, 5] { return avg_pool(x, 4, stride=3, pad=1, ceil=on) }
kernel elements[N](x: f32[N, 2, 12, 16]) -> f32[N, 2, 6, 8] {
  return avg_pool(x, (4, 2), stride=2, pad=(1, 0), count_pad=off)
}
kernel volume[N](x: f32[N, 2, 7, 8, 12]) -> f32[N, 2, 3, 4, 6] {
  return max_pool(x, 3, stride=2, pad=1, dilation=(2, 1, 1))
}
kernel volumes[N](x: bf16[N, 2, 6, 8, 16]) -> bf16[N, 2, 3, 4, 8] { return avg_pool(x, 2) }
kernel partly[N](x: f32[N, 3, 8, 12]) -> f32[N, 3, 4, 12] { return max_pool(x, (2, 1), stride=(2, 1)) }
kernel open[N, H, W](x: f32[N, 2, H, W]) -> f32[N, 2, H, W] { return max_pool(x, 3, stride=1, pad=1) }
kernel one[N](x: f32[N, 2, 5, 6]) -> f32[N, 2, 1, 2] { return avg_pool(x, (5, 3)) }
kernel fused[N](x: bf16[N, 4, 9, 12], b: f32[4], r: f32[N, 4, 5, 6]) -> (
  y: bf16[N, 4, 5, 6], z: f32[N, 4, 5, 6]
) {
  m = max_pool(x * 2 + b[:, None, None], 3, stride=2, pad=1)
  return relu(m) - r, m * b[:, None, None]
}
kernel squares[N](x: f32[N, 4, 8, 8]) -> (y: f32[N, 4, 4, 4], z: f32[N, 4, 1, 1]) {
  return sqrt(avg_pool(x * x, 2, divisor=1)), avg_pool(x, 8, divisor=4)
}
kernel itself[N](x: f32[N, 4, 8, 8]) -> f32[N, 4, 8, 8] { return max_pool(x, 3, stride=1, pad=1) - x }
kernel sliced[N](x: f32[N, 4, 9, 20]) -> f32[N, 4, 4, 8] { return max_pool(x[:, :, :8, 3:19], 2) }
kernel bordered[N](x: f32[N, 2, 6, 8]) -> f32[N, 2, 4, 5] { return avg_pool(pad(x, (1, 1), (1, 1)), 2) }
kernel channels[N](x: f32[N, 7, 9, 8]) -> f32[N, 8, 4, 5] {
  return max_pool(permute(x, (0, 3, 1, 2)), 3, stride=2, pad=(1, 1))
}
kernel last[N](x: bf16[N, 12, 16]) -> bf16[N, 16, 12] {
  return avg_pool(permute(x, (0, 2, 1)), 3, stride=1, pad=1)
}
kernel stays_last[N](x: bf16[N, 9, 10, 16], r: bf16[N, 5, 5, 16]) -> bf16[N, 5, 5, 16] {
  m = max_pool(permute(x, (0, 3, 1, 2)), 3, stride=2, pad=1)
  return relu(permute(m, (0, 2, 3, 1)) * 0.5) + r
}
kernel becomes_last[N](x: f32[N, 8, 9, 12]) -> (y: f32[N, 5, 6, 8], z: f32[N, 3, 3, 8]) {
  m = permute(max_pool(x, 3, stride=2, pad=1), (0, 2, 3, 1))
  return m, permute(avg_pool(permute(m, (0, 3, 1, 2)), 2, ceil=on), (0, 2, 3, 1))
}
kernel one_axis_last[N](x: f32[N, 40, 6]) -> f32[N, 40, 6] {
  return permute(avg_pool(permute(x, (0, 2, 1)), 3, stride=1, pad=1), (0, 2, 1))
}
kernel loose[N](x: f32[N, 2, 7, 260]) -> f32[N, 2, 6, 257] { return max_pool(x, (2, 4), stride=1) }
kernel loose_mean[N](x: bf16[N, 2, 5, 264]) -> bf16[N, 2, 5, 265] {
  return avg_pool(x, (3, 4), stride=1, pad=(1, 2))
}
kernel loose_lines[N](x: f32[N, 2, 512]) -> f32[N, 2, 513] { return avg_pool(x, 8, stride=1, pad=4) }
kernel numbered[N](x: s8[N, 4, 9, 8]) -> f32[N, 4, 4, 4] {
  return cast(max_pool(x, (3, 2), stride=2), f32) + 1
}
kernel wide[N](x: f32[N, 1, 5000]) -> f32[N, 1, 2] { return max_pool(x, 4500, stride=500) }
"""


program = program_of(KERNELS)


@pytest.mark.parametrize("processors", [0, 4], ids=["many rows a block", "few rows a block"])
def test_every_form_agrees_with_the_interpreter(program: Program, processors: int) -> None:
    program.library.on_host_sm_count(processors)
    for seed, info in enumerate(program.kernels):
        for dims in ({"N": 1, "H": 1, "W": 1}, {"N": 3, "H": 7, "W": 33}):
            run(program, info, {name: dims[name] for name in info.dims}, seed)


@pytest.mark.skipif(bool(nvrtc.why_unusable("13.0")), reason="needs NVRTC")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_instructions_do_not_bound_windows_that_keep_odd_rows(dtype: str, tmp_path: Path) -> None:
    shape = f"{dtype}[32, 288, 35, 35]"
    text = f"kernel k(x: {shape}) -> {shape} {{ return avg_pool(x, 3, stride=1, pad=1) }}"
    (found,), dram = costs(text, {}, 4, tmp_path)
    assert max(found.issue, found.l1, found.shared, found.l2) < dram


def test_infinities_and_nan_are_passed_on(program: Program) -> None:
    for info in program.kernels:
        run(program, info, dict.fromkeys(info.dims, 5), 7, [1.0, -math.inf, math.inf, math.nan, -2.0])


@st.composite
def windows(draw: st.DrawFn, *, dilated: bool) -> tuple[int, Window]:
    """Draw an extent and a window that fits it."""
    extent = draw(st.integers(1, 40))
    size = draw(st.integers(1, min(extent, 9)))
    pad = draw(st.integers(0, size // 2))
    most = (extent + 2 * pad - 1) // max(size - 1, 1)
    dilation = draw(st.integers(1, max(most, 1))) if dilated else 1
    return extent, Window(size, draw(st.integers(1, 9)), pad, dilation)


def numbers(values: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, values))})"


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """Draw a kernel `NAME` that pools, of channels in front or behind."""
    is_max, ceil, count_pad, behind = (draw(st.booleans()) for _ in range(4))
    channels, dtype = draw(st.sampled_from((1, 3, 8))), draw(st.sampled_from(("f32", "bf16")))
    found = draw(st.lists(windows(dilated=is_max), min_size=1, max_size=3))
    if len(found) == 3:
        found = [(min(extent, 12), w) for extent, w in found if w.places(min(extent, 12), ceil)] or found[:1]
    extents = [extent for extent, _ in found]
    size, stride, pad, dilation = (numbers(n) for n in zip(*(w for _, w in found), strict=True))
    places = [w.places(extent, ceil) for extent, w in found]
    order = [0, len(found) + 1, *range(1, len(found) + 1)]
    shape = ["N", *extents, channels] if behind else ["N", channels, *extents]
    x = f"permute(x, {numbers(tuple(order))})" if behind else "x"
    back = (0, *range(2, len(found) + 2), 1) if draw(st.booleans()) else None
    more = f"dilation={dilation}" if is_max else f"count_pad={'on' if count_pad else 'off'}"
    result = ", ".join(map(str, ["N", *places, channels] if back else ["N", channels, *places]))
    pool = (
        f"{'max' if is_max else 'avg'}_pool({x}, size={size}, stride={stride}, pad={pad}, "
        f"ceil={'on' if ceil else 'off'}, {more})"
    )
    body = f"permute({pool}, {numbers(back)})" if back else pool
    given = ", ".join(map(str, shape))
    return f"kernel NAME[N](x: {dtype}[{given}]) -> {dtype}[{result}] {{ return {body} }}"


@settings(max_examples=3)
@given(st.lists(kernels(), min_size=12, max_size=12), st.integers(0, 9))
def test_random_windows_agree_with_the_interpreter(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], seed: int
) -> None:
    text = "\n".join(text.replace("NAME", f"k{i}") for i, text in enumerate(texts))
    program = Program.of_text(text, tmp_path_factory.mktemp("random"))
    for info in program.kernels:
        run(program, info, {"N": 2}, seed)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return relu(max_pool(2 * x, 2) + b[:, None, None])", ["pool"]),
        ("return max_pool(max_pool(x, 3, stride=1, pad=1), 2)", ["pool", "pool"]),
        ("y = max_pool(x, 2) return y - max(y, axis=(2, 3))[:, :, None, None]", ["pool", "normalize"]),
        ("stage y = avg_pool(x, 2) return relu(y)", ["pool", "map"]),
        ("return max_pool(x, 2) + avg_pool(x, 2)", ["pool", "pool"]),
        ("return max_pool(x, 1)[:, :, ::2, ::2]", ["map"]),
        ("return x[:, :, ::2, ::2] + max_pool(x, 8)", ["reduce", "map"]),
    ],
)
def test_what_one_pool_computes(body: str, expected: list[str]) -> None:
    text = f"kernel k[N](x: f32[N, 4, 8, 8], b: f32[4]) -> f32[N, 4, 4, 4] {{ {body} }}"
    assert kernel_names(text) == expected


def test_the_kernel_op_is_verified() -> None:
    (op,) = device_kernels("kernel k[N](x: f32[N, 2, 8]) -> f32[N, 2, 4] { return avg_pool(x, 2) }")
    assert isinstance(op, PoolKernelOp)
    assert op.windows == {2: Window(2, 2)}
    assert "count_pad" in str(op)
    op.body.block.insert_op_before(op.pooled.clone(), op.pooled)
    with pytest.raises(Exception, match=r"has one cutlass\.pooled, not 2"):
        op.verify()


@pytest.mark.parametrize(
    ("expr", "code"),
    [
        ("max_pool(x, 12)", "MU1101"),
        ("max_pool(x, 3, pad=2)", "MU1101"),
        ("max_pool(x, 3, dilation=5)", "MU1101"),
        ("avg_pool(x, 0)", "MU1095"),
        ("avg_pool(x, (2, 2))", "MU1095"),
        ("max_pool(cast(x, s32), 2)", "MU2010"),
        ("max_pool(y, 2)", "MU1091"),
    ],
)
def test_wrong_windows_have_codes(expr: str, code: str) -> None:
    text = f"kernel k[N, W](x: f32[N, 2, 9], y: f32[N, 2, W]) -> f32[N, 2, 4] {{ return {expr} }}"
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("k.mcu", text))
    assert {d.code for d in caught.value.diagnostics} & {code}
