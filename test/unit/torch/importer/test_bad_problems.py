"""Problem files that are no Python, end, hang or print without end, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from budget import alternately_long
from problemlib import PROBLEMS, asked
from processes import gone

from mucc.diagnostics.core import DiagnosticError
from mucc.torch.importer import sandbox
from mucc.torch.importer.request import Request

pytest.importorskip("torch", reason="needs torch")

APART = ("allocates", "exits", "asks", "crashes")
"""Problems for a child: what needs its limits or streams, what ends it, and an error that it reports."""


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no_inputs", "MU7011", "get_inputs"),
        ("raises", "MU7012", "shape '[3, 5]' is invalid"),
        ("allocates", "MU7014", "memory"),
        ("exits", "MU7015", "status 3"),
        ("control_flow", "MU7020", "depends on values"),
        ("graph_break", "MU7020", "one graph"),
    ],
)
def test_bad_problems_are_errors(request: pytest.FixtureRequest, name: str, code: str, words: str):
    if name not in APART:
        request.getfixturevalue("in_process")
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(PROBLEMS / "bad" / f"{name}.py", memory=2 << 30), time_limit=120)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and words in diagnostic.message


def test_endless_problems_are_stopped():
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(PROBLEMS / "bad" / "hangs.py"), time_limit=8)
    assert caught.value.diagnostics[0].code == "MU7013"


def test_problems_that_print_without_end_are_stopped_by_time_or_by_the_size_of_files():
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(PROBLEMS / "bad" / "prints.py"), time_limit=6)
    (found,) = caught.value.diagnostics
    assert found.code == "MU7013" or (found.code == "MU7012" and "File too large" in found.message), found


PRELUDE = """
import os, subprocess, sys, time
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(4, 4)]
"""

MORE_BAD = {
    "exits_in_inputs": ("def get_inputs():\n    sys.exit(0)\n", "MU7012", "get_inputs() raised SystemExit"),
    "no_inputs": ("def get_inputs():\n    return None\n", "MU7012", "get_inputs() raised TypeError"),
    "no_module": ("class Model:\n    pass\n", "MU7011", "no torch.nn.Module"),
    "asks": ("input()\n", "MU7012", "EOFError"),
    "other_arguments": (
        "def get_inputs():\n    return [1, 2, 3]\n",
        "MU7012",
        "too many positional arguments",
    ),
    "crashes": ("import ctypes\nctypes.string_at(0)\n", "MU7015", "signal 11"),
    "loops": (
        "def loop(self, x):\n    while x.sum() < 9:\n        x = x + 1\n    return x\nModel.forward = loop\n",
        "MU7020",
        "depends on values",
    ),
}


@pytest.mark.parametrize("name", alternately_long([*MORE_BAD]))
def test_other_bad_problems(request: pytest.FixtureRequest, tmp_path: Path, name: str):
    if name not in APART:
        request.getfixturevalue("in_process")
    text, code, words = MORE_BAD[name]
    path = tmp_path / f"{name}.py"
    path.write_text(PRELUDE + text)
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(path), time_limit=120)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and words in diagnostic.message


def test_processes_of_a_problem_end_with_it(tmp_path: Path):
    path, mark = tmp_path / "lingers.py", tmp_path / "pid"
    path.write_text(
        PRELUDE
        + "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        + f"open({str(mark)!r}, 'w').write(str(child.pid))\n"
    )
    assert "relu(x)" in sandbox.run(asked(path), time_limit=120).text
    assert gone(int(mark.read_text()))


@pytest.mark.parametrize("text", ["def (", "-" * 100_000 + "1", "x = " + "1+" * 100_000 + "1", "x = '\0'"])
def test_what_is_no_python_is_told_before_torch_is_loaded(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "_execute", lambda *_: pytest.fail("a process was started"))
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(Request.of("problem.py", text))
    found = caught.value.diagnostics[0]
    assert found.code == "MU7010" and not found.message.endswith(": ")
