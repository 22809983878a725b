"""The cell magic `%%mucc`."""

from __future__ import annotations

from typing import Any

import pytest
from hostlib import host_library

import mucc.build.artefact

interactiveshell = pytest.importorskip("IPython.core.interactiveshell", reason="pip install 'mucc[jupyter]'")

PROGRAM = "kernel linear(x: f32[4]) -> f32[4] {\n    return x + x\n}\n"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session with the magic, which compiles to a library of this machine."""

    def build(request: Any) -> Any:
        requests.append(request)
        return mucc.build.artefact.Artefact(host_library().read_bytes(), (), cached=False)

    requests: list[Any] = []
    monkeypatch.setattr(mucc.build.artefact, "build", build)
    shell = interactiveshell.InteractiveShell()
    shell.requests = requests
    shell.run_line_magic("load_ext", "mucc")
    return shell


def test_kernels_become_variables(shell: Any):
    shell.run_cell_magic("mucc", "module --target sm_80 --dims M=16", PROGRAM)
    assert shell.user_ns["linear"].name == "linear"
    assert shell.user_ns["module"].linear is shell.user_ns["linear"]
    (request,) = shell.requests
    assert (request.data, request.target) == (PROGRAM.encode(), "sm_80")
    assert [size.dims for size in request.sizes] == [{"M": 16}]


def test_errors_are_shown_in_place(shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.undo()
    from IPython.core.error import UsageError

    with pytest.raises(UsageError, match="MU0006"):
        shell.run_cell_magic("mucc", "", PROGRAM.replace("f32[4])", "f33[4])"))
    assert "^^^" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no name"):
        shell.run_cell_magic("mucc", "1x", PROGRAM)
    with pytest.raises(UsageError, match="MU"):
        shell.run_cell_magic("mucc", "--dims M=x", PROGRAM)
    with pytest.raises(UsageError, match="No closing quotation"):
        shell.run_cell_magic("mucc", '--dims "M=4', PROGRAM)


def test_a_cell_may_only_be_checked(shell: Any, capsys: Any):
    from IPython.core.error import UsageError

    shell.run_cell_magic("mucc", "--check", PROGRAM)
    assert "no errors" in capsys.readouterr().out
    with pytest.raises(UsageError, match="MU1001"):
        shell.run_cell_magic("mucc", "--check", PROGRAM.replace("x + x", "x + z"))
    assert "unknown name 'z'" in capsys.readouterr().out
    assert shell.requests == []


def test_help_is_shown_and_ends_nothing(shell: Any, capsys: Any):
    shell.run_cell_magic("mucc", "--help", PROGRAM)
    assert capsys.readouterr().out.startswith("usage: %%mucc ")
    assert shell.requests == []
