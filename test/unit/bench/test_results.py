"""The form in which benchmarks leave their figures, and the table made from it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import common, corpus, report
from bench.compile import lines_of_kernels
from bench.fuzz import __main__ as fuzz
from mucc.diagnostics import Source
from mucc.frontend import format


def test_results_have_one_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    rows = [{"name": "a", "min_s": 0.5}]
    path = common.write_result("h200", "launch", rows, {"launch.us": 1.25}, extra_versions={"cuda": "13.0"})
    assert path == tmp_path / "h200" / "launch.json"
    result = json.loads(path.read_text())
    assert set(result) == {"card", "versions", "command", "date", "commit", "rows", "summary"}
    assert result["rows"] == rows and result["summary"] == {"launch.us": 1.25}
    assert result["command"].startswith("python -m bench.launch")
    assert result["versions"]["cuda"] == "13.0" and "mucc" in result["versions"]

    results = report.load(tmp_path)
    lines = report.table(results, []).splitlines()
    assert lines[0].split() == ["figure", "value", "card", "commit", "date"]
    assert lines[1].split()[:3] == ["launch.us", "1.25", "h200"]
    assert len(report.table(results, ["gemm"]).splitlines()) == 1


def test_the_program_of_the_compile_benchmark():
    text = lines_of_kernels(100)
    assert 100 <= text.count("\n") <= 110
    assert format(Source("long.mcu", text)) == text


def test_the_commit_where_there_is_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MUCC_COMMIT", "0123456789ab")
    assert common.commit() == "0123456789ab"


@pytest.mark.parametrize("main", [corpus.main, fuzz.main])
@pytest.mark.parametrize(
    ("given", "said"), [("0", "needs a number of at least 1"), ("x", "invalid int value")]
)
def test_jobs_are_at_least_one(
    main: Callable[[list[str]], int], given: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leave:
        main(["-j", given])
    assert leave.value.code == 2
    assert f"error: argument -j/--jobs: {said}" in capsys.readouterr().err
