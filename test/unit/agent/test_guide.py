"""The guide for agents that shell out: every command in it is one that mucc knows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module

import pytest

from mucc.agent.cli.main import COMMANDS as AGENT
from mucc.agent.cli.main import main
from mucc.agent.guide import text
from mucc.cli.registry import COMMANDS as MUCC

SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:mucc|mucc-agent) [^`]+)`")


def commands() -> Iterator[str]:
    """Those in blocks, and those within sentences."""
    for block in SHELL.findall(text()):
        yield from (line.partition("#")[0].strip() for line in block.splitlines() if line.strip())
    yield from INLINE.findall(text())


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_command_of_the_guide_parses(line: str):
    tool, *words = shlex.split(line)
    known = {"mucc": MUCC, "mucc-agent": AGENT}[tool]
    if tool == "mucc" and words[0] not in known:
        words.insert(0, "build")
    assert words[0] in known, line
    module = import_module(known[words[0]].module)
    module.main.parse(words[1:])


def test_the_guide_names_every_step():
    found = {tuple(shlex.split(line)[:2]) for line in commands()}
    steps = {("mucc", step) for step in ("import", "sol", "check", "run", "tune", "explain")}
    assert steps | {("mucc-agent", "audit"), ("mucc-agent", "optimize")} <= found


def test_the_guide_is_one_page_and_is_printed(capsys: pytest.CaptureFixture[str]):
    assert main(["guide"]) == 0
    assert capsys.readouterr().out == text() and len(text()) < 6000


def test_codes_and_statuses_of_the_guide_exist():
    from mucc.diagnostics.codes import CODES

    found = set(re.findall(r"MU\d{4}", text()))
    assert found and found <= set(CODES)
