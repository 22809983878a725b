"""The benchmark of the audit: rows are kept as they come, and a run goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import audit


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What runs have written; audits are made up."""
    written: list[dict[str, Any]] = []

    def measure(candidate: audit.Candidate, *_: Any) -> dict[str, Any]:
        row = {"name": candidate.name, "kind": candidate.kind, "honest": candidate.honest}
        return row | {"label": "No Issues", "verdict": "accepted", "accepted": True, "audited": True}

    def write_result(card: str, name: str, rows: Any, summary: Any, **_: Any) -> None:
        written.append({"rows": rows, "summary": summary})

    monkeypatch.setattr(audit, "measure", measure)
    monkeypatch.setattr(audit, "write_result", write_result)
    folder = tmp_path / "problems"
    folder.mkdir()
    for name in ("a", "b", "stop"):
        (folder / f"{name}.py").write_text(f"# {name}")
    return written


def run(tmp_path: Path, *more: str) -> None:
    options = ["--device", "cpu", "--no-samples", "-o", str(tmp_path / "kept"), *more]
    audit.main([str(tmp_path / "problems"), *options])


def test_nothing_begins_after_the_time(tmp_path: Path, results: list[dict[str, Any]]):
    run(tmp_path, "--seconds", "0")
    assert results[0]["rows"] == [] and results[0]["summary"]["audit.left"] == 3


def test_a_run_that_was_ended_goes_on(
    tmp_path: Path, results: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    names = [f"problems/{name}" for name in ("a", "b")]
    measured: list[str] = []
    real = audit.measure

    def measure(candidate: audit.Candidate, *rest: Any) -> dict[str, Any]:
        measured.append(candidate.name)
        if candidate.name.endswith("stop"):
            raise KeyboardInterrupt
        return real(candidate, *rest)

    monkeypatch.setattr(audit, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert measured == [*names, "problems/stop"] and not results
    run(tmp_path, "--seconds", "0")
    assert [row["name"] for row in results[0]["rows"]] == names and len(measured) == 3
    (tmp_path / "problems" / "a.py").write_text("# changed")
    (tmp_path / "problems" / "stop.py").unlink()
    run(tmp_path)
    assert measured[3:] == names[:1] and results[1]["summary"]["audit.left"] == 0
