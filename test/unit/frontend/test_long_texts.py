"""Long texts: the time that they take grows as they do, and what nests too deeply is an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

import mucc.frontend as frontend
from mucc.compiler.program import check_language
from mucc.diagnostics.core import DiagnosticError, DiagnosticSink, Source
from mucc.frontend.lexer import comments_in, lex

KERNEL = "kernel f{}[M](x: bf16[M]) -> bf16[M] {{\n    return relu(x) // {}\n}}\n"


def comments(n: int) -> str:
    return "// said before\n" * (40 * n) + KERNEL.format(0, "x")


def kernels(n: int) -> str:
    return "".join(KERNEL.format(i, "x") for i in range(n // 8))


def statements(n: int) -> str:
    lines = "".join(f"    v{i + 1} = v{i} + x\n" for i in range(n // 8))
    return f"kernel f[M](x: bf16[M]) -> bf16[M] {{\n    v0 = x\n{lines}    return v{n // 8}\n}}\n"


def unused(n: int) -> str:
    params = ", ".join(f"x{i}: bf16[M]" for i in range(n // 8))
    return f"kernel f[M]({params}) -> bf16[M] {{\n    return x0\n}}\n"


def unclosed(n: int) -> str:
    return "/* " * (4 * n)


def semicolons(n: int) -> str:
    return "; " * (4 * n)


def seconds(work: Callable[[Source], object], text: str) -> float:
    """The least processor time of a few runs, whatever errors there are."""
    taken: list[float] = []
    for _ in range(3):
        began = time.process_time()
        with suppress(DiagnosticError):
            work(Source("f.mcu", text))
        taken.append(time.process_time() - began)
    return min(taken)


LESS, MORE = 1000, 8000
"""Measures of two lengths; what takes a time that grows with the square takes 64 times as long."""


@pytest.mark.parametrize("make", [comments, kernels, statements, unused, unclosed, semicolons])
def test_the_time_of_a_check_grows_with_the_text(make: Callable[[int], str]) -> None:
    assert seconds(check_language, make(MORE)) < 32 * seconds(check_language, make(LESS))


@pytest.mark.parametrize("make", [comments, kernels])
def test_the_time_of_formatting_grows_with_the_text(make: Callable[[int], str]) -> None:
    assert seconds(frontend.format, make(MORE)) < 32 * seconds(frontend.format, make(LESS))


def test_lines_of_comments_are_read_at_once() -> None:
    source = Source("f.mcu", "// one  \n\n  // two\nkernel // three")
    tokens, places = lex(source, DiagnosticSink(source))
    assert [t.text for t in tokens] == ["kernel", ""] and len(places) == 2
    found = comments_in(source.text, places)
    assert [c.text for c in found] == ["// one", "// two", "// three"]
    assert all(source.text[c.start : c.end].rstrip() == c.text for c in found)


@pytest.mark.parametrize("opening", ["(", "-", "not ", "relu("])
def test_what_nests_10000_times_is_an_error(opening: str) -> None:
    text = f"kernel f[M](x: bf16[M]) -> bf16[M] {{ return {opening * 10_000}x{')' * 10_000} }}"
    with pytest.raises(DiagnosticError) as error:
        check_language(Source("f.mcu", text))
    assert error.value.diagnostics[0].code == "MU0010"


@pytest.mark.parametrize("line", ["// " + "x" * 5_000_000, "/* " + "x" * 5_000_000 + " */", "x" * 5_000_000])
def test_a_line_of_5_mb_is_checked(line: str) -> None:
    text = f"{line}\n{KERNEL.format(0, 'x')}"
    if line.startswith("//"):
        check_language(Source("f.mcu", text))
        return
    with pytest.raises(DiagnosticError) as error:
        check_language(Source("f.mcu", text))
    assert error.value.diagnostics[0].code == ("MU0002" if line.startswith("/*") else "MU0001")
