"""IR generation: what programs mean in `mu`, what is rejected, and where errors point."""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from budget import examples
from builders import parsed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import programs, sentences
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.printer import Printer

import mucc.frontend as frontend
from mucc.compiler.driver import compile_text
from mucc.diagnostics import codes_frontend, codes_program
from mucc.diagnostics.core import Diagnostic, Source
from mucc.dialects.mu import ops
from mucc.dialects.mu.ops.elementwise import ELEMENTWISE
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.frontend.functions import FUNCTIONS
from mucc.frontend.reference import card, function_table

ROOT = Path(__file__).parents[3]
LANGUAGE = (ROOT / "docs" / "language.md").read_text()
CODES = {**codes_program.CODES, **codes_frontend.CODES}
CODES.pop("MU0015")  # many errors, which no short program has: see test_cli_edges
GUIDE = ROOT / "mucc" / "agent" / "guide.md"
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def lower(text: str) -> tuple[ModuleOp, list[Diagnostic]]:
    program, sink = frontend.parse(Source("test.mcu", text))
    assert not sink.has_errors, sink.diagnostics
    return frontend.lower(program, sink), sink.diagnostics


def diagnose(text: str) -> list[Diagnostic]:
    program, sink = frontend.parse(Source("test.mcu", text))
    if not sink.has_errors:
        frontend.lower(program, sink)
    return sink.diagnostics


def codes(text: str) -> list[str]:
    return [d.code for d in diagnose(text)]


def body(text: str, result: str = "bf16[M, K]") -> str:
    signature = "x: bf16[M, K], y: bf16[M, K], w: bf16[N, K], b: bf16[M], s: f32"
    return f"kernel f[M, N, K]({signature}) -> {result} {{\n{text}\n}}"


def errors(text: str) -> list[str]:
    return [d.code for d in diagnose(text) if d.severity == "error"]


def printed(text: str) -> str:
    module, found = lower(text)
    assert not [d for d in found if d.severity == "error"], found
    module.verify()
    out = StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def mcu_blocks(text: str) -> list[str]:
    return re.findall(r"```mcu\n(.*?)```", text, re.DOTALL)


# Codes


@pytest.mark.parametrize("code", CODES)
def test_explanations_show_a_wrong_and_a_mended_program(code: str) -> None:
    wrong, mended = mcu_blocks(CODES[code][1])
    found = codes(wrong)
    assert code in found
    # The wrong program shows one mistake, not several.
    assert {c for c in found if c not in ("MU1013", "MU1014")} <= {code}
    left = codes(mended)
    assert not [c for c in left if c not in ("MU1013", "MU1014")]
    assert code not in left


def test_every_code_in_the_sources_is_registered() -> None:
    files = [
        *(ROOT / "mucc" / "frontend").glob("*.py"),
        *(ROOT / "mucc" / "dialects" / "mu").glob("*rules.py"),
        *(ROOT / "mucc" / "dialects" / "mu" / "ops").glob("*.py"),
    ]
    used = {c for f in files for c in re.findall(r'"(MU[01]\d{3})"', f.read_text())}
    assert used == set(CODES)


# Documents


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.mcu")), ids=lambda p: p.stem)
def test_examples_lower_without_a_finding(path: Path) -> None:
    module, found = lower(path.read_text())
    module.verify()
    assert not found


@pytest.mark.parametrize("text", [*mcu_blocks(LANGUAGE), *mcu_blocks(card())])
def test_programs_in_documents_are_good_and_canonical(text: str) -> None:
    _, found = lower(text)
    assert not found
    assert frontend.format(Source("test.mcu", text)) == text


@pytest.mark.parametrize("text", [*mcu_blocks(LANGUAGE), *mcu_blocks(card())])
def test_schedules_in_documents_are_legal(text: str) -> None:
    assert not compile_text(Source("test.mcu", text)).sink.diagnostics


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.mcu")), ids=lambda p: p.stem)
def test_chosen_schedules_can_be_pasted_back(path: Path) -> None:
    compilation = compile_text(Source(path.name, path.read_text()))
    assert not compilation.sink.diagnostics
    chosen = compilation.emit("schedule")
    kernels = re.sub(r"(?ms)^schedule .*?^\}\n", "", path.read_text())
    pasted = compile_text(Source(path.name, kernels + chosen))
    assert not pasted.sink.diagnostics
    assert pasted.emit("schedule") == chosen
    assert frontend.format(Source("chosen.mcu", chosen)) == chosen


def test_card_is_as_short_as_the_guide_says() -> None:
    """Counted by a tokenizer whose package carries the vocabulary o200k."""
    bpe = pytest.importorskip("bpe_openai", reason="needs bpe-openai, which the extra dev brings")
    said = re.search(
        r"mucc docs --card +# the language, (\d+) tokens", (ROOT / "mucc/agent/guide.md").read_text()
    )
    assert said and len(bpe.get_encoding("o200k_base").encode(card())) <= int(said[1])


def test_card_is_complete() -> None:
    text = card()
    for name in FUNCTIONS:
        assert re.search(rf"\b{name}\b", text)
    for word in ("tile", "cluster", "mainloop", "stages", "scheduler", "cooperative", "pingpong", "split_k"):
        assert word in text


def test_language_page_lists_the_functions() -> None:
    assert function_table() in LANGUAGE


# Functions


def test_every_operation_with_a_surface_name_is_a_function() -> None:
    named = {cls.SURFACE for cls in ELEMENTWISE if cls.SURFACE}
    assert named | {name for names in ops.FILES.values() for name in names} | {"where", "cast"} == set(
        FUNCTIONS
    )


def test_a_program_loads_the_operations_that_it_calls() -> None:
    code = (
        "import sys; from mucc.diagnostics import Source; from mucc.compiler.driver import compile_text\n"
        "def used(): return {f for f in ('conv', 'normalisation', 'placed', 'pooling', 'shape')"
        " if f'mucc.dialects.mu.ops.{f}' in sys.modules}\n"
        "compile_text(Source('k', 'kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N]"
        " { return relu(x @ w.T) }')); print(used())\n"
        "compile_text(Source('k', 'kernel f[M, N](x: bf16[M, N]) -> bf16[M, N] { return softmax(x) }'))\n"
        "print('normalisation' in used())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["set()", "True"]


@pytest.mark.parametrize("file", ops.FILES)
def test_files_of_operations_are_listed_with_their_functions(file: str) -> None:
    assert tuple(dict.fromkeys(f.name for f in ops.functions(file))) == ops.FILES[file]


def test_every_file_that_defines_operations_is_listed() -> None:
    folder = Path(ops.__file__).parent
    defining = {p.stem for p in folder.glob("*.py") if "\nOPERATIONS" in p.read_text()}
    assert defining == set(ops.FILES)


@pytest.mark.parametrize(
    ("call", "op"),
    [
        ("matmul(x, w.T) @ w", "mu.matmul bf16"),
        ("gelu(x, approximate=tanh)", "approximate = #mu<approximation tanh>"),
        ("leaky_relu(x, 0.5)", "{slope = 5.000000e-01 : f64}"),
        ("leaky_relu(x)", "{slope = 1.000000e-02 : f64}"),
        ("hardtanh(x, hi=6, lo=-6)", "{lo = -6.000000e+00 : f64, hi = 6.000000e+00 : f64}"),
        ("max(x, 0)", "mu.max %x"),
        ("max(x, axis=-1)[:, None] + x", "mu.reduce max %x axes [1]"),
        ("sum(x, axis=(0, 1)) + x", "mu.reduce sum %x axes [0, 1]"),
        ("amax(x) + x", "mu.reduce amax %x axes [0, 1]"),
        ("clamp(x, lo=s, hi=1)", "mu.clamp %x, %s, "),
        ("where(x > 0, x, y)", "mu.select"),
        ("cast(x, f16)", "-> !mu.tensor<[M, K], f16>"),
        ("-x", "mu.neg"),
        ("-1 + x", "mu.constant -1.000000e+00"),
        ("b[:, None] * x", "mu.expand %b axes [1]"),
    ],
)
def test_calls(call: str, op: str) -> None:
    assert op in printed(body(f"return {call}"))


# Meaning


def test_bound_dims_are_numbers_everywhere() -> None:
    text = printed("kernel f[M, K=64](x: f32[M, K], y: f32[M, 64]) -> f32[M, K] { return (x + y) / K }")
    assert "!mu.tensor<[M, 64], f32>" in text
    assert "mu.constant 6.400000e+01" in text
    assert 'dims = ["M", "K"], bound = {K = 64 : i64}' in text


def test_promises() -> None:
    text = printed(
        "kernel f[M, N, K=8](x: f32[M, N]) -> f32[M, N]\n"
        "where M % 8 == 0, (M + 2 * N) / 4 < 100, K >= 8, N > M { return x }"
    )
    assert "(d0 mod 8) == 0" in text
    assert "d1 >= (d0 + 1)" in text
    assert text.count("==") == 1 and "d2 >= 8" not in text  # what always holds is left out


def test_declared_types_convert_and_pin_stores() -> None:
    text = printed(body("stage h: f32[M, N] = x @ w.T\nreturn h @ cast(w, f32)"))
    assert '%h = mu.pin "h"' in text
    assert text.count("mu.cast") == 3  # to f32 for h, of w, and the narrowing of the result


def test_returned_transpose_is_stored_row_major() -> None:
    text = printed("kernel f[M, N](x: bf16[M, N]) -> bf16[N, M] { return x.T }")
    assert "mu.return %1 : !mu.tensor<[N, M], bf16>" in text


def test_unnamed_result_avoids_parameters() -> None:
    assert 'result_names = ["out_"]' in printed("kernel f[M](out: f32[M]) -> f32[M] { return out }")


def test_every_operation_has_its_place() -> None:
    module, _ = lower("kernel f[M](x: bf16[M])\n -> bf16[M] {\n  h = relu(x)\n  return h *\n 2\n}")
    places = {
        op.name: (op.location.line.data, op.location.column.data)
        for op in module.walk()
        if isinstance(op.location, FileLineColLoc)
    }
    assert places == {
        "mu.kernel": (1, 1),
        "mu.relu": (3, 7),
        "mu.constant": (5, 2),
        "mu.mul": (4, 10),
        "mu.return": (4, 3),
    }


def test_schedules() -> None:
    head = (
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] { stage h = x @ w.T return relu(h) }\n"
    )
    text = printed(
        head + "schedule f for sm_90a { tile = 128x256x64 cluster = 2x1 mainloop = pingpong stages = auto }\n"
        "schedule f.h for sm_90a { stages = 4 scheduler = stream_k(splits=2) }"
    )
    assert 'mu.schedule "f" for "sm_90a" {tile = #mu.tile<128, 256, 64>, cluster = #mu.cluster<2, 1>' in text
    assert 'mu.schedule "f" stage "h" for "sm_90a" {stages = 4 : i64, scheduler' in text


@settings(SLOW, max_examples=examples(150))
@given(programs())
def test_generated_programs_fit_into_100_columns_lower_and_round_trip(text: str) -> None:
    # What cannot be broken: one parameter, one name, one number.
    assert all(len(line) <= 100 for line in frontend.format(Source("test.mcu", text)).splitlines())
    module, found = lower(text)
    assert not [d for d in found if d.severity == "error"]
    module.verify()
    written = str(module)
    again = parsed(written)
    assert str(again) == written or "affine_set" in written
    assert [op.name for op in again.walk()] == [op.name for op in module.walk()]


@SLOW
@given(sentences())
def test_no_sentence_of_the_grammar_crashes_the_checks(text: str) -> None:
    for d in diagnose(text):
        assert d.code in CODES
        assert d.span is not None and 0 <= d.span.start <= d.span.end <= len(text)


@settings(SLOW, max_examples=examples(150))
@given(programs(), st.data())
def test_no_renaming_crashes_the_checks(text: str, data: st.DataObject) -> None:
    names = sorted(set(re.findall(r"[A-Za-z_]\w*", text)))
    old, new = data.draw(st.sampled_from(names)), data.draw(st.sampled_from([*names, "zz", "7"]))
    changed = re.sub(rf"\b{old}\b", new, text)
    found = diagnose(changed)
    assert found or isinstance(lower(changed)[0].body.block.first_op, KernelOp)


# Errors


def test_one_run_reports_every_error_once() -> None:
    found = diagnose(
        """kernel f[M, N, K, Z](x: bf16[M, K], w: bf16[N, K], b: bf16[N], unused: f32[Q]) -> bf16[M, N] {
    h = geluu(x @ w)
    g = bb + h * 2
    i = x @ w
    j = i + 1
    k = leaky_relu(x, slop=0.1)
    return sum(x, axis=3) + h + j
}
schedule g for sm_90a { tile = 12 }
"""
    )
    assert [(d.code, d.severity.value) for d in found] == [
        ("MU1006", "error"),
        ("MU1005", "error"),
        ("MU1002", "error"),
        ("MU1024", "error"),
        ("MU1001", "error"),
        ("MU1024", "error"),
        ("MU1008", "error"),
        ("MU1028", "error"),
        ("MU1040", "error"),
        ("MU1044", "error"),
    ]


def apply_fixes(text: str) -> str:
    fixes = [f for d in diagnose(text) for f in d.fixes]
    assert fixes
    for fix in sorted(fixes, key=lambda f: f.span, reverse=True):
        text = text[: fix.span.start] + fix.replacement + text[fix.span.end :]
    return text


@pytest.mark.parametrize(
    "text",
    [
        body("return geluu(x)"),
        body("return x + bb[:, None] * yy", "f32[M, K]")
        .replace("b: bf16[M]", "bbb: bf16[M]")
        .replace("yy", "y"),
        body("return leaky_relu(x, slop=0.5)"),
        body("return gelu(x, approximate=tan)"),
        body("return x @ w", "bf16[M, N]"),
        body("return x + b"),
        body("return b * x"),
        body("stage hid = relu(x @ w.T)\nreturn hid @ w")
        + "\nschedule ff.hidd for sm_90 { tiles = 64x64x64 }".replace("ff", "f"),
        body("return x") + "\nschedule f for sm_90a { mainloop = cooperativ }",
        body("return x") + "\nschedule f for sm_90a { scheduler = persistent(raser=along_n) }",
    ],
)
def test_fixes_mend_the_program(text: str) -> None:
    assert errors(text)
    assert errors(apply_fixes(text)) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (body("return matmul(x, w.T, compute=tf32) @ w"), "MU1010"),
        (body("return sum(x, axis=1.5) + x"), "MU1010"),
        (body("return relu((1, 2))"), "MU1010"),
        (body("return cast(x, f64)"), "MU1010"),
        (body("return cast(x, 3)"), "MU1010"),
        (body("return clamp(x, 1)"), "MU1007"),
        (body("return sum()"), "MU1007"),
        (body("return f32"), "MU1001"),
        (body("return relu"), "MU1001"),
        (body("h: bf16[K, M] = x\nreturn x + h"), "MU1012"),
        (body("h: f32 = x\nreturn x * h"), "MU1012"),
        (body("h: f32[] = s\nreturn x * h"), "MU1012"),
        (body("h: bf16[M, K] col_major = x\nreturn h"), "MU1016"),
        (body("stage h = s * 2\nreturn x * h"), "MU1015"),
        (body("stage h = x > 0\nreturn x"), "MU1017"),
        (body("return s", "f32[]"), "MU1012"),
        (body("return x", "(y: bf16[M, K])"), "MU1003"),
        (body("return x, x", "(u: bf16[M, K], u: bf16[M, K])"), "MU1003"),
        ("kernel f[M, M](x: f32[M]) -> f32[M] { return x }", "MU1003"),
        ("kernel f[x](x: f32[x]) -> f32[x] { return x }", "MU1003"),
        ("kernel f[M](x: f32[M]) -> f32[M] { return x }\n" * 2, "MU1003"),
        ("kernel f[M](x: f32[M], a: bf16) -> f32[M] { return x * a }", "MU1015"),
        ("kernel f[M](x: f32[M] strides(0)) -> f32[M] { return x }", "MU1016"),
        ("kernel f[M](x: f32[M] col_major) -> f32[M] { return x }", "MU1016"),
        ("kernel f[M](x: f32[M], a: f32 row_major) -> f32[M] { return x * a }", "MU1016"),
        ("kernel f[M, N](x: f32[M, N]) -> f32[M, N] col_major { return x }", "MU1016"),
        ("kernel f[M](x: f32[M]) -> f32[M] where M % M == 0 { return x }", "MU1046"),
        ("kernel f[M](x: f32[M]) -> f32[M] where M / 0 == 0 { return x }", "MU1046"),
        ("kernel f[M](x: f32[M]) -> f32[M] where Q == 0 { return x }", "MU1005"),
        ("kernel f[M=0](x: f32[M]) -> f32[M] { return x }", "MU1049"),
        (
            "kernel f[M](x: f32[M]) -> f32[M] { return x }"
            "kernel f_workspace[M](x: f32[M]) -> f32[M] { return x }",
            "MU1050",
        ),
        (body("return x") + "schedule f for sm_90a { cluster = 2x1x1 }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { tile = 0x64x64 }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { stages = 0 }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { stages = many }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { mainloop = pingpong(2) }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { scheduler = split_k() }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { scheduler = split_k(2, 3) }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { scheduler = persistent(4) }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { scheduler = persistent(swizzle=0) }", "MU1044"),
        (body("return x") + "schedule f for sm_90a { scheduler = stream_k(splits=along_n) }", "MU1044"),
    ],
)
def test_rejected(text: str, code: str) -> None:
    assert set(errors(text)) == {code}


def test_errors_point_at_the_smallest_text() -> None:
    text = body("h = x @ w\nreturn h")
    (error,) = [d for d in diagnose(text) if d.severity == "error"]
    assert error.span is not None
    assert text[error.span.start : error.span.end] == "@"
    assert [(text[s.start : s.end], label) for s, label in error.labels] == [
        ("x", "this is bf16[M, K]"),
        ("w", "this is bf16[N, K]"),
    ]
