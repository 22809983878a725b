"""How many examples property tests draw."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from budget import FEWEST, examples

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(("count", "drawn"), [(150, 50), (40, 13), (20, FEWEST), (10, 10), (3, 3)])
def test_a_share_of_the_examples(count: int, drawn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUCC_TEST_SHARE", raising=False)
    assert examples(count) == count
    monkeypatch.setenv("MUCC_TEST_SHARE", "1")
    assert examples(count) == drawn


@pytest.mark.parametrize(("words", "share"), [([], "1"), (["--all"], "0")])
def test_make_test_draws_a_share(words: list[str], share: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "test" / "tools"))
    import run_all

    asked: dict[str, str | None] = {}

    def run(name: str, command: list[str], keep: bool = False, **variables: str) -> run_all.Result:
        asked[name] = variables.get("MUCC_TEST_SHARE")
        return run_all.Result(name, True, "", 0.0)

    monkeypatch.setattr(run_all, "run", run)
    monkeypatch.setattr(sys, "argv", ["run_all.py", *words])
    assert run_all.main() == 0
    assert asked["pytest"] == share and set(asked) >= {"lit", *run_all.BESIDE}
