"""Axes of few elements, in every role, layout and stride: whole programs as emitted, on the host.

Contractions are stand-ins by their descriptions (see on_host.py); copies, reductions, workspaces and argument
checks are the real ones. Results are integers that every dtype holds, so they are compared exactly.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.kernels.gemm.op import GemmOp
from mucc.library.dims import holds

EXTENTS = (1, 2, 3, 5, 7, 8, 15, 16, 17)

SCHEDULES = (
    "mainloop = cooperative",
    "mainloop = cooperative, exchange = on",
    "mainloop = cooperative, scheduler = stream_k",
    "mainloop = pingpong, tile = 64x64x{k}",
    "mainloop = pingpong, exchange = on",
    "mainloop = warpspecialized, tile = 64x32x{k}",
    "mainloop = multistage",
    "mainloop = multistage, scheduler = split_k(2)",
)

FORMATS = {
    "bf16": (("bf16",), ("f32", "bf16"), 64),
    "f16": (("f16",), ("f32", "f16"), 64),
    "f32": (("f32",), ("f32",), 32),
    "s8": (("s8", "u8"), ("s32", "f32"), 128),
    "e4m3": (("e4m3", "e5m2"), ("f32",), 128),
}
"""Of a left operand's dtype: those of right ones and of results, and a tile's K."""


def _layout(draw: st.DrawFn, rank: int) -> str:
    """A layout one of whose last two axes is contiguous."""
    kind = draw(st.sampled_from(("row", "col", "strides")))
    if kind != "strides" or rank == 1:
        return " col_major" if kind == "col" and rank > 1 else ""
    unit = rank - draw(st.integers(1, 2))
    return f" strides({', '.join('1' if a == unit else '_' for a in range(rank))})"


def _tensor(draw: st.DrawFn, name: str, dtype: str, dims: list[str]) -> tuple[str, str]:
    """A parameter, and an expression of it with such dims."""
    turned = draw(st.booleans())
    stored = [*dims[:-2], dims[-1], dims[-2]] if turned else dims
    text = f"{name}: {dtype}[{', '.join(stored)}]{_layout(draw, len(dims))}"
    return text, f"{name}.T" if turned else name


def _head(draw: st.DrawFn, names: list[str]) -> str:
    bound = {n: draw(st.sampled_from((None, *EXTENTS, 1, 1))) for n in names}
    return ", ".join(f"{n}={v}" if v else n for n, v in bound.items())


def _epilogue(draw: st.DrawFn, value: str, batch: list[str]) -> tuple[list[str], str]:
    """Parameters, and an expression on top of a product."""
    dtype = draw(st.sampled_from(("f32", "bf16")))
    match draw(st.sampled_from(("none", "row", "column", "matrix", "batches", "number"))):
        case "row":
            return [f"b: {dtype}[N]"], f"{value} + b"
        case "column":
            return [f"b: {dtype}[M]"], f"{value} + b[:, None]"
        case "matrix":
            parameter, b = _tensor(draw, "b", dtype, ["M", "N"])
            return [parameter], f"{value} + {b}"
        case "batches":
            parameter, b = _tensor(draw, "b", dtype, [*batch, "M", "N"])
            return [parameter], f"{value} + {b}"
        case "number":
            return ["b: f32"], f"{value} * b"
        case _:
            return [], value


@st.composite
def products(draw: st.DrawFn) -> str:
    """A kernel `NAME` with a contraction, and its schedule."""
    dtype = draw(st.sampled_from(tuple(FORMATS)))
    others, results, k = FORMATS[dtype]
    batch = draw(st.sampled_from(([], [], ["B"], ["B", "H"])))
    x, left = _tensor(draw, "x", dtype, [*batch, "M", "K"])
    w, right = _tensor(
        draw, "w", draw(st.sampled_from(others)), [*draw(st.sampled_from(([], batch))), "K", "N"]
    )
    more, value = _epilogue(draw, f"{left} @ {right}", batch)
    result = draw(st.sampled_from(results))
    if more:
        result = "f32"
    head = _head(draw, ["M", "N", "K", *batch])
    dims = ", ".join([*batch, "M", "N"])
    text = f"kernel NAME[{head}]({', '.join([x, w, *more])}) -> {result}[{dims}] {{\n    return {value}\n}}\n"
    settings = [s for s in SCHEDULES if not (k == 128 and "multistage" in s)]
    chosen = draw(st.sampled_from((None, *settings)))
    if chosen is None:
        return text
    return f"{text}schedule NAME for sm_90a {{\n    {chosen.format(k=k).replace(', ', chr(10))}\n}}\n"


@st.composite
def maps(draw: st.DrawFn) -> str:
    """A kernel `NAME` without one: copies in another order, arithmetic, reductions."""
    dims = ["A", "B", "C"][draw(st.integers(0, 1)) :]
    dtype = draw(st.sampled_from(("bf16", "f32", "f16", "s8")))
    x, value = _tensor(draw, "x", dtype, dims)
    result = draw(st.sampled_from((dtype, "f32")))
    outputs, returned, more = [f"y: {result}[{', '.join(dims)}]"], [value], [x]
    if draw(st.booleans()):
        v, other = _tensor(draw, "v", "f32", dims[-2:])
        more.append(v)
        returned[0] = f"{value} + {other}"
        outputs[0] = f"y: f32[{', '.join(dims)}]"
    if draw(st.booleans()):
        axes = draw(st.sets(st.sampled_from(range(len(dims))), min_size=1))
        kept = ", ".join(d for i, d in enumerate(dims) if i not in axes)
        function = draw(st.sampled_from(("sum", "max")))
        outputs.append(f"z: f32[{kept}]")
        returned.append(f"{function}({value}, axis=({', '.join(map(str, sorted(axes)))},))")
    if draw(st.booleans()):
        outputs.append(f"t: {result}[{', '.join([*dims[:-2], dims[-1], dims[-2]])}]")
        returned.append(f"({value}).T" if "." in value else f"{value}.T")
    return (
        f"kernel NAME[{_head(draw, dims)}]({', '.join(more)}) -> ({', '.join(outputs)}) {{\n"
        f"    return {', '.join(returned)}\n}}\n"
    )


def _compiles(text: str) -> bool:
    """Whether a kernel is accepted; what is refused says so by a rule, not by a defect."""
    try:
        compilation = compile_text(Source("k.mcu", text.replace("NAME", "f")), Options())
        compilation.parts()
    except DiagnosticError as error:
        assert not [d for d in error.diagnostics if d.code.startswith("MU9")], f"{text}{error}"
        assert not [d for d in error.diagnostics if d.code == "MU3031"], f"{text}{error}"
        return False
    # The kernels of skinny contractions multiply by instructions that the host has not.
    gemms = (op for op in compilation.cutlass.walk() if isinstance(op, GemmOp))
    return not any(op.mainloop and op.mainloop.data is Mainloop.SKINNY for op in gemms)


def check(texts: list[str], folder: Path, seed: int) -> None:
    """Build the kernels that are accepted as one library; run each at several extents."""
    kept = [text.replace("NAME", f"f{i}") for i, text in enumerate(dict.fromkeys(texts)) if _compiles(text)]
    if not kept:
        return
    folder.mkdir()
    program = Program.of(compile_text(Source("k.mcu", "\n".join(kept)), Options()), folder)
    rng = random.Random(seed)
    for info in program.kernels:
        for _ in range(3):
            for _ in range(10_000):
                dims = {n: rng.choice(EXTENTS) if v is None else v for n, v in info.dims.items()}
                if all(holds(promise, dims) for promise, _ in info.promises):
                    break
            else:
                continue
            try:
                run(program, info, dims, rng.randrange(2**31))
            except AssertionError as error:
                text = next(t for t in kept if f"kernel {info.name}[" in t)
                raise AssertionError(f"{text}{dims}\n{error}") from None


# Each example is a library of many kernels: what fails names the kernel, so that there is nothing to shrink.
FEW = settings(
    max_examples=2,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example),
)


@FEW
@given(st.lists(products(), min_size=16, max_size=16), st.integers(0, 2**31))
def test_products(tmp_path_factory: pytest.TempPathFactory, texts: list[str], seed: int) -> None:
    check(texts, tmp_path_factory.mktemp("products") / "k", seed)


@FEW
@given(st.lists(maps(), min_size=16, max_size=16), st.integers(0, 2**31))
def test_maps(tmp_path_factory: pytest.TempPathFactory, texts: list[str], seed: int) -> None:
    check(texts, tmp_path_factory.mktemp("maps") / "k", seed)


ONE = [
    # Copies with rows of one element: K, then N, then both.
    "kernel NAME[M=3, N=2, K=1](x: bf16[M, K] strides(_, 1), w: bf16[K, N] col_major) -> bf16[M, N] {\n"
    "    return x @ w\n}\nschedule NAME for sm_90a {\n    mainloop = cooperative\n}\n",
    "kernel NAME[M=17, N=1, K=16](x: f16[K, M], w: f16[K, N]) -> (y: f16[M, N], z: f32[N]) {\n"
    "    y = x.T @ w\n    return y, min(y, axis=0)\n}\n"
    "schedule NAME for sm_90a {\n    mainloop = warpspecialized\n    tile = 128x128x64\n}\n",
    "kernel NAME[M, N=1, K=1](x: f32[M, K], w: f32[K, N]) -> f32[M, N] {\n    return x @ w\n}\n"
    "schedule NAME for sm_90a {\n    mainloop = pingpong\n}\n",
    # A row or a column that lies along K though its layout says otherwise.
    "kernel NAME[M=1, N, K=64](x: s8[K, M], w: u8[N, K]) -> s32[M, N] {\n    return x.T @ w.T\n}\n"
    "schedule NAME for sm_90a {\n    mainloop = pingpong\n}\n",
    "kernel NAME[M, N=1, K=64](x: e4m3[M, K], w: e4m3[N, K] col_major) -> f32[M, N] {\n"
    "    return x @ w.T\n}\nschedule NAME for sm_90a {\n    mainloop = cooperative\n}\n",
]


def test_axes_of_one_element(tmp_path: Path) -> None:
    assert all(_compiles(text) for text in ONE)
    check(ONE, tmp_path / "k", 1)


DROPPED = """kernel NAME[M, N, K](
    x: bf16[M, 1, K],
    p: bf16[1, N, K] col_major,
    q: bf16[K, 1, N] strides(_, _, 1),
    t: bf16[N, K, 1] strides(1, _, _),
    v: f32[1, M, 1],
    c: f32[N, 1, M],
) -> (a: f32[M, N], b: f32[M, N], d: f32[M, N], e: f32[M, N])
    where M % 8 == 0, N % 8 == 0, K % 8 == 0
{
    row = x[:, 0]
    column = x[:, :, 0:] @ p[0].T
    return row @ p[0].T + v[0], row @ q[:, 0] + c[:, 0].T, row @ t[..., 0].T, v[0] + c[:, 0].T + column[:, 0]
}
"""


def test_axes_that_an_index_drops(tmp_path: Path) -> None:
    """The view that is left has the strides of its axes, and nothing is copied for it."""
    text = "\n".join(line for line in DROPPED.splitlines() if "column =" not in line)
    compilation = compile_text(Source("k.mcu", text.replace(" + column[:, 0]", "")))
    assert [op.name for op in compilation.cutlass.walk() if op.name == "cutlass.map"] == ["cutlass.map"]
    check([DROPPED], tmp_path / "k", 3)


def test_a_row_along_k_is_not_copied() -> None:
    text = "kernel f[M, N=1, K=64](x: bf16[M, K], w: bf16[K, N]) -> f32[M, N] {\n    return x @ w\n}\n"
    text += "schedule f for sm_90a {\n    mainloop = cooperative\n}\n"
    assert "pad_b" not in compile_text(Source("k.mcu", text), Options()).emit("cutlass")
