"""Tasks that the reference card alone is enough for: descriptions of one line beside programs."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from described import assert_all_agree, programs_in, references_in, source_of

from mucc import frontend
from mucc.compiler.program import compile_source
from mucc.diagnostics.core import DiagnosticSink
from mucc.frontend import ast, parse
from mucc.frontend.lexer import lex
from mucc.frontend.reference import card

PROGRAMS = programs_in("card")
REFERENCES = references_in("card")


def test_there_are_thirty_tasks_with_a_reference_each() -> None:
    assert set(PROGRAMS) == set(REFERENCES)
    assert len(PROGRAMS) == 30


def _own_names(program: ast.Program) -> set[str]:
    """The names that a program gives: of kernels, functions, dims, parameters, results and values."""
    found: set[str] = set()
    for item in program.items:
        assert isinstance(item, ast.Kernel | ast.Function)
        found |= {item.name.text, *(s.name.text for s in item.body)}
        if isinstance(item, ast.Function):
            found |= {p.text for p in item.params}
            continue
        results = () if isinstance(item.results, ast.Type) else item.results
        found |= {named.name.text for named in (*item.dims, *item.params, *results)}
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_described_canonical_and_of_words_of_the_card(name: str) -> None:
    source = source_of(PROGRAMS[name])
    assert re.match(r"// .{20,130}\n(kernel|fn) ", source.text)
    assert frontend.format(source) == source.text
    program, _ = parse(source)
    tokens, _ = lex(source, DiagnosticSink(source))
    words = {t.text for t in tokens if re.match(r"[A-Za-z]", t.text)} - _own_names(program)
    assert {w for w in words if not re.search(rf"\b{w}\b", card())} == set()
    signs = {t.text for t in tokens if not re.match(r"[\w]", t.text)} - {""}
    assert {s for s in signs if s not in card()} == set()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_they_are_described_as(name: str) -> None:
    source = source_of(PROGRAMS[name])
    assert not compile_source(source, "sm_90a", only_check=True).sink.diagnostics
    assert_all_agree(compile_source(source, "sm_90a", tuned=False), REFERENCES[name])
