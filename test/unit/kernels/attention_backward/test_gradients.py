"""Gradients of attention: the kernel run on the host against the interpreter, and that against PyTorch."""

from __future__ import annotations

import pytest
from on_host import Program, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import DiagnosticError, Source


def _kernel(
    name: str, dims: str, lead: str, shared: str, dtype: str, width: int, options: str, more: str = ""
) -> str:
    """A kernel of all gradients of attention of one width."""
    of_query, of_key = f"{dtype}[{lead}S, {width}]", f"{dtype}[{shared}T, {width}]"
    gradients = ", ".join(f"attention_d{x}(q, k, v, y, l, dy{options})" for x in "qkv")
    return f"""
kernel {name}[{dims}](
    q: {of_query}, k: {of_key}, v: {of_key}, y: {of_query}, l: f32[{lead}S], dy: {of_query}{more}
) -> (dq: {of_query}, dk: {of_key}, dv: {of_key}) {{
    return {gradients}
}}
"""


LENGTHS = "iota((B, S, T), axis=2) < n[:, None, None]"
LABELS = "a[:, :, None] == b[:, None]"
MORE = ", a: s32[B, S], b: s32[B, T]"
BLOCKS = " == ".join(f"cast(floor(cast(iota((S, T), axis={a}), f32) / 60), s32)" for a in (0, 1))
KERNELS = "".join(
    (
        _kernel("plain", "B, S, T", "B, ", "B, ", "f16", 64, ""),
        _kernel("causal", "B, S, T", "B, ", "B, ", "f16", 128, ", causal=on"),
        _kernel("groups", "B, G, S, T", "B, G, ", "B, 1, ", "f16", 32, ", causal=on, scale=0.25"),
        _kernel("biased", "S, T", "", "", "f16", 80, ", mask=b", ", b: f32[S, T]"),
        _kernel("packed", "B, S, T", "B, ", "B, ", "f16", 64, f", causal=on, mask={LABELS}", MORE),
        _kernel("blocks", "G, S, T", "G, ", "1, ", "f16", 96, f", mask={BLOCKS}"),
        _kernel("lengths", "B, S, T", "B, ", "B, ", "f16", 64, f", mask={LENGTHS}", ", n: s32[B]"),
    )
)

FLOATS = (-0.5, -0.25, 0.0, 0.125, 0.5, 1.0)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(compile_text(Source("k.mcu", KERNELS)), tmp_path_factory.mktemp("gradients"))


@pytest.mark.parametrize("lengths", [(1, 1), (65, 129), (200, 150), (130, 300)], ids=str)
@pytest.mark.parametrize("name", ["plain", "causal", "groups", "biased", "packed", "blocks", "lengths"])
def test_kernels_agree_with_the_interpreter(program: Program, name: str, lengths: tuple[int, int]) -> None:
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    run(program, info, dims, seed=3, floats=FLOATS, within=2**-6, align=16)


def _text(**types: str) -> str:
    given = {name: f"f16[{'T' if name in 'kv' else 'S'}, 64]" for name in ("q", "k", "v", "y", "dy")}
    given["l"] = "f32[S]"
    parameters = ", ".join(f"{name}: {type}" for name, type in (given | types).items())
    return f"kernel g[S, T]({parameters}) -> f16[T, 64] {{ return attention_dv(q, k, v, y, l, dy) }}"


@pytest.mark.parametrize(
    "types",
    [{"l": "f16[S]"}, {"l": "f32[T]"}, {"dy": "f16[T, 64]"}, {"y": "f32[S, 64]"}, {"k": "f16[T, 32]"}],
    ids=str,
)
def test_operands_that_are_not_those_of_attention_are_refused(types: dict[str, str]) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("k.mcu", _text(**types)))
    assert [d.code for d in caught.value.diagnostics] == ["MU1103"]


OTHERS = {
    "wide rows": _text(q="f16[S, 192]", k="f16[T, 192]"),
    "rows of 12 bytes": _text(q="f16[S, 6]", k="f16[T, 6]"),
    "f32": _text(**{n: f"f32[{'T' if n in 'kv' else 'S'}, 64]" for n in ("q", "k", "v", "y", "dy")}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_gradients_are_products(name: str) -> None:
    text = compile_text(Source("k.mcu", OTHERS[name])).emit("cutlass")
    assert "cutlass.attention_backward" not in text
    assert "cutlass.gemm" in text
