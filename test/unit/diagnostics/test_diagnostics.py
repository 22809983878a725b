"""Rendering of diagnostics as text and JSON, and the registry of codes."""

import io
import json
import re
from pathlib import Path

import pytest
from terminals import Terminal

from mucc.diagnostics import Diagnostic, DiagnosticSink, Fix, Severity, Source, Span, did_you_mean
from mucc.diagnostics.codes import CODES
from mucc.diagnostics.explain import AREAS, closest, errors_page, explain
from mucc.diagnostics.render import from_json, render_json, render_text, summary, to_json, use_colour

ROOT = Path(__file__).parents[3]
TEXT = "kernel k[M, N](\n\tx: bf16[M, K],\n    w: f16[N]\n) -> bf16[M] {\n    return gelo(x) + 变量 @ w\n}\n"
SOURCE = Source("k.mcu", TEXT)


def span(words: str) -> Span:
    start = TEXT.index(words)
    return Span(start, start + len(words))


def shown(diagnostic: Diagnostic, source: Source | None = SOURCE) -> str:
    return "\n" + render_text(diagnostic, source)


def test_all_parts():
    diagnostic = Diagnostic(
        "MU1003",
        "unknown function 'gelo'",
        span("gelo"),
        label="not a function",
        notes=("a fact\nof two lines",),
        helps=("see `mucc docs --card`",),
        fixes=(Fix(span("gelo"), "gelu", "did you mean 'gelu'?"),),
    )
    assert (
        shown(diagnostic)
        == """
error[MU1003]: unknown function 'gelo'
  --> k.mcu:5:12
   |
 5 |     return gelo(x) + 变量 @ w
   |            ^^^^ not a function
   |
   = note: a fact
           of two lines
   = help: see `mucc docs --card`
help: did you mean 'gelu'?
 5 -     return gelo(x) + 变量 @ w
 5 +     return gelu(x) + 变量 @ w
"""
    )


def test_labels_and_tabs():
    diagnostic = Diagnostic(
        "MU1005",
        "K is not bound",
        span("M, K"),
        label="here",
        labels=((span("w: f16[N]"), "nor here"), (span("x"), "of x")),
    )
    assert (
        shown(diagnostic)
        == """
error[MU1005]: K is not bound
  --> k.mcu:2:10
   |
 2 |     x: bf16[M, K],
   |             ^^^^ here
   |     - of x
 3 |     w: f16[N]
   |     --------- nor here
"""
    )


def test_a_span_over_lines_shows_its_ends():
    whole = Span(TEXT.index("(\n"), TEXT.index(") ->") + 1)
    diagnostic = Diagnostic("MU0001", "too long", whole, Severity.WARNING, label="the parameters")
    assert (
        shown(diagnostic)
        == """
warning[MU0001]: too long
  --> k.mcu:1:15
   |
 1 | kernel k[M, N](
   |               ^
...
 4 | ) -> bf16[M] {
   | ^ the parameters
"""
    )


def test_wide_characters_take_two_columns():
    lines = shown(Diagnostic("MU0002", "no", span("变量"))).splitlines()
    assert lines[-1] == "   |                      ^^^^"


def test_the_end_of_the_file_is_shown_behind_the_last_character():
    end = Span(len(TEXT), len(TEXT))
    diagnostic = Diagnostic("MU0002", "end of file", end, label="expected '}'", fixes=(Fix(end, "}\n"),))
    assert (
        shown(diagnostic)
        == """
error[MU0002]: end of file
  --> k.mcu:6:2
   |
 6 | }
   |  ^ expected '}'
help: change it like this
 7 + }
"""
    )


@pytest.mark.parametrize("text", ["", "\n", "x", "\r\n\r\n"])
@pytest.mark.parametrize("where", [Span(0, 0), Span(0, 99), Span(99, 99), Span(3, 1)])
def test_any_span_of_any_text_can_be_shown(text: str, where: Span):
    source = Source("k.mcu", text)
    fix = Fix(where, "y")
    rendered = render_text(Diagnostic("MU0001", "m", where, label="here", fixes=(fix,)), source)
    assert "^" in rendered and rendered.count("\n") >= 5
    json.loads(render_json([(Diagnostic("MU0001", "m", where), source)]))


def test_a_long_line_is_cut_around_the_span():
    source = Source("k.mcu", "a" * 300 + " bad " + "b" * 300)
    lines = render_text(Diagnostic("MU0001", "m", Span(301, 304)), source).splitlines()
    line, under = lines[3][5:], lines[4][5:]
    assert len(line) == 160
    assert line[under.index("^") : under.index("^") + 3] == "bad"


def test_a_long_line_of_wide_characters_is_cut_too():
    source = Source("k.mcu", "日é" * 2000 + "bad" + "本" * 2000)
    lines = render_text(Diagnostic("MU0001", "m", Span(4000, 4003)), source).splitlines()
    line, under = lines[3][5:], lines[4][5:]
    assert len(line) == 160
    # 40 times a character of two columns and one of one stand before it.
    assert line.index("bad") == 80 and under.index("^") == 120


def test_fixes_show_only_lines_that_change():
    remove = Fix(Span(TEXT.index("    w"), TEXT.index(") ->")), "", "remove it")
    insert = Fix(Span(TEXT.index("x: b"), TEXT.index("x: b")), "y: f16,\n    ", "add one")
    lines = shown(Diagnostic("MU0001", "m", span("x"), fixes=(remove, insert))).splitlines()
    assert lines[-6:] == [
        "help: remove it",
        " 3 -     w: f16[N]",
        "help: add one",
        " 2 -     x: bf16[M, K],",
        " 2 +     y: f16,",
        " 3 +     x: bf16[M, K],",
    ]


def test_no_span_and_no_source():
    diagnostic = Diagnostic("MU5101", "nvcc was not found", notes=("n",), helps=("h",))
    assert (
        shown(diagnostic, None)
        == """
error[MU5101]: nvcc was not found
  = note: n
  = help: h
"""
    )


def test_a_diagnostic_may_name_its_own_source():
    own = Source("other.mcu", "abc")
    assert "--> other.mcu:1:2" in shown(Diagnostic("MU0001", "m", Span(1, 2), source=own))


def test_control_characters_do_not_reach_the_terminal():
    source = Source("k.mcu", "a \x1b[2J b")
    assert "\x1b" not in render_text(Diagnostic("MU0001", "m \x1b[0m", Span(2, 3), notes=("\x07",)), source)


def test_colour_only_on_request():
    diagnostic = Diagnostic("MU0001", "m", span("x"))
    plain, coloured = render_text(diagnostic, SOURCE), render_text(diagnostic, SOURCE, colour=True)
    assert "\x1b" not in plain and "\x1b[1;31merror[MU0001]" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_colour_needs_a_terminal_and_respects_no_color(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert use_colour(Terminal()) and not use_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not use_colour(Terminal())


def test_json_holds_everything():
    diagnostic = Diagnostic(
        "MU1003",
        "m",
        span("gelo"),
        label="here",
        labels=((span("w"), "w"),),
        notes=("n",),
        helps=("h",),
        fixes=(Fix(span("gelo"), "gelu", "say gelu"),),
    )
    (value,) = json.loads(render_json([(diagnostic, SOURCE)]))
    start = TEXT.index("gelo")
    place = {
        "file": "k.mcu",
        "start": start,
        "end": start + 4,
        "line": 5,
        "column": 12,
        "end_line": 5,
        "end_column": 16,
    }
    assert value["span"] == place
    assert value["fixes"] == [
        {"span": place, "replacement": "gelu", "message": "say gelu", "applicability": "maybe-incorrect"}
    ]
    assert (value["code"], value["severity"]) == ("MU1003", "error")
    assert (value["notes"], value["helps"], value["labels"][0]["text"]) == (["n"], ["h"], "w")
    assert from_json(to_json(diagnostic)) == diagnostic
    assert json.loads(render_json([])) == []


def test_summary():
    error, warning = Diagnostic("MU0001", "e"), Diagnostic("MU0001", "w", severity=Severity.WARNING)
    assert summary([error, warning, error]) == "2 errors, 1 warning"
    assert summary([error]) == "1 error"
    assert summary([Diagnostic("MU0001", "n", severity=Severity.NOTE)]) == ""


def test_the_sink_keeps_each_diagnostic_once():
    sink = DiagnosticSink()
    for _ in range(2):
        sink.emit(Diagnostic("MU0001", "m"))
    assert len(sink.diagnostics) == 1 and sink.has_errors


def test_did_you_mean():
    assert did_you_mean("gelo", ["relu", "gelu", "tanh"]) == "gelu"
    assert did_you_mean("zzz", ["relu"]) is None
    assert did_you_mean("abcdxyzabc", ["abc"]) is None and did_you_mean("abcdefg", ["abc"]) == "abc"


def test_a_word_of_a_megabyte_is_not_searched_for_what_was_meant(monkeypatch: pytest.MonkeyPatch):
    def search(*_: object, **options: object) -> list[str]:
        raise AssertionError

    monkeypatch.setattr("difflib.get_close_matches", search)
    assert did_you_mean("relu" * 250_000, ["relu", "gelu"]) is None


def test_every_code_is_explained():
    for code, info in CODES.items():
        assert re.fullmatch(r"MU\d{4}", code) and code[:3] in AREAS
        assert info.title and "\n" not in info.title and not info.title.endswith(".")
        assert len(info.explanation) > 80, f"{code} needs an explanation"


def test_explain_takes_what_people_paste():
    expected = explain("MU5010")
    assert expected is not None and expected.startswith("MU5010: ")
    for form in ("mu5010", "5010", "[MU5010]", "error[MU5010]:"):
        assert explain(form) == expected
    assert explain("MU5999") is None
    assert closest("MUU5010") == "MU5010"


def test_codes_of_the_registry_are_those_of_the_program():
    """A code that is raised has an entry, and an entry is about a code that is raised."""
    used: set[str] = set()
    for path in (ROOT / "mucc").rglob("*"):
        if path.suffix in (".py", ".h", ".cuh", ".toml") and not path.name.startswith("codes_"):
            text = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
            used.update(re.findall(r'["\']\[?(MU\d{4})', text))
    assert used - set(CODES) == set(), "raised, but not registered"
    assert set(CODES) - used == set(), "registered, but never raised"


def test_the_page_names_exit_statuses_other_than_1():
    for entry in re.split(r"^### ", errors_page(), flags=re.MULTILINE)[1:]:
        status = CODES[entry[:6]].status
        said = re.findall(r"^Exit status of the error: (\d), \w[\w ]+\.$", entry, re.MULTILINE)
        assert said == ([] if status == 1 else [str(int(status))])


def test_docs_errors_is_current():
    assert (ROOT / "docs" / "errors.md").read_text() == errors_page(), "run `make docs`"
