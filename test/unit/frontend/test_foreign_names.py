"""What a program is told that uses names of other frameworks, or misspelt ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.diagnostics import Applicability, Diagnostic, Source, near_spelling
from mucc.frontend import foreign, lower, parse
from mucc.frontend.functions import FUNCTIONS
from mucc.frontend.lexer import DTYPES

SIGNATURE = (
    "x: f32[M, K], y: f32[M, K], w: f32[K, K], g: f32[K, K], u: f32[K, K], a: f32[M, K], b: f32[M, K], "
    "c: f32[M, K], mask: f32[M, K], value: f32[M, K], weight: f32[M, K], slope: f32, q: f32[1, M, K], "
    "k: f32[1, M, K], v: f32[1, M, K], offsets: s32[4], rows: s32[7], index: s32[M, K]"
)


def diagnose(text: str) -> list[Diagnostic]:
    source = Source("f.mcu", text)
    program, sink = parse(source)
    if not sink.has_errors:
        lower(program, sink)
    return [d for d in sink.diagnostics if d.severity == "error"]


def saying(expression: str) -> str:
    """A program that gives an expression a name."""
    return f"kernel f[M=64, K=512]({SIGNATURE}) -> f32[M, K] {{\n    r = {expression}\n    return x\n}}"


OTHER_OPERANDS = {
    "where(mask, value, x)",
    "where(c, a, b)",
    "x[:, None]",
    "reshape(x, (M, 8, K))",
    "attention(q, k, v)",
    "conv(x, w)",
    "conv_transpose(x, w)",
    "max_pool(x, size=2)",
    "avg_pool(x, size=2)",
    "batch_norm(x)",
    "instance_norm(x)",
    "grouped_matmul(a, b, offsets)",
    "x[:, None] * y[None, :]",
    "a and b",
    "a or b",
    "not a",
    "take_along(x, index, axis=1)",
    "left_shift(a, b)",
    "right_shift(a, b)",
    "bitwise_not(x)",
    "-mean(take_along(log_softmax(x), index, axis=1))",
    "pow(avg_pool(pow(x, 2), size=2, divisor=1), 0.5)",
}
"""What is meant for operands of other shapes or types than those of SIGNATURE."""


@pytest.mark.parametrize("name", foreign.written())
def test_what_is_written_instead_is_of_the_language(name: str):
    help_ = foreign.function_help(name)
    assert help_ is not None
    for expression in re.findall("`(.*?)`", help_):
        if expression not in OTHER_OPERANDS:
            assert diagnose(saying(expression)) == [], expression
        else:
            found = [d.code for d in diagnose(saying(expression))]
            assert not {"MU0001", "MU1001", "MU1002", "MU1007", "MU1008", "MU1010"} & set(found), found


@pytest.mark.parametrize(
    "name", ["sinc", "nextafter", "einsum", "transpose", "unique", "permute_dims", "msort", "divmod"]
)
def test_a_function_of_another_framework_gets_help_and_no_edit(name: str):
    (found,) = diagnose(saying(f"{name}(x)"))
    assert (found.code, found.fixes, len(found.helps)) == ("MU1002", (), 1)
    assert f"`{name}`" in found.helps[0] or found.helps[0].startswith("write `")


def test_no_name_of_torch_or_numpy_is_taken_for_a_misspelt_one():
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    homes = (torch, torch.nn, torch.nn.functional, torch.Tensor, torch.special, torch.linalg, numpy)
    names = {name for home in homes for name in dir(home) if not name.startswith("_")} - set(FUNCTIONS)
    known = {name for name in names if foreign.is_foreign(name)}
    assert len(known) > 250
    guesses = {n: g for n in names - known if (g := near_spelling(n, FUNCTIONS))}
    same = {n for n, g in guesses.items() if n.replace("_", "").lower() == g.replace("_", "")}
    assert set(guesses) - same <= {"Softmax2d", "Tag", "ma"}
    assert {"LayerNorm", "GELU", "relu_"} <= same


def test_no_function_of_the_language_is_listed_as_missing():
    assert [name for name in FUNCTIONS if foreign.is_foreign(name)] == []


def test_names_of_types_are_exact():
    assert set(foreign.DTYPES.values()) <= set(DTYPES)
    assert not set(foreign.DTYPES) & set(DTYPES)
    (found,) = diagnose("kernel f[M](x: float16[M]) -> f16[M] {\n    return x\n}")
    (fix,) = found.fixes
    assert (fix.replacement, fix.applicability) == ("f16", Applicability.MACHINE_APPLICABLE)


@pytest.mark.parametrize(
    ("expression", "help_"),
    [
        ("torch.lgamma(x)", "there is no `lgamma` yet"),
        ("F.linear(x, w)", "write `x @ w.T + b`"),
        ("np.exp(x)", "functions are called by their names alone: `exp(x)`"),
        ("x.sum(1)", "functions are called by their names alone: `sum(x, ...)`"),
        ("(x + x).sum(1)", "functions are called by their names alone: `sum(...)`"),
        ("x.view(8)", "write `reshape("),
    ],
)
def test_methods_and_prefixes_are_explained(expression: str, help_: str):
    found = diagnose(saying(expression))[0]
    assert found.code == "MU0001"
    assert found.helps[0].startswith(help_)


@pytest.mark.parametrize(
    ("expression", "help_"),
    [
        ("sum(x, dim=1)", "the parameter is called 'axis'"),
        ("leaky_relu(x, negative_slope=0.1)", "the parameter is called 'slope'"),
        ("clamp(x, min=0, max=1)", "the parameter is called 'lo'"),
        ("cast(x, float16)", "write `f16`"),
        ("x * pi", "write 3.141592653589793"),
        ("x * unheard", "define `unheard = ...` first, or use what is defined here: x, y, w"),
        ("x(y)", "'x' is a value"),
        ("frobnicate(x)", "`mucc docs --card` lists the functions of the language"),
    ],
)
def test_every_unknown_word_gets_a_help(expression: str, help_: str):
    assert any(help_ in text for d in diagnose(saying(expression)) for text in d.helps)


WORDS = st.sampled_from([*FUNCTIONS, *foreign.written(), "hidden", "bias2", "scale_a"])
SLIPS = st.tuples(
    st.sampled_from(["drop", "double", "swap", "replace"]), st.integers(0, 20), st.sampled_from("aeqz2")
)


def slipped(word: str, kind: str, at: int, letter: str) -> str:
    at = at % len(word)
    match kind:
        case "drop":
            return word[:at] + word[at + 1 :]
        case "double":
            return word[:at] + word[at] + word[at:]
        case "swap":
            return word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
        case _:
            return word[:at] + letter + word[at + 1 :]


@given(WORDS, SLIPS)
def test_a_spelling_suggestion_is_one_slip_away_and_begins_alike(word: str, slip: tuple[str, int, str]):
    wrong = slipped(word, *slip)
    if not wrong or wrong == word:
        return
    others = [w for w in (*FUNCTIONS, "hidden") if w != wrong]
    guess = near_spelling(wrong, others)
    if guess is not None:
        assert guess[0] == wrong.lower().lstrip("_")[0]
        assert abs(len(guess.replace("_", "")) - len(wrong.replace("_", ""))) <= 2
    if wrong[0] == word[0] and word in others and len(word) > 6:
        assert guess in (word, None)


def test_edits_of_spelling_are_suggestions_where_they_can_change_a_result():
    text = "kernel f[M](x: f32[M]) -> f32[M] {\n    hidden = geluu(x)\n    return hiden\n}"
    fixes = [fix for d in diagnose(text) for fix in d.fixes]
    assert [f.replacement for f in fixes] == ["gelu", "hidden"]
    assert {f.applicability for f in fixes} == {Applicability.MAYBE_INCORRECT}


def test_edits_of_schedules_and_of_grammar_are_for_machines():
    text = (
        "kernal f[M](x: f32[M]) -> f32[M] {\n    return x\n}\n"
        "schedule f for sm_90a {\n    tiles = 128x128x64\n}\n"
    )
    (found,) = diagnose(text)
    assert [f.applicability for f in found.fixes] == [Applicability.MACHINE_APPLICABLE]
    (found,) = diagnose(text.replace("kernal", "kernel"))
    assert [(f.replacement, f.applicability) for f in found.fixes] == [
        ("tile", Applicability.MACHINE_APPLICABLE)
    ]


HABITS: list[tuple[str, str, str]] = [
    # what is written, the code, and what the help says
    ("return softmax(x, dim=-1)", "MU1008", "the parameter is called 'axis'"),
    ("return x - mean(x, axis=1, keepdim=on)", "MU1008", "did you mean 'keepdims'?"),
    ("return x - mean(x, axis=1, keepdims=True)", "MU1010", "write `on`"),
    ("return x - mean(x, axis=1)", "MU1020", "write `v[:, None]`"),
    ("return torch.nn.functional.relu(x)", "MU0001", "`relu(x)`"),
    ("return sin(x * math.pi)", "MU0001", "write 3.14"),
    ("return x.sum(dim=-1)", "MU0001", "`sum(x, ...)`"),
    ("return x / x.shape[1]", "MU0001", "extents are dims"),
    ("return x / x.size(1)", "MU0001", "extents are dims"),
    ("return x.T() @ x", "MU0001", "without brackets: `x.T`"),
    ("return x * 2.", "MU0001", "write `2` or `2.0`"),
    ("return x * .5", "MU0001", "a digit before the point"),
    ("return x[:, N//2:]", "MU0004", "`//` begins a comment"),
    ("return x[:, : N // 2]", "MU0004", "`//` begins a comment"),
    ("return r[:, newaxis] * x", "MU0013", "`x[:, None]`"),
    ("return r[:, np.newaxis] * x", "MU0013", "`x[:, None]`"),
    ("return concat([x, x], axis=1)", "MU0001", "`concat(x, y, axis=1)`"),
    ("return concat((x, x), axis=1)", "MU1010", "`concat(x, y, axis=1)`"),
    ("return concat(x, x, 1)", "MU1007", "`concat(x, y, axis=1)`"),
    ("return sum(x, axis=[0, 1])", "MU0001", "`axis=(0, 1)`"),
    ("return sum(x, axis=None)", "MU0001", "leave the argument out"),
    ("return sum(x, axis=1, dtype=f32)", "MU1008", "`cast(x, bf16)`"),
    ("return max(x, 1)", "MU1012", "`max(x, axis=1)` reduces"),
    ("return reshape(x, N, M)", "MU1007", "the extents are one list"),
    ("return reshape(x, (M, -1))", "MU1010", "each written out"),
    ("return permute(x, 1, 0)", "MU1007", "`permute(x, (1, 0, 2))`"),
    ("return layer_norm(x, N, r, r)", "MU1010", "weight and bias are arithmetic"),
    ("return layer_norm(x, weight=r)", "MU1008", "weight and bias are arithmetic"),
    ("return rms_norm(x, r)", "MU1010", "weight and bias are arithmetic"),
    ("return dropout(x, 0.5)", "MU1007", "it needs a seed"),
    ("return iota(N)", "MU1007", "`iota((M, N), axis=1)`"),
    ("return f32(x)", "MU1002", "write `cast(x, f32)`"),
    ("return x.float()", "MU0001", "write `cast(x, f32)`"),
    ('return gelu(x, approximate="tanh")', "MU0002", "words have no quotes: `tanh`"),
    ("return where(x > 0, x, float('-inf'))", "MU0002", "infinity is `inf`"),
    ("return x if x > 0 else 0", "MU0001", "`where(condition, a, b)`"),
    ("y = x if x > 0 else 0\n    return y", "MU0001", "`where(condition, a, b)`"),
    ("# a comment\n    return sum(x, axis=1)", "MU0002", "comments begin with '//'"),
    ("let y = x\n    return y", "MU0001", "no word before its name"),
    ("y = x\n    y += 1\n    return y", "MU0001", "values are named once"),
    ("a, b = topk(x, 4)\n    return a", "MU0001", "argtopk(x, 4)"),
    ("x[:, 0] = 0\n    return x", "MU0001", "values do not change"),
    ("for i in range(3) { y = x }\n    return x", "MU0001", "there are no loops"),
    ("y := sum(x, axis=1)\n    return y", "MU0001", "named with `=` alone"),
    ("float y = sum(x, axis=1)\n    return y", "MU0001", "the type follows the name"),
    ("Tensor y = sum(x, axis=1)\n    return y", "MU0001", "the type follows the name"),
    ("bf16 y = sum(x, axis=1)\n    return y", "MU0001", "the type follows the name"),
    ("while x { y = x }\n    return x", "MU0001", "there are no loops"),
    ("return r @ r", "MU1023", "`sum(a * b)`"),
    ("return x @ r", "MU1023", "`(w @ v[:, None])[:, 0]`"),
    ("return x @ cast(x, bf16).T", "MU1025", "results of reductions are: `cast(..., bf16)`"),
    ("return tril(x, k=1)", "MU1008", "the parameter is called 'diagonal'"),
]


@pytest.mark.parametrize(("lines", "code", "help_"), HABITS, ids=[h[0] for h in HABITS])
def test_what_people_write_out_of_habit_is_explained_at_once(lines: str, code: str, help_: str):
    text = f"kernel f[M, N](x: f32[M, N], r: f32[N]) -> f32[M] {{\n    {lines}\n}}"
    first = diagnose(text)[0]
    assert (first.code, any(help_ in text for text in first.helps)) == (code, True), first


@pytest.mark.parametrize(
    ("text", "code", "help_"),
    [
        ("kernel f(x: int64[8]) -> s32[8] { return x }", "MU0006", "the nearest is s32"),
        ("kernel f(x: f32[8]) -> fp8[8] { return x }", "MU0006", "the nearest is e4m3"),
        ("kernel f(x: f32[8]) -> f32[8], f32[8] { return x, x }", "MU0001", "several results have names"),
        ("kernel f(x: f32[8]) -> (f32[8], f32[8]) { return x, x }", "MU0001", "several results have names"),
        ("kernel f(x: f32[8]) -> f32[8]:\n    return x\n", "MU0001", "a body is in braces"),
        ("EPS = 1e-5\nkernel f(x: f32[8]) -> f32[8] { return x }", "MU0001", "named within a kernel"),
        ("import torch\nkernel f(x: f32[8]) -> f32[8] { return x }", "MU0001", "nothing to import"),
    ],
)
def test_what_people_write_around_bodies_is_explained(text: str, code: str, help_: str):
    first = diagnose(text)[0]
    assert (first.code, any(help_ in h for h in first.helps)) == (code, True), first


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("# sums", "// sums"),
        ('return gelu(x, approximate="tanh")', "return gelu(x, approximate=tanh)"),
        ("return gelu(x, approximate='tanh')", "return gelu(x, approximate=tanh)"),
    ],
)
def test_slips_of_spelling_are_mended_by_machines(wrong: str, right: str):
    text = "kernel f(x: f32[8]) -> f32[8] {\n    LINE\n    return x\n}"
    lines = text.replace("    return x\n", "") if "return" in wrong else text
    source = lines.replace("LINE", wrong)
    (found,) = diagnose(source)
    (fix,) = found.fixes
    assert fix.applicability is Applicability.MACHINE_APPLICABLE
    mended = source[: fix.span.start] + fix.replacement + source[fix.span.end :]
    assert mended == lines.replace("LINE", right) and diagnose(mended) == []
