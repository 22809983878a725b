"""What tests of imports share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mucc.process.tree import End
from mucc.torch.importer import sandbox
from mucc.torch.importer.request import Request


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems run in this process, which has loaded torch, instead of a child."""
    from mucc.torch.importer.child import answered, serve

    def execute(arguments: list[str], *_: object) -> tuple[End, int, int]:
        question, answer = map(Path, arguments)
        given = Request.from_json(json.loads(question.read_text()))
        answer.write_text(json.dumps(answered(given.shown, lambda: serve(given).to_json())))
        return End.OF_ITSELF, 0, 0

    monkeypatch.setattr(sandbox, "_execute", execute)
