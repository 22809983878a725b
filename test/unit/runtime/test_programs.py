"""Programs that are compiled beside the caller: each once, with their errors, and ended with the context."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.runtime import build
from mucc.runtime.build import CompileError, Programs
from mucc.target import DEFAULT_TARGET


def compile_programs(programs: Sequence[tuple[str, Mapping[str, int | str]]]) -> list[Any]:
    """Compile programs side by side; libraries, or what is wrong."""
    with Programs() as begun:
        for text, dims in programs:
            begun.begin(text, dims, DEFAULT_TARGET)
        return [begun.get(text, dims, DEFAULT_TARGET) for text, dims in programs]


class Maker:
    """Stands for the compiler: `asked` has the texts and dims that it was called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from mucc.build import artefact

        self.asked: list[tuple[str, dict[str, int]]] = []
        self.may_end = threading.Event()
        self.may_end.set()
        monkeypatch.setattr(artefact, "build", self.build)
        monkeypatch.setattr(build, "_loaded", lambda data: data)

    def build(self, request: Any, *, pool: Any) -> Any:
        text, dims = request.data.decode(), {n: v for size in request.sizes for n, v in size.dims.items()}
        self.asked.append((text, dims))
        assert self.may_end.wait(30)
        if text == "wrong":
            raise DiagnosticError(Diagnostic("MU0001", "no program"))
        if text == "promise" and dims:
            raise DiagnosticError(Diagnostic("MU6052", "M is no multiple of 8"))
        if text == "broken":
            raise OSError("no disk")
        return type("Artefact", (), {"data": f"library of {text}"})


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Maker:
    return Maker(monkeypatch)


def test_programs_are_compiled_once_while_the_caller_goes_on(maker: Maker):
    maker.may_end.clear()
    with Programs() as programs:
        for _ in range(2):
            programs.begin("a", {"M": 8})
        programs.begin("a", {"M": 16})
        maker.may_end.set()
        found = [programs.get("a", {"M": m}) for m in (8, 16, 8)]
    assert found == ["library of a"] * 3
    assert sorted(dims["M"] for _, dims in maker.asked) == [8, 16]


def test_errors_of_programs_are_returned(maker: Maker):
    good, bad = compile_programs([("good", {}), ("wrong", {})])
    assert good == "library of good"
    assert isinstance(bad, CompileError) and bad.code == "MU0001"


def test_values_that_break_a_promise_are_left_out(maker: Maker):
    assert compile_programs([("promise", {"M": 3})]) == ["library of promise"]
    assert [dims for _, dims in maker.asked] == [{"M": 3}, {}]


def test_other_errors_are_raised(maker: Maker):
    with pytest.raises(OSError, match="no disk"):
        compile_programs([("good", {}), ("broken", {})])
