"""What benchmarks share in bench.runner: libraries, records of runs, and the arguments."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import runner
from bench.runner import Bench, Row, Session, Values


@dataclasses.dataclass(frozen=True)
class Problem:
    """Problems of one `kernel` share a library."""

    key: str
    kernel: str
    text: str = "kernel"

    @property
    def stem(self) -> str:
        return f"folder/{self.kernel}"


PROBLEMS = (Problem("a/1", "a"), Problem("a/2", "a"), Problem("b/1", "b"))


class Numbers(Bench[Problem]):
    """A benchmark whose times are those that it is given; a problem without one fails."""

    name, noun, example = "numbers", "number", "a/1"
    problems = PROBLEMS

    def __init__(self, times: dict[str, float]):
        self.times = times
        self.measured: list[str] = []

    def begin(self, problem: Problem) -> Values:
        return {"name": problem.key}

    def measure(self, session: Session, kernel: Any, problem: Problem) -> Values:
        self.measured.append(problem.key)
        if problem.key not in self.times:
            raise RuntimeError("no time\nat all")
        return {"mucc_ms": self.times[problem.key], "good": True}

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        return {"numbers.sum": sum(row.get("mucc_ms", 0.0) for row in rows)}

    def line(self, row: Row) -> str:
        return f"{row['name']} {row.get('mucc_ms', row.get('error'))}"


def built(programs: Any, options: Any) -> Any:
    """Stand in for the compiler: it has no kernel of `b`."""
    for path in programs:
        good = path.stem == "a"
        if good:
            path.with_suffix(".so").write_bytes(b"library")
        yield path, {"built": True, "cached": False} if good else {"built": False, "error": "no kernel"}


def test_libraries_are_built_once_and_old_ones_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "build_all", built)
    failed = runner.build_problems(PROBLEMS, tmp_path, runner.Options("sm_90a", 1, 1.0))
    assert failed == {"b/1": "no kernel"}
    assert "2/2" in capsys.readouterr().out
    assert runner.paths_of(PROBLEMS[0], tmp_path)[0].read_text() == "kernel"
    for problem in (PROBLEMS[2], dataclasses.replace(PROBLEMS[0], text="kernel of today")):
        with pytest.raises(ValueError, match="no library"):
            runner.loaded(problem, tmp_path)


def _answer(answer: Any, argument: Any) -> Any:
    return answer


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for a GPU, whose library of `a` loads. Returns the folder of result files."""
    from bench import common
    from bench.gemm import measure

    cuda = SimpleNamespace(empty_cache=lambda: None)
    torch = SimpleNamespace(cuda=cuda, OutOfMemoryError=MemoryError, __version__="2")
    stands_for: list[tuple[Any, str, Any]] = [
        (runner.importlib, "import_module", torch),
        (runner, "card", "h200"),
        (runner, "gpu_versions", {"torch": "2"}),
        (measure, "copy_bandwidth", 4e12),
    ]
    for module, name, answer in stands_for:
        monkeypatch.setattr(module, name, functools.partial(_answer, answer))
    monkeypatch.setattr(runner, "build_all", built)
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")

    def loaded(problem: Problem, folder: Path) -> tuple[Any, str]:
        if problem.kernel == "b":
            raise ValueError("there is no library of it")
        return None, "digest"

    monkeypatch.setattr(runner, "loaded", loaded)
    return tmp_path / "results" / "h200"


def run(bench: Numbers, folder: Path, *arguments: str) -> int:
    return runner.run_bench(bench, runner.parser_of(bench, "").parse_args([*arguments, "-o", str(folder)]))


def test_a_run_goes_on_from_what_is_measured(
    card: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Numbers({"a/1": 1.5})
    assert run(first, tmp_path) == 1
    assert first.measured == ["a/1", "a/2"]
    written = json.loads((card / "numbers.json").read_text())
    assert written["rows"] == [
        {"name": "a/1", "mucc_ms": 1.5, "good": True},
        {"name": "a/2", "error": "RuntimeError: no time"},
        {"name": "b/1", "error": "no kernel"},
    ]
    assert written["summary"] == {"numbers.sum": 1.5, "numbers.copy_tb_per_s": 4.0}
    assert "a copy moves 4.000 TB/s\na/1 1.5\n" in capsys.readouterr().out
    second = Numbers({"a/1": 9.0, "a/2": 2.0})
    assert run(second, tmp_path, "--only", "^a") == 0
    assert second.measured == ["a/2"]
    assert json.loads((card / "numbers.json").read_text())["summary"]["numbers.sum"] == 3.5
    again = Numbers({"a/1": 9.0, "a/2": 2.0})
    assert run(again, tmp_path, "--only", "^a", "--again", "--no-record") == 0
    assert again.measured == ["a/1", "a/2"]


def test_a_run_that_is_limited_says_what_is_left(
    card: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Numbers({})
    assert run(bench, tmp_path, "--budget-seconds", "1e-9", "--measure-only") == 0
    assert bench.measured == []
    assert "3 numbers are left for the next run, the first of them a/1" in capsys.readouterr().out


def test_building_and_listing_need_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "build_all", built)
    monkeypatch.setattr(runner, "Run", None)
    assert run(Numbers({}), tmp_path, "--build-only") == 1
    assert run(Numbers({}), tmp_path, "--build-only", "--only", "a/1") == 0
    capsys.readouterr()
    assert run(Numbers({}), tmp_path, "--list", "--only", "b") == 0
    assert capsys.readouterr().out == "// b/1\nkernel\n"
    with pytest.raises(SystemExit, match="no number matches 'z'"):
        run(Numbers({}), tmp_path, "--only", "z")


def test_rows_of_several_runs_are_one_result(card: Path, tmp_path: Path) -> None:
    """A later run's row counts, and problems stay in their order."""
    paths: list[str] = []
    for times, only in (({"a/1": 1.0}, "1$"), ({"a/1": 3.0, "a/2": 2.0}, "^a")):
        run(Numbers(times), tmp_path / str(len(paths)), "--only", only, "--again")
        paths.append(str((card / "numbers.json").rename(tmp_path / f"{len(paths)}.json")))
    assert run(Numbers({}), tmp_path, "--merge", *paths[::-1]) == 0
    written = json.loads((card / "numbers.json").read_text())
    assert [row.get("mucc_ms") for row in written["rows"]] == [1.0, 2.0, None]
    assert written["summary"] == {"numbers.sum": 3.0, "numbers.copy_tb_per_s": 4.0}
    other = json.loads(Path(paths[0]).read_text()) | {"card": "h100"}
    Path(paths[0]).write_text(json.dumps(other))
    with pytest.raises(ValueError, match="several cards: h100, h200"):
        run(Numbers({}), tmp_path, "--merge", *paths)
