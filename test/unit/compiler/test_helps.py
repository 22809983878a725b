"""Following a help never leads to the same code again, and no message names what nobody wrote or chose."""

from __future__ import annotations

import re

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import Diagnostic, DiagnosticError, Severity, Source
from mucc.library.signature import Manifest
from mucc.measure.dims import check_promises, complete_dims

PARAMS = "x: f32[M, N], t: f32[B, 4, H, W], one: f32[M, 1], part: f32[M, K/128], rest: f32[K]"
CASES = {
    "layer_norm(x)": "M, N",
    "layer_norm(x, axis=0)": "M, N",
    "rms_norm(x)": "M, N",
    "layer_norm(x.T)": "N, M",
    "layer_norm(t, axis=(1, 2))": "B, 4, H, W",
    "mean(x)": "",
    "mean(x, axis=0)": "N",
    "mean(x, axis=1)": "M",
    "mean(x.T, axis=1)": "N",
    "var(x, axis=0)": "N",
    "var(x)": "",
    "batch_norm(t)": "B, 4, H, W",
    "instance_norm(t)": "B, 4, H, W",
    "group_norm(t, groups=2)": "B, 4, H, W",
    "mean(part, axis=1)": "M",
    "mean(x, axis=1)[:, None] + mean(x, axis=0)": "M, N",
}
"""Calls that go over open dims, with the shapes of their results."""


def errors(text: str, target: str = "sm_90a") -> list[Diagnostic]:
    try:
        compile_text(Source("f.mcu", text), Options(target))
    except DiagnosticError as error:
        return [d for d in error.diagnostics if d.severity is Severity.ERROR]
    return []


def program(expression: str, shape: str, dims: dict[str, int]) -> str:
    listed = ", ".join(f"{d}={dims[d]}" if d in dims else d for d in ("M", "N", "B", "H", "W", "K"))
    return f"kernel f[{listed}]({PARAMS}) -> f32[{shape}] {{\n    y = {expression}\n    return y\n}}"


@pytest.mark.parametrize("expression", CASES)
def test_means_and_norms_go_over_open_dims(expression: str):
    assert errors(program(expression, CASES[expression], {})) == []


def test_the_variance_of_one_element_is_not_helped_by_dims():
    (found,) = errors(program("var(one, axis=1)", "M", {}))
    assert found.helps == ("write `correction=0`: the variance of so few elements is 0 / 0 else",)
    assert errors(program("var(one, axis=1, correction=0)", "M", {})) == []


PROMISES = st.lists(
    st.sampled_from(
        [
            *(
                "M % 8 == 0",
                "M <= 100",
                "M == 77",
                "M == N",
                "N > M",
                "K % 96 == 0",
                "K < 1000",
                "M + N <= 300",
            ),
            *("M + N <= 300", "N % 64 == 0", "N / 2 > 16", "M >= 2", "K == 3 * M", "K / 128 == 2", "N < 50"),
        ]
    ),
    max_size=3,
    unique=True,
)


@settings(max_examples=examples(40))
@given(PROMISES, st.booleans())
def test_dims_that_a_help_adds_keep_the_promises(promises: list[str], quotient: bool):
    where = f"where {', '.join(promises)} " if promises else ""
    params = "x: f32[M, K], y: f32[N]" + (", s: f32[M, K/128]" if quotient else "")
    text = f"kernel f[M, N, K]({params}) -> f32[M, K] {where}{{\n    return relu(x)\n}}"
    compilation = compile_text(Source("f.mcu", text))
    (info,) = Manifest.parse(compilation.manifest).kernels
    with pytest.raises(DiagnosticError) as caught:
        complete_dims(info, {})
    (found,) = caught.value.diagnostics
    assert found.code == "MU6051"
    added = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", found.helps[0])}
    if not added:
        assert found.helps == ("give values for M, N, K that keep the kernel's promises",)
        return
    check_promises(info, complete_dims(info, added))


GEMM = "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w.T\n}\n"


def scheduled(*lines: str, target: str = "sm_90a") -> str:
    return f"{GEMM}schedule f for {target} {{\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


def test_what_the_compiler_chose_is_said_to_be_its_choice():
    (found,) = errors(scheduled("tile = 64x128x64", "scheduler = stream_k(splits=2)"))
    assert found.code == "MU3010"
    assert "pingpong" in found.message
    assert found.notes[-1] == "`mainloop = pingpong` is the compiler's choice: the program does not set it"
    (found,) = errors(scheduled("tile = 64x128x64", "mainloop = pingpong", "scheduler = stream_k(splits=2)"))
    assert not any("choice" in note for note in found.notes)


def test_a_schedule_for_another_target_is_not_to_blame():
    text = scheduled("stages = 99") + scheduled("stages = 2", target="sm_80").removeprefix(GEMM)
    (found,) = errors(text)
    assert found.span is not None
    assert text[found.span.start : found.span.end] == "99"
    swapped = scheduled("stages = 2", target="sm_80") + scheduled("stages = 99").removeprefix(GEMM)
    (found,) = errors(swapped)
    assert found.span is not None
    assert swapped[found.span.start : found.span.end] == "99"


SETTINGS = {
    "tile": ("64x64x64", "128x128x64", "192x128x128", "256x256x64", "8x64x64", "128x8x64", "100x100x100"),
    "cluster": ("1x1", "2x1", "4x4", "3x1", "16x1"),
    "mainloop": ("cooperative", "pingpong", "warpspecialized", "cpasync", "multistage", "skinny", "one_sm"),
    "stages": ("1", "2", "5", "99"),
    "scheduler": ("persistent", "persistent(swizzle=3)", "stream_k", "split_k(2)", "split_k(7)"),
    "exchange": ("on", "off"),
    "epilogue": ("64x32", "128x32", "7x7"),
    "pdl": ("on",),
}


@settings(max_examples=examples(60))
@given(st.data(), st.sampled_from(("sm_90a", "sm_80", "sm_100a")))
def test_fixes_of_schedules_are_legal_and_messages_name_what_is_written(data: st.DataObject, target: str):
    names = data.draw(st.lists(st.sampled_from(sorted(SETTINGS)), min_size=1, max_size=4, unique=True))
    lines = [f"{name} = {data.draw(st.sampled_from(SETTINGS[name]))}" for name in names]
    text = scheduled(*lines, target=target)
    found = errors(text, target)
    for d in found:
        for word in re.findall(r"\bthe (\w+) mainloop\b", d.message):
            assert word in text or any(
                n.startswith(f"`mainloop = {word}` is the compiler's") for n in d.notes
            ), d
        for fix in d.fixes:
            mended = text[: fix.span.start] + fix.replacement + text[fix.span.end :]
            after = errors(mended, target)
            place = range(fix.span.start, fix.span.start + len(fix.replacement) + 1)
            assert not any(a.code == d.code and a.span and a.span.start in place for a in after), (d, mended)
