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


@pytest.mark.parametrize("name", ["groups", "blocks"])
def test_heads_that_share_keys_are_divided(program: Program, name: str) -> None:
    """Where there are many processors each head of queries has blocks of its own, which add up in memory."""
    info = next(k for k in program.kernels if k.name == name)
    sizes = {"B": 2, "G": 3, "S": 200, "T": 150}
    program.library.on_host_sm_count(100)
    try:
        run(program, info, {d: sizes[d] for d in info.dims}, seed=4, floats=FLOATS, within=2**-6, align=16)
    finally:
        program.library.on_host_sm_count(0)


@pytest.mark.parametrize("name", ["packed", "blocks"])
def test_labels_are_found(program: Program, name: str) -> None:
    programs = str(program.compilation.cutlass).split("cutlass.program")
    text = next(text for text in programs if f"@{name}(" in text)
    assert " labels %" in text and "mu.select" not in text and "mu.cmp" not in text


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


def _biased(name: str, lead: str, shared: str, width: int, bias: str, options: str = "") -> str:
    """A kernel of all gradients of attention with a learned bias, that of the bias too."""
    of_query, of_key = f"f16[{lead}S, {width}]", f"f16[{shared}T, {width}]"
    of_bias = f"{bias}[{lead}S, T]"
    given = ", ".join(f"attention_d{x}(q, k, v, y, l, dy, mask=b{options})" for x in ("q", "k", "v", "mask"))
    dims = ", ".join(dict.fromkeys(d for d in f"{lead}S, T".split(", ") if d.isalpha()))
    return f"""
kernel {name}[{dims}](
    q: {of_query}, k: {of_key}, v: {of_key}, y: {of_query}, l: f32[{lead}S], dy: {of_query}, b: {of_bias}
) -> (dq: {of_query}, dk: {of_key}, dv: {of_key}, db: {of_bias}) {{
    return {given}
}}
"""


LEARNED = {
    "alone": _biased("alone", "", "", 64, "f32"),
    "causal": _biased("causal", "B, ", "B, ", 80, "f16", ", causal=on"),
    "groups": _biased("groups", "B, G, ", "B, 1, ", 32, "f16", ", causal=on, scale=0.25"),
}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Program:
    compilation = compile_text(Source("k.mcu", "".join(LEARNED.values())))
    lowered = str(compilation.cutlass)
    assert lowered.count("cutlass.attention_backward") == len(LEARNED) and "cutlass.gemm" not in lowered
    return Program.of(compilation, tmp_path_factory.mktemp("learned"))


@pytest.mark.parametrize("lengths", [(1, 1), (65, 129), (300, 150), (130, 300)], ids=str)
@pytest.mark.parametrize("name", LEARNED)
def test_the_kernel_stores_the_gradient_of_a_bias(
    learned: Program, name: str, lengths: tuple[int, int]
) -> None:
    info = next(k for k in learned.kernels if k.name == name)
    sizes = {"B": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    dims = {d: sizes[d] for d in info.dims}
    run(learned, info, dims, seed=3, floats=FLOATS, within=2**-6, align=16)


BIAS = """
kernel bias[B, S, T](
    q: f16[B, 2, S, 16], k: f16[B, 2, T, 16], v: f16[B, 2, T, 16], y: f16[B, 2, S, 16], l: f32[B, 2, S],
    dy: f16[B, 2, S, 16], b: f32[{lead}, S, T]
) -> (dq: f16[B, 2, S, 16], db: f32[{lead}, S, T]) {{
    return attention_dq(q, k, v, y, l, dy, mask=b), attention_dmask(q, k, v, y, l, dy, mask=b)
}}
"""


@pytest.mark.parametrize("lead", ["2", "B, 2", "B, 1", "1"])
def test_gradients_of_masks_add_up_over_what_they_broadcast_to(lead: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    compilation = compile_text(Source("k.mcu", BIAS.format(lead=lead)))
    assert compilation.emit("cutlass").count("cutlass.attention_backward") == 1
    torch.manual_seed(2)
    q, k, v, dy = (torch.randn(2, 2, n, 16, dtype=torch.float64) for n in (5, 7, 7, 5))
    shape = [2 if d == "B" else int(d) for d in lead.split(", ")]
    b = torch.randn(*shape, 5, 7, dtype=torch.float64, requires_grad=True)
    scores = q @ k.mT / 4 + b
    y = scores.softmax(-1) @ v
    (expected,) = torch.autograd.grad(y, b, dy)
    inputs = [q, k, v, y.detach(), scores.logsumexp(-1).detach(), dy, b.detach()]
    for found in (
        compilation.interpret("bias", inputs)[1],
        compilation.interpret_stages("bias", inputs)[1],
    ):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mask", ["", ", mask=b > 0"])
def test_masks_that_are_no_numbers_have_no_gradient(mask: str) -> None:
    text = BIAS.format(lead="1").replace(
        "attention_dmask(q, k, v, y, l, dy, mask=b)", f"attention_dmask(q, k, v, y, l, dy{mask})"
    )
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("k.mcu", text))
    assert [d.code for d in caught.value.diagnostics] == ["MU1103"]
