"""Lexer, parser and formatter: what they accept, how they recover, and that nothing crashes them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from budget import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from strategies import programs, sentences, untidy

import mucc.frontend as frontend
from mucc.diagnostics.core import Diagnostic, DiagnosticError, DiagnosticSink, Source
from mucc.frontend import ast
from mucc.frontend.grammar import grammar, rules
from mucc.frontend.lexer import KEYWORDS, PUNCTUATION, lex

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.mcu"))
LANGUAGE = (ROOT / "docs" / "language.md").read_text()
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def parse(text: str) -> tuple[ast.Program, list[Diagnostic]]:
    program, sink = frontend.parse(Source("test.mcu", text))
    return program, sink.diagnostics


def parse_cleanly(text: str) -> ast.Program:
    program, found = parse(text)
    assert not found, found
    return program


def codes(text: str) -> list[str]:
    return [d.code for d in parse(text)[1]]


def fmt(text: str) -> str:
    return frontend.format(Source("test.mcu", text))


def expression(text: str) -> ast.Expr:
    (kernel,) = parse_cleanly(f"kernel f(x: f32) -> f32[] {{ return {text} }}").kernels
    return kernel.returns[0]


# Grammar


def test_documented_grammar_is_the_parsers() -> None:
    (block,) = re.findall(r"```ebnf\n(.*?)```", LANGUAGE, re.DOTALL)
    assert block == grammar()
    assert block.count("\n") <= 170


def test_every_name_in_the_grammar_is_a_rule() -> None:
    known = set(rules())
    words = {"letter", "digit", "any", "character", "but", "a", "line", "end"}
    for name, rule in rules().items():
        body = re.sub(r'"[^"]*"|\(\*.*?\*\)', "", rule.split("=", 1)[1])
        assert set(re.findall(r"[a-z_]+", body)) <= known | words, name


CONTEXT_WORDS = frozenset({"T", "_", "row_major", "col_major", "strides", "sparse", "each"})
"""Names that the grammar gives a meaning in one place, free elsewhere."""


def test_terminals_and_lexer_agree() -> None:
    lexical = {"name", "integer", "number", "shape", "comment"}
    terminals = {
        t for name, rule in rules().items() if name not in lexical for t in re.findall(r'"([^"]*)"', rule)
    }
    words = {t for t in terminals if t[0].isalpha() or t == "_"}
    assert words == KEYWORDS | CONTEXT_WORDS
    # `!=` and its like are single tokens; nothing is lexed that the grammar does not use.
    assert terminals - words == set(PUNCTUATION)


@SLOW
@given(sentences())
def test_every_sentence_of_the_grammar_is_accepted(text: str) -> None:
    # A sentence may repeat a setting, mix argument kinds, nest deeply: EBNF does not express these rules.
    allowed = {"MU0007", "MU0010", "MU0014", "MU0016"}
    assert set(codes(text)) <= allowed


# Lexer


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("128x256x64", ["shape"]),
        ("12 0.5 1e-6 2E+3", ["int", "float", "float", "float"]),
        ("1.T", ["int", ".", "name"]),
        ("a->b", ["name", "->", "name"]),
        ("a<=b<c", ["name", "<=", "name", "<", "name"]),
        ("stage stages", ["stage", "name"]),
        ("// all\n//\n", []),
    ],
)
def test_tokens(text: str, kinds: list[str]) -> None:
    source = Source("t", text)
    sink = DiagnosticSink(source)
    tokens, _ = lex(source, sink)
    assert [t.kind for t in tokens] == [*kinds, "eof"]
    assert not sink.diagnostics
    assert all(text[t.start : t.end] == t.text for t in tokens)


@pytest.mark.parametrize(
    "text", ["12ab", "1e", "0x", "1.5.2", "3x", "9" * 30, "1e999", "9" * 5000, "0" * 5000, "1x" + "9" * 5000]
)
def test_malformed_numbers(text: str) -> None:
    source = Source("t", text)
    sink = DiagnosticSink(source)
    lex(source, sink)
    assert [d.code for d in sink.diagnostics] == ["MU0003"]
    assert len(sink.diagnostics[0].message) < 100


# Expressions


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a @ b.T + c", "(a @ (b.T)) + c"),
        ("-a.T * b", "(-(a.T)) * b"),
        ("not a < b and c or d", "((not (a < b)) and c) or d"),
        ("x[:, None].T", "(x[:, None]).T"),
        ("a / b @ c", "(a / b) @ c"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    assert expression(text) == expression(same)


def test_spans_point_at_the_text() -> None:
    text = "kernel f[M](x: bf16[M]) -> bf16[M] { return relu((x + 1) * 2) }"
    (kernel,) = parse_cleanly(text).kernels
    call = kernel.returns[0]
    assert isinstance(call, ast.Call)
    product = call.args[0].value
    assert isinstance(product, ast.Binary)
    assert text[call.span.start : call.span.end] == "relu((x + 1) * 2)"
    assert text[product.lhs.span.start : product.lhs.span.end] == "(x + 1)"
    assert text[product.op_span.start : product.op_span.end] == "*"


def test_nodes_are_frozen_and_compare_without_spans() -> None:
    one, two = expression("a + b"), expression("a   +   b")
    assert one == two and hash(one) == hash(two) and one.span != two.span
    assert one != expression("a - b")
    with pytest.raises(AttributeError):
        one.span = two.span  # type: ignore[misc]


# Errors and recovery


def test_several_errors_in_one_run_in_the_order_of_the_text() -> None:
    program, found = parse(
        """kernel f[M, 4](x: bf61[M], y bf16[M]) -> bf16[M] {
            a = relu(x y, 3 4)
            b = a < 1 < 2
            c = @ 3
            return a;
        }
        schedule f for sm_90a { tile = 128 x 256 x 64
            stages = 3
            stages = 4 }
        kernel g(x: f32[]) -> f32[] { return x }"""
    )
    assert [d.code for d in found] == [
        "MU0001", "MU0006", "MU0001", "MU0001", "MU0001", "MU0009", "MU0001", "MU0002", "MU0012", "MU0007",
    ]  # fmt: skip
    assert [k.name.text for k in program.kernels] == ["f", "g"]
    assert all(d.span for d in found)


def test_one_mistake_gives_one_error() -> None:
    for text in (
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n h = relu(x\n g = h\n return g\n}",
        "kernal f[M](x: bf16[M]) -> bf16[M] {\n return x\n}",
        "kernel f[M](x: bf16[M] -> bf16[M] {\n return x\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M]\n return x\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n return x\n",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n x @ w\n return x\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n return (x, x)\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n h = sum(x,\n  axis 1)\n return h\n}",
        "schedule f for sm_90a { tile 128x128x64\n stages = 3 }",
    ):
        assert len(codes(text)) == 1, (text, parse(text)[1])


@pytest.mark.parametrize(
    ("text", "help_"),
    [
        ("kernal f(x: f32) -> f32[] { return x }", "did you mean 'kernel'?"),
        ("kernel f(x: fp16) -> f32[] { return x }", "did you mean 'f16'?"),
        ("kernel f(x: f32) -> f32[] { retrun x }", "did you mean 'return'?"),
        ("kernel f(x: f32[2, 2] colmajor) -> f32[] { return x }", "did you mean 'col_major'?"),
        ("kernel f(x: f32) -> f32[] { return x ** 2 }", "write pow(x, y) for a power"),
        ("kernel f(x: f32) -> f32[] { x += 2 return x }", "values are named once: write `new = x + ...`"),
        (
            "kernel f(x: f32) -> f32[] { return x && x }",
            "write 'and' for a logical and, bitwise_and(a, b) for bits",
        ),
        ("# note\nkernel f(x: f32) -> f32[] { return x }", "comments begin with '//'"),
    ],
)
def test_advice(text: str, help_: str) -> None:
    assert help_ in [h for d in parse(text)[1] for h in d.helps]


def test_fixes_mend_the_program() -> None:
    text = "kernal f[M](x: fp16[M] rowmajor) -> f16[M] { return x.t; }\n"
    text += "schedule f for sm_90a { tile = 1 x 2 x 3, }"
    fixes = [fix for d in parse(text)[1] for fix in d.fixes]
    for fix in sorted(fixes, key=lambda f: f.span, reverse=True):
        text = text[: fix.span.start] + fix.replacement + text[fix.span.end :]
    assert codes(text) == []


@pytest.mark.parametrize("depth", [60, 64, 65, 1000, 10_000])
@pytest.mark.parametrize("form", ["({})", "-{}", "not {}", "f({})", "f(a, b=({}))", "x + ({})"])
def test_depth_is_bounded(depth: int, form: str) -> None:
    opening, closing = form.split("{}")
    text = f"kernel f(x: f32) -> f32[] {{ return {opening * depth}x{closing * depth} }}"
    if depth <= 60 and form != "f(a, b=({}))":
        assert codes(text) == [] and fmt(text)
    elif depth > 64:
        assert codes(text)[0] == "MU0010"


@pytest.mark.parametrize("chain", [".T", "[:, None]"])
def test_length_of_views_of_views_is_bounded(chain: str) -> None:
    text = "kernel f(x: f32) -> f32[] {{ return x{} }}"
    assert codes(text.format(chain * 100)) == []
    assert fmt(text.format(chain * 100))
    assert codes(text.format(chain * 5000)) == ["MU0010"]


@pytest.mark.parametrize("chain", [" + x", " and x", " @ x"])
def test_chains_of_operators_have_any_length(chain: str) -> None:
    text = f"kernel f(x: f32) -> f32[] {{ return x{chain * 5000} }}"
    assert codes(text) == []
    assert fmt(text)


def test_what_is_no_program_at_all_gives_a_bounded_number_of_errors() -> None:
    for text in ("§ " * 20_000, "0x " * 20_000, ") " * 20_000, "kernel f[4] " * 5_000, "kernel f(" * 5_000):
        assert 1 <= len(codes(text)) <= 100


def test_promises_and_setting_values_are_bounded_too() -> None:
    deep = "(" * 500 + "M" + ")" * 500
    assert "MU0010" in codes(f"kernel f[M](x: f32[M]) -> f32[M] where {deep} == 1 {{ return x }}")
    assert "MU0010" in codes(f"kernel f[M](x: f32[M]) -> f32[M] where M{' + M' * 500} == 1 {{ return x }}")
    assert "MU0010" in codes("schedule f for sm_90a { scheduler = " + "a(" * 500 + ")" * 500 + " }")


@given(st.text())
@example("kernel f[")
@example("\ufeff\x00é\u2028")
def test_no_text_crashes_the_parser(text: str) -> None:
    _, found = parse(text)
    for d in found:
        assert d.code.startswith("MU0") and d.span is not None
        assert 0 <= d.span.start <= d.span.end <= len(text)
    if not found:
        assert fmt(fmt(text)) == fmt(text)
    else:
        with pytest.raises(DiagnosticError):
            fmt(text)


WORDS = [
    *sorted(KEYWORDS | CONTEXT_WORDS),
    *PUNCTUATION,
    "x",
    "bf16",
    "M",
    "12",
    "1.5",
    "2x1",
    "\n",
    "// c\n",
]


@given(st.lists(st.sampled_from(WORDS), max_size=60))
def test_no_sequence_of_tokens_crashes_the_parser(words: list[str]) -> None:
    parse(" ".join(words))


@SLOW
@given(st.sampled_from(EXAMPLES), st.data())
def test_no_mutation_of_a_program_crashes_the_parser(path: Path, data: st.DataObject) -> None:
    text = path.read_text()
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(st.sampled_from(["", *WORDS, "{", "§"])) + text[end:]
    _, found = parse(text)
    if not found:
        assert fmt(fmt(text)) == fmt(text)


# Formatter


@settings(SLOW, max_examples=examples(150))
@given(untidy(st.one_of(programs(), sentences())))
def test_formatting_keeps_the_program_and_its_comments(text: str) -> None:
    program, found = parse(text)
    if found:
        return
    once = fmt(text)
    assert parse_cleanly(once) == program
    assert fmt(once) == once
    comments = sorted(re.findall("//.*", text))
    assert sorted(re.findall("//.*", once)) == comments


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_in_canonical_layout(path: Path) -> None:
    assert fmt(path.read_text()) == path.read_text()
    assert path.read_text().startswith("// ")


def test_layout() -> None:
    text = """// head
kernel   f [M,N,K = 064](x:bf16[M,K], // the x
  w: bf16[N, K] col_major
  // after w
  ) -> (y: bf16[M,N], z: f32[])
    where K % 8 == 0, (M+1)*2 >= 1   // promise
{  // open
    // first
    stage h : bf16[M,N] = (x @ w.T) + (s * 2) // why
    q = not (h < 1)


    return gelu(x @ w.T // inside
     + b), (4) // tail
    // last
} // after
schedule f.h for sm_90a { tile      = 128x256x64
    scheduler = persistent ( raster=along_n,swizzle=2 ) // dd
}"""
    assert (
        fmt(text)
        == """// head
kernel f[M, N, K=64](
    x: bf16[M, K],  // the x
    w: bf16[N, K] col_major,
    // after w
) -> (y: bf16[M, N], z: f32[])
    where
        K % 8 == 0,
        (M + 1) * 2 >= 1,  // promise
{  // open
    // first
    stage h: bf16[M, N] = x @ w.T + s * 2  // why
    q = not h < 1

    // inside
    return gelu(x @ w.T + b), 4  // tail
    // last
}  // after

schedule f.h for sm_90a {
    tile      = 128x256x64
    scheduler = persistent(raster=along_n, swizzle=2)  // dd
}
"""
    )


def test_long_expressions_are_broken_at_operators_and_arguments() -> None:
    names = [f"value_number_{n}" for n in range(8)]
    text = f"kernel f(x: f32) -> f32[] {{ return gelu({' + '.join(names)} * where({', '.join(names[:3])})) }}"
    assert (
        fmt(text)
        == """kernel f(x: f32) -> f32[] {
    return gelu(
        value_number_0
            + value_number_1
            + value_number_2
            + value_number_3
            + value_number_4
            + value_number_5
            + value_number_6
            + value_number_7 * where(value_number_0, value_number_1, value_number_2),
    )
}
"""
    )


# Start-up and dump


def test_syntax_needs_no_ir_library() -> None:
    code = (
        "import sys, mucc.frontend as f; from mucc.diagnostics import Source\n"
        "s = Source('t', 'kernel f(x: f32) -> f32[] { return x }'); f.format(s); f.dump(f.parse(s)[0], s)\n"
        "print([m for m in ('xdsl', 'numpy', 'typing_extensions', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert out.stdout.strip() == "[]"


def test_dump() -> None:
    text = (
        "kernel f[M](x: f32[M]) -> f32[] {\n    stage h = -x.T[None, :]\n    return sum(h, axis=(0, -1))\n}"
    )
    program, _ = parse(text)
    assert (
        frontend.dump(program, Source("t", text))
        == """program @1:1
  kernel f @1:1
    dim M @1:10
    param x: f32[M] @1:13
    result f32[] @1:27
    stage h @2:5
      unary - @2:15
        index [None, :] @2:16
          transpose @2:16
            name x @2:16
    return @3:12
      call sum @3:12
        name h @3:16
        axis=list 0, -1 @3:19
"""
    )


@pytest.mark.parametrize("shape", ["2x1bf16", "128x128x64mainloop", "8x64x6t"])
def test_a_shape_that_runs_into_a_word_is_no_loose_one(shape: str) -> None:
    assert codes(f"schedule f for sm_90a {{ cluster = {shape} }}") == ["MU0003"]


def test_semicolons_side_by_side_are_one_error() -> None:
    text = "kernel f(x: f32[8]) -> f32[8] { y = x;; return y; }"
    first, second = parse(text)[1]
    assert (first.code, first.message, first.fixes[0].replacement) == (
        "MU0002",
        "unexpected character ';;'",
        "",
    )
    mended = text
    for found in (second, first):
        span = found.fixes[0].span
        mended = mended[: span.start] + mended[span.end :]
    assert not parse(mended)[1]
