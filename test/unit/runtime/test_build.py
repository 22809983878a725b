"""`mucc.compile` and `mucc.check`, with a stub for the compiler."""

from __future__ import annotations

from typing import Any

import pytest
from hostlib import host_library

import mucc.build.artefact
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity, Source, Span
from mucc.runtime import CompileError, MuccError, MuccWarning, check

TEXT = "kernel k(x: bf17[4]) -> bf16[4] { return x }\n"
ERROR = Diagnostic("MU1001", "there is no dtype 'bf17'", Span(12, 16), source=Source("<string>", TEXT))


def test_compile_loads_what_was_built(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Any] = []
    warning = Diagnostic("MU3001", "slow", severity=Severity.WARNING)

    def build(request: Any) -> Any:
        requests.append(request)
        return mucc.build.artefact.Artefact(host_library().read_bytes(), (warning,), cached=False)

    monkeypatch.setattr(mucc.build.artefact, "build", build)
    with pytest.warns(MuccWarning, match="MU3001.*slow"):
        module = mucc.compile(TEXT, cache=False, name="k.mcu")
    assert (requests[0].data, requests[0].name, requests[0].cached) == (TEXT.encode(), "k.mcu", False)
    assert [k.name for k in module] == ["linear", "laid"]
    with pytest.warns(MuccWarning):
        assert mucc.compile(TEXT).path == module.path, "the same contents are one library to the process"


def test_errors_show_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(request: Any) -> Any:
        raise DiagnosticError([ERROR])

    monkeypatch.setattr(mucc.build.artefact, "build", build)
    with pytest.raises(CompileError) as caught:
        mucc.compile(TEXT)
    error = caught.value
    assert isinstance(error, MuccError)
    assert (error.code, error.message, error.diagnostics) == ("MU1001", "there is no dtype 'bf17'", (ERROR,))
    text = str(error)
    assert "error[MU1001]: there is no dtype 'bf17'" in text
    assert "<string>:1:13" in text
    assert "^^^^" in text


def test_check_returns_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(source: Any, target: str, **options: Any) -> Any:
        raise DiagnosticError([ERROR])

    monkeypatch.setattr(mucc.build.artefact, "compile_source", broken)
    assert check(TEXT) == (ERROR,)
