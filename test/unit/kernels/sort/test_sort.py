"""Sort kernels: what joins them, their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import math

import numpy as np
import pytest
from builders import device_kernels, kernel_names
from on_host import Program, program_of, run

from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.kernels.sort.op import SortKernelOp
from mucc.kernels.sort.ways import LONGEST, Way, ways
from mucc.library.signature import Manifest

KERNELS = """
kernel rows[M, N](x: bf16[M, N], v: f32[N]) -> (a: bf16[M, N], b: s32[M, N]) {
    h = x * v
    return sort(h) + 1, argsort(h)
}
kernel falling[M, N](x: f32[M, N]) -> (a: f32[M, N], b: s32[M, N]) {
    return sort(x, descending=on), argsort(x, descending=on)
}
kernel columns[M, N](x: f16[M, N], w: f32[N]) -> (a: f32[M, N], b: s32[M, N]) {
    return sort(x, axis=0) * w, argsort(x, axis=0)
}
kernel turned[M, N](x: s32[M, N] col_major) -> s32[M, N] { return sort(x - 1, axis=1, descending=on) }
kernel best[M, N](x: bf16[M, N], w: f32[M, 3]) -> (a: f32[M, 3], b: s32[M, 3], c: bf16[M, 1]) {
    return topk(x, 3) * w, argtopk(x, 3), topk(2 * x, 1)
}
kernel strided[B, N, D=8](x: f32[B, N, D]) -> (a: f32[B, 4, D], b: s32[B, 4, D]) {
    return topk(x, 4, axis=1), argtopk(x, 4, axis=1)
}
kernel known[M](x: f16[M, 40]) -> (a: f16[M, 40], b: s32[M, 33]) {
    return sort(x, descending=on), argtopk(x, 33)
}
kernel signs[M, N](x: f32[M, N]) -> (a: f32[M, N], b: f32[M, 4]) { return 1 / sort(x), 1 / topk(x, 4) }
kernel twice[M, N](x: f32[M, N]) -> (a: s32[M, N], b: s32[M, N], c: s32[M, N]) {
    return argsort(x, axis=0), argsort(x, axis=0), 2 * argsort(x, axis=0)
}
kernel lone[M](x: f32[M, 1]) -> (a: f32[M, 1], b: s32[M, 1]) { return sort(x), argtopk(x, 1) }
"""

SHAPES = [(1, 3), (70, 8), (3, 32), (5, 33), (9, 128), (2, 130), (3, 512), (2, 700), (5, 1024), (1, 2001)]
LONG = [(2, 4096), (1, 4095)]
SPECIAL = (math.nan, -0.0, 0.0, math.inf, -math.inf, 0.5, -2.0)


program = program_of(KERNELS)


def sizes(name: str, free: set[str], shapes: list[tuple[int, int]]) -> list[dict[str, int]]:
    """Dims for shapes of rows and elements; columns are sorted along the first dim."""
    elements, rows = ("M", "N") if name == "columns" else ("N", "B" if "B" in free else "M")
    known = [{rows: m, elements: max(n, 4)} for m, n in shapes]
    return [{d: v for d, v in dims.items() if d in free} for dims in known]


@pytest.mark.parametrize("floats", [(), SPECIAL], ids=["ties", "special values"])
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_every_form_agrees_with_the_interpreter(program: Program, floats: tuple[float, ...]) -> None:
    for info in program.kernels:
        free = {name for name, value in info.dims.items() if value is None}
        shapes = SHAPES + (LONG if info.name in ("falling", "best") else [])
        for seed, dims in enumerate(sizes(info.name, free, shapes)):
            run(program, info, dims, seed, floats)


def compiled(text: str) -> Compilation:
    return compile_text(Source("k.mcu", text))


def test_the_order_is_numpy_s_and_stable() -> None:
    text = """
    kernel k[N](x: f32[N]) -> (a: f32[N], b: s32[N], c: f32[N], d: s32[N], e: s32[2]) {
        return sort(x), argsort(x), sort(x, descending=on), argsort(x, descending=on), argtopk(x, 2)
    }
    """
    x = np.array([1.0, math.nan, -0.0, math.inf, 0.0, 1.0, math.nan, -math.inf])
    for interpret in (compiled(text).interpret, compiled(text).interpret_lowered):
        a, b, c, d, e = interpret("k", [x])
        np.testing.assert_array_equal(a, np.sort(x))
        np.testing.assert_array_equal(b, [7, 2, 4, 0, 5, 3, 1, 6])
        np.testing.assert_array_equal(c, np.sort(x)[::-1])
        np.testing.assert_array_equal(d, [1, 6, 3, 0, 5, 2, 4, 7])
        np.testing.assert_array_equal(e, [1, 6])


def test_torch_interprets_alike() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([[1.0, math.nan, -0.0, 2.0], [0.0, -0.0, math.nan, 0.0]])
    text = (
        "kernel k[M, N](x: f32[M, N]) -> (a: f32[M, N], b: s32[M, N], c: f32[M, 2], d: s32[M, 2]) {\n"
        "    return sort(x), argsort(x, descending=on), topk(x, 2), argtopk(x, 2)\n}"
    )
    results = zip(compiled(text).interpret("k", [x]), compiled(text).interpret("k", [x.numpy()]), strict=True)
    for ours, theirs in results:
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return relu(sort(2 * x) + b)", ["sort"]),
        ("return sort(x) + cast(argsort(x), f32)", ["sort"]),
        ("return sort(x) + cast(argsort(x, descending=on), f32)", ["sort", "sort"]),
        ("return sort(x) + sort(x, axis=0)", ["sort", "sort"]),
        ("return sort(x @ x)", ["gemm", "sort"]),
        ("return sort(x) @ x", ["sort", "gemm"]),
        ("y = sort(x) return y / sum(y, axis=1)[:, None]", ["sort", "normalize"]),
        ("stage h = sort(x) return h + x", ["sort", "map"]),
        ("return take_along(x, argsort(b * x), axis=1) - x", ["sort", "map"]),
        ("return x + topk(x, 1) * cast(argtopk(x, 1), f32)", ["sort", "map"]),
    ],
)
def test_what_one_sort_computes(body: str, expected: list[str]) -> None:
    assert kernel_names(f"kernel k[M=64](x: bf16[M, M], b: bf16[M]) -> bf16[M, M] {{ {body} }}") == expected


def test_the_ways_follow_from_the_extent() -> None:
    assert ways(33, None) == (Way(16, 8),)
    assert ways(LONGEST, None)[0].longest == LONGEST
    assert ways(LONGEST + 1, 33) == ()
    assert ways(513, 32) == ways(1 << 30, 1) == (Way(),)
    assert ways(512, 32) == (Way(32, 16),)
    assert ways("N", 8)[-1].longest is None
    assert [way.longest for way in ways("N", None)] == [32, 128, 512, 1024, 2048, LONGEST]


@pytest.mark.parametrize(
    ("extent", "call", "needs"),
    [
        ("N", "sort(x)", ["N <= 4096"]),
        ("N", "topk(x, 40)", ["N <= 4096", "N >= 40"]),
        ("N", "topk(x, 8)", ["N >= 8"]),
        ("9000", "topk(x, 8)", []),
        ("4096", "sort(x)", []),
    ],
)
def test_calls_check_the_extents_of_rows(extent: str, call: str, needs: list[str]) -> None:
    result = "N" if call == "sort(x)" else call[8:-1]
    text = f"kernel k[M, N](x: f32[M, N]) -> f32[M, {result}] {{ return {call} }}"
    if extent != "N":
        text = text.replace("[M, N]", "[M]", 1).replace("N", extent)
    (info,) = Manifest.parse(compiled(text).emit("manifest")).kernels
    assert [promise for promise, _ in info.promises] == needs


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("kernel k[M](x: f32[M, 4097]) -> f32[M, 4097] { return sort(x) }", "MU2010"),
        ("kernel k[M](x: f32[M, 4097]) -> f32[M, 33] { return topk(x, 33) }", "MU2010"),
        ("kernel k[M](x: f32[M, 4]) -> f32[M, 5] { return topk(x, 5) }", "MU1105"),
        ("kernel k[M](x: f32[M, 4]) -> f32[M, 4] { return sort(x, axis=2) }", "MU1028"),
        ("kernel k[M](x: f32[M, 4]) -> f32[M, 4] { return sort(x > 0) }", "MU1021"),
        ("kernel k[M](x: f32[M, 4]) -> f32[M, 4] { return topk(x, k=(2, 3)) }", "MU1095"),
    ],
)
def test_what_cannot_be_sorted(text: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compiled(text)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_too_few_elements_have_no_meaning() -> None:
    program = compiled("kernel k[N](x: f32[N]) -> f32[4] { return topk(x, 4) }")
    with pytest.raises(ValueError, match="MU6011"):
        program.interpret("k", [np.ones(3)])


def test_the_kernel_op_is_printed_and_verified() -> None:
    (op,) = device_kernels("kernel k[M](x: f32[M, M]) -> s32[M, 2] { return argtopk(x, 2) }")
    assert isinstance(op, SortKernelOp)
    text = str(op)
    assert 'cutlass.sort "out" space ["M", "M"] axis 1 : i64 descending count 2 : i64' in text
    op.body.block.insert_op_before(op.sorted.clone(), op.sorted)
    with pytest.raises(Exception, match=r"has one cutlass\.sorted, not 2"):
        op.verify()
