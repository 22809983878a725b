"""The benchmark of the audit: rows are kept as they come, and a run goes on where it was."""

from __future__ import annotations

import argparse
import itertools
import random
import sysconfig
import threading
from pathlib import Path
from typing import Any

import pytest

from bench import audit, audit_aa, audit_join
from bench.audit_samples import Candidate
from bench.common import ROOT
from bench.lines import Lines


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
    assert measured == [*names, "problems/stop"]
    assert [row["name"] for row in results[0]["rows"]] == names and results[0]["summary"]["audit.left"] == 1
    run(tmp_path, "--seconds", "0")
    assert [row["name"] for row in results[1]["rows"]] == names and len(measured) == 3
    (tmp_path / "problems" / "a.py").write_text("# changed")
    (tmp_path / "problems" / "stop.py").unlink()
    run(tmp_path)
    assert measured[3:] == names[:1] and results[2]["summary"]["audit.left"] == 0


def test_a_run_that_is_ended_at_once_writes_nothing(
    tmp_path: Path, results: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    def measure(*_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(audit, "measure", measure)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert not results


def test_samples_that_cannot_run_here_are_left_out_and_counted(
    tmp_path: Path,
    results: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    place = tmp_path / "problems" / "a.py"

    def samples(*_: Any) -> list[Candidate]:
        found = [("fit", ""), ("host", "for a CPU"), ("c", "needs cffi"), ("memory", "for a CPU")]
        return [Candidate(name, "sample", place, place, True, unfit) for name, unfit in found]

    monkeypatch.setattr(audit, "samples", samples)
    audit.main(["--device", "cpu", "-o", str(tmp_path / "kept"), "--seconds", "60"])
    assert [r["name"] for r in results[0]["rows"]] == ["fit"] and results[0]["summary"]["audit.left_out"] == 3
    said = capsys.readouterr().out
    assert "left out: 2 for a CPU\n" in said and "left out: 1 needs cffi\n" in said


def test_audits_that_hang_are_ended_soon_after_the_time(
    tmp_path: Path, results: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    """What else was audited meanwhile is told at once, in its place in the end."""
    real, closed = audit.measure, threading.Event()

    class Auditor:
        def close(self) -> None:
            closed.set()

    def measure(candidate: audit.Candidate, *rest: Any) -> dict[str, Any]:
        if candidate.name.endswith("a"):
            assert closed.wait(60)
        return real(candidate, *rest)

    monkeypatch.setattr(audit, "Auditor", Auditor)
    monkeypatch.setattr(audit, "measure", measure)
    monkeypatch.setattr(audit, "GRACE", 0.0)
    run(tmp_path, "-j", "2", "--seconds", "0.5")
    assert [row["name"] for row in results[0]["rows"]] == ["problems/b", "problems/stop"]
    assert results[0]["summary"]["audit.left"] == 1
    kept = {line["values"]["name"] for line in Lines(tmp_path / "kept" / "audits.jsonl").found}
    assert kept == {"problems/b", "problems/stop"}, "what an ended process says is no verdict"


def test_what_was_not_judged_is_audited_again(
    tmp_path: Path, results: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    """A run that is ended by a signal ends the processes of its last audit, too."""
    real = audit.measure

    def ended(candidate: audit.Candidate, *_: Any) -> dict[str, Any]:
        return {"name": candidate.name, "kind": "", "honest": True, "label": None, "unjudged": "signal 9"}

    monkeypatch.setattr(audit, "measure", ended)
    run(tmp_path)
    monkeypatch.setattr(audit, "measure", real)
    run(tmp_path)
    assert [found["summary"]["audit.unjudged"] for found in results] == [3, 0]


def row(name: str, verdict: str, *, honest: bool, condition: str = "idle", **more: Any) -> dict[str, Any]:
    label = {"accepted": "No Issues", "rejected": "Original Gaming", "inconclusive": "Inconclusive"}[verdict]
    base = {"name": name, "honest": honest, "condition": condition, "label": label, "verdict": verdict}
    return base | {"accepted": verdict == "accepted"} | more


ROWS = [
    row("a", "rejected", honest=False),
    row("a", "inconclusive", honest=False, condition="16 busy processors"),
    row("b", "rejected", honest=False),
    row("plain", "accepted", honest=True, interval_ms=[1.0, 1.1]),
    row("plain", "accepted", honest=True, interval_ms=[1.2, 1.3]),
    row("plain", "accepted", honest=True, interval_ms=[1.25, 1.4]),
    row("threads", "inconclusive", honest=True),
    row("pools", "rejected", honest=True, condition="16 busy processors"),
    row("calls", "rejected", honest=True) | {"label": "PyTorch-only"},
    {"name": "c", "honest": True, "condition": "idle", "label": None, "unjudged": "no GPU"},
]


def test_figures_are_counted_for_each_condition():
    found = audit.summary(ROWS)
    assert found["audit.cheats"] == 2 and found["audit.cheat_audits"] == 3
    assert found["audit.cheats_caught"] == 1 and found["audit.idle.cheats_caught"] == 2
    assert found["audit.false_alarms"] == found["audit.16 busy processors.false_alarms"] == 1
    assert found["audit.idle.false_alarms"] == 0 and found["audit.idle.inconclusive"] == 1
    assert found["audit.honest_styles"] == 4 and found["audit.unjudged"] == 1
    assert found["audit.same_kernel_pairs"] == 2 and found["audit.same_kernel_told_apart"] == 1


def test_messages_name_no_place_of_this_machine():
    inside = f"{sysconfig.get_path('purelib')}/torch/lib/a.so"
    said = audit.without_places(f"{inside} {ROOT}/mucc/a.py {Path.home()}/b {Path.home()}")
    assert said == "torch/lib/a.so mucc/a.py ~/b ~"


def test_conditions_have_names():
    said = {audit.condition(*numbers) for numbers in itertools.product((1, 4), (0, 16), (0, 1))}
    assert len(said) == 8 and "idle" in said
    assert "16 busy processors, 1 processes on the GPU, 4 audits at once" in said
    assert audit.condition(1, 0, 0, "builds") == "builds"
    assert audit.condition(4, 0, 0, "builds") == "builds, 4 audits at once"


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/-2"])
def test_shards_that_are_none(text: str):
    with pytest.raises(argparse.ArgumentTypeError):
        audit.shard(text)


def test_shards_are_parts_of_all(tmp_path: Path, results: list[dict[str, Any]]):
    for n in (1, 2):
        run(tmp_path, "--shard", f"{n}/2", "--repeat", "2", "-o", str(tmp_path / f"kept {n}"))
    names = [[r["name"] for r in found["rows"]] for found in results]
    assert names == [["problems/a", "problems/stop"] * 2, ["problems/b"] * 2]


def test_all_styles_come_before_any_comes_again():
    found = [Candidate(name, "sample", Path(), Path(), name != "c") for name in ("a", "b", "c")]
    assert [c.name for c in audit.repeated(found, 3)] == ["a", "b", "c", "a", "b", "a", "b"]


def keep(folder: Path, rows: list[dict[str, Any]]) -> None:
    lines = Lines(folder / "audits.jsonl")
    for n, values in enumerate(rows):
        lines.add({"problem": str(n), "stage": "audit", "depends": "", "values": values})


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was written of joined rows."""
    written: list[Any] = []

    def write_result(*args: Any, **_: Any) -> None:
        written.append(args)

    monkeypatch.setattr(audit_join, "write_result", write_result)
    return written


def test_shards_are_put_together(tmp_path: Path, joined: list[Any]):
    rows = [{"card": "h100_sxm"} | found for found in ROWS]
    for part in (0, 1):
        keep(tmp_path / str(part), rows[part::2])
        keep(tmp_path / str(part), rows[part : part + 1])  # made again
    audit_join.main(["--card", "h100_sxm", str(tmp_path / "0"), str(tmp_path / "1")])
    card, name, found, figures = joined[0]
    assert (card, name, len(found)) == ("h100_sxm", "audit", len(ROWS))
    expected = audit.summary([*ROWS[::2], *ROWS[1::2]])
    assert figures == expected
    audit_join.main(["--card", "h100_sxm", str(tmp_path / "0"), "--without", "a,plain"])
    assert {r["name"] for r in joined[1][2]}.isdisjoint(("a", "plain"))
    with pytest.raises(OSError, match="audits"):
        audit_join.main(["--card", "h100_sxm", str(tmp_path / "2")])


def test_rows_of_another_card_are_refused(
    tmp_path: Path, joined: list[Any], capsys: pytest.CaptureFixture[str]
):
    keep(tmp_path / "0", [{"card": "h100_sxm"} | found for found in ROWS])
    keep(tmp_path / "1", [{"card": "h200"} | ROWS[0], {"card": "h200"} | ROWS[2], ROWS[3]])
    with pytest.raises(SystemExit):
        audit_join.main(["--card", "h100_sxm", str(tmp_path / "0"), str(tmp_path / "1")])
    assert f"{tmp_path / '1'} has rows of other cards than --card h100_sxm: 2 of h200, 1 of no card" in (
        capsys.readouterr().err
    )
    assert not joined


def test_rows_name_the_card_and_are_not_taken_from_another(
    tmp_path: Path, results: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    for card in ("cpu-a", "cpu-b"):
        monkeypatch.setattr(audit, "cpu_label", lambda card=card: card)
        run(tmp_path)
        run(tmp_path, "--seconds", "0")
        assert len(results[-1]["rows"]) == 3 and {r["card"] for r in results[-1]["rows"]} == {card}


def test_series_of_one_kernel_are_told_apart_as_rarely_as_is_stated():
    draw = random.Random(2).lognormvariate
    same = [[draw(0.0, 0.05) for _ in range(30)] for _ in range(300)]
    found = audit_aa.summary("same", same)
    assert found["audit_aa.same.pairs"] == 299 and found["audit_aa.same.apart"] <= 2
    assert found["audit_aa.same.missed"] <= 9 and found["audit_aa.same.apart_at_most"] < 0.03
    other = [[ms * (1 + n % 2) for ms in times] for n, times in enumerate(same)]
    assert audit_aa.summary("other", other)["audit_aa.other.apart"] == 299


def test_a_rate_is_bounded_by_what_was_seen():
    assert audit_aa.upper_bound(0, 299) == pytest.approx(1 - 0.05 ** (1 / 299), rel=1e-6)
    assert audit_aa.upper_bound(5, 5) == 1.0 and audit_aa.upper_bound(1, 300) > audit_aa.upper_bound(0, 300)
