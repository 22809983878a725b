"""Completion in shells: the scripts, the candidates by click's protocol, and what they load."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mucc.agent.cli.main import TOOL as AGENT
from mucc.cli.build import EMIT
from mucc.cli.main import main
from mucc.cli.registry import MUCC, Tool
from mucc.diagnostics.codes import CODES
from mucc.target import target_names

ROOT = Path(__file__).parents[3]
SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder with programs and other files."""
    monkeypatch.chdir(tmp_path)
    for name in ("k.mcu", "my kernel.mcu", ".hidden.mcu", "notes.txt", "problem.py", "two\nlines.mcu"):
        Path(name).touch()
    for name in ("sub", "build"):
        Path(name).mkdir()
    Path("sub/a.mcu").touch()
    return tmp_path


def environment(line: str, shell: str, tool: Tool = MUCC) -> dict[str, str]:
    """What the script of a shell sets to ask for the candidates of the last word of a line."""
    words = line.split(" ")
    at = str(len(words) - 1)
    if shell == "bash":
        words = [
            part for word in words for part in (re.split("(=)", word) if word.startswith("--") else [word])
        ]
        at = str(len(words) - 1)
    if shell == "fish":
        at = words[-1]
    joined = "\n".join(words) if shell == "bash" else " ".join(words)
    return {"COMP_WORDS": joined, "COMP_CWORD": at, tool.completion_variable: f"{shell}_complete"}


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    """The candidates for the last word of a line."""

    def candidates(line: str, shell: str = "bash", tool: Tool = MUCC) -> list[str]:
        with monkeypatch.context() as patch:
            for name, value in environment(line, shell, tool).items():
                patch.setenv(name, value)
            assert main([], tool) == 0
        said = capfdbinary.readouterr()
        assert said.err == b""
        lines = said.out.decode("utf-8", "surrogateescape").splitlines()
        if shell == "zsh":
            return lines[1::3]
        return [line.partition(",")[2].partition("\t")[0] for line in lines]

    return candidates


CASES = {
    "mucc ch": ["check"],
    "mucc help ch": ["check"],
    "mucc k": ["k.mcu"],
    "mucc --em": ["--emit"],
    "mucc --ver": ["--version", "--verbose"],
    "mucc k.mcu --expl": ["--explain-schedule", "--explain-fusion"],
    "mucc k.mcu --emit ": list(EMIT),
    "mucc build k.mcu --emit cu": ["cutlass", "cu", "cubin"],
    "mucc k.mcu --diagnostics j": ["json"],
    "mucc k.mcu --target ": sorted(target_names()),
    "mucc check ": ["build/", "k.mcu", "my kernel.mcu", "sub/"],
    "mucc check .h": [".hidden.mcu"],
    "mucc check sub/": ["sub/a.mcu"],
    "mucc check k.mcu --target sm_9": ["sm_90a"],
    "mucc check none/": [],
    "mucc k.mcu -o n": ["notes.txt"],
    "mucc k.mcu -j ": ["build/", "k.mcu", "my kernel.mcu", "sub/"],
    "mucc import ": ["build/", "problem.py", "sub/"],
    "mucc sol p": ["problem.py"],
    "mucc cache ": ["stats", "clear", "warm", "verify"],
    "mucc device show h2": ["h200"],
    "mucc tune --collect s": ["sub/"],
    "mucc explain MU502": [code for code in CODES if code.startswith("MU502")],
    "mucc k.mcu --print-ir-after form-s": ["form-stages"],
    "mucc completion ": list(SHELLS),
}
"""Lines, with the candidates for their last word."""


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("line", CASES)
def test_candidates(line: str, shell: str, complete):
    assert complete(line, shell) == CASES[line]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_first_word_is_a_command_or_a_program(shell: str, complete):
    assert complete("mucc ", shell) == [*MUCC.commands, "build/", "k.mcu", "my kernel.mcu", "sub/"]
    assert complete("mucc-agent ", shell, AGENT) == list(AGENT.commands)


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "manifest"), ("zsh", "--emit=manifest"), ("fish", "--emit=manifest")]
)
def test_a_value_after_an_equals_sign_is_what_the_shell_replaces(shell: str, word: str, complete):
    assert complete("mucc k.mcu --emit=man", shell) == [word]


def test_options_of_the_agent(complete):
    assert complete("mucc-agent optimize --proposer o", tool=AGENT) == ["offline", "openai"]
    assert complete("mucc-agent audit problem.py ", tool=AGENT) == [
        "build/",
        "k.mcu",
        "my kernel.mcu",
        "problem.py",
        "sub/",
    ]
    assert "--first-token-timeout" in complete("mucc-agent optimize --f", tool=AGENT)


def test_options_that_were_given_are_not_offered_again(complete):
    assert "--json" not in complete("mucc k.mcu --json --j")
    assert "--dims" in complete("mucc k.mcu --dims M=4 --d"), "which may be given several times"


def test_descriptions(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]):
    for name, value in environment("mucc chec", "zsh").items():
        monkeypatch.setenv(name, value)
    assert main([]) == 0
    assert capfdbinary.readouterr().out.decode() == f"plain\ncheck\n{MUCC.commands['check'].help}\n"


@pytest.mark.parametrize("instruction", ["tcsh_complete", "bash", "bash_source", "complete"])
def test_other_instructions(
    instruction: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(MUCC.completion_variable, instruction)
    assert main(["--help"]) == 2
    assert capsys.readouterr() == ("", "")


# Scripts


def script(shell: str, tool: Tool, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell], tool) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("tool", [MUCC, AGENT], ids=lambda tool: tool.name)
@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_valid(shell: str, tool: Tool, capsys: pytest.CaptureFixture[str]):
    text = script(shell, tool, capsys)
    assert f"{tool.completion_variable}={shell}_complete" in text and tool.name in text
    assert "%(" not in text and "%%" not in text
    if program := shutil.which(shell):
        run = subprocess.run([program, "-n"], input=text, capture_output=True, text=True, timeout=60)
        assert (run.returncode, run.stderr) == (0, "")


def test_which_shell(capsys: pytest.CaptureFixture[str]):
    assert main(["completion"]) == 2
    assert "error[MU5001]: which shell?" in capsys.readouterr().err
    assert main(["completion", "fsh"]) == 2
    assert "did you mean 'fish'?" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes(here: Path, capsys: pytest.CaptureFixture[str]):
    """The function of the script, as bash calls it, quotes names of files."""
    (here / "mucc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mucc "$@"\n')
    (here / "mucc").chmod(0o755)
    lines = (
        'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _mucc_completion ./mucc',
        'printf "<%s>" "${COMPREPLY[@]}"; }',
        "compopt() { :; }",
        "try mucc my; try mucc k.mcu --emit = man; try mucc check su; try mucc '~'",
    )
    run = subprocess.run(
        ["bash", "-c", script("bash", MUCC, capsys) + "\n".join(lines)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (run.stdout, run.stderr) == (r"<my\ kernel.mcu><manifest><sub/><>", "")


# Lazy loading


def loaded(argv: list[str], environment: dict[str, str] | None = None, tool: str = "mucc") -> set[str]:
    """The commands of both tools whose modules a command line loads."""
    package = "mucc.agent.cli.main" if tool == "mucc-agent" else "mucc.cli.main"
    modules = {entry.module for t in (MUCC, AGENT) for entry in t.commands.values()}
    program = (
        f"import sys; from {package} import main; main({argv!r}); sys.stdout.flush(); "
        f"print('loaded:', *(m for m in {modules!r} if m in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(environment or {})},
    )
    return set(run.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("tool", ["mucc", "mucc-agent"])
@pytest.mark.parametrize("argv", [[], ["--help"], ["help"], ["--version"], ["nonsense"]])
def test_no_command_is_loaded_where_none_runs(argv: list[str], tool: str):
    assert loaded(argv, tool=tool) == set()


def test_one_command_is_loaded_where_one_runs():
    assert loaded(["explain", "MU5001"]) == {"mucc.cli.explain"}
    assert loaded(["check", "--help"]) == {"mucc.cli.check"}
    assert loaded(["k.mcu", "--nonsense"]) == {"mucc.cli.build"}
    assert loaded(["replay", "--help"], tool="mucc-agent") == {"mucc.agent.cli.replay"}


def test_completion_loads_the_command_of_the_line():
    assert loaded([], environment("mucc ch", "bash")) == {"mucc.cli.completion", "mucc.cli.build"}
    line = environment("mucc check --la", "bash")
    assert loaded([], line) == {"mucc.cli.completion", "mucc.cli.check"}
