"""`mucc tune`: the command line, with stand-ins for compilers and GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tunelib

import mucc.measure.tune.building
import mucc.measure.tune.local
import mucc.measure.tune.worker
from mucc.cli.main import main
from mucc.database.home import database_path
from mucc.measure.tune.building import Built

DIMS = ("--dims", "M=4096,N=4096,K=4096", "--dims", "M=128,N=4096,K=4096")
ALL_BUILT = re.compile(r": (\d+) of \1 built: ")
PINNED = "\n// chosen by hand\nschedule f for sm_90a {\n    tile = 128x128x32\n}\n"


def libraries(pool: Any, wanted: Any, tools: Any) -> Iterator[Built]:
    for kernel, candidate in wanted:
        times = [100.0 if e is None else e for e in candidate.estimates]
        yield Built(kernel, candidate, tunelib.library(kernel, times, {}))


@pytest.fixture(autouse=True)
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
    monkeypatch.setattr(mucc.measure.tune.worker, "COMMAND", tunelib.COMMAND)
    for module in (mucc.measure.tune.local, mucc.measure.tune.building):
        monkeypatch.setattr(module, "build_each", libraries)
    Path("f.mcu").write_text(tunelib.TEXT)


Capture = pytest.CaptureFixture[str]


def test_the_winner_is_source(capsys: Capture) -> None:
    assert main(["tune", "f.mcu", *DIMS, "--budget", "4"]) == 0
    out, err = capsys.readouterr()
    assert "schedule f for sm_90a {" in out and "// fastest at M=" in out
    assert "of bound" in err and ALL_BUILT.search(err)
    Path("tuned.mcu").write_text(tunelib.TEXT + out)
    assert main(["check", "tuned.mcu"]) == 0


def test_json(capsys: Capture) -> None:
    assert main(["tune", "f.mcu", *DIMS, "--budget", "4", "--json"]) == 0
    out, err = capsys.readouterr()
    (kernel,) = json.loads(out)["kernels"]
    assert [size["dims"]["M"] for size in kernel["sizes"]] == [4096, 128]
    assert all(size["best"]["time_us"] <= size["model_choice"]["time_us"] for size in kernel["sizes"])
    assert err == ""


def test_a_second_run_measures_nothing(capsys: Capture) -> None:
    assert main(["tune", "f.mcu", *DIMS, "--budget", "3"]) == 0
    first = capsys.readouterr()
    assert main(["tune", "f.mcu", *DIMS, "--budget", "3"]) == 0
    second = capsys.readouterr()
    assert "0 candidates to build, 0 measurements" in second.err and second.out == first.out
    assert main(["tune", "f.mcu", *DIMS, "--budget", "3", "--again"]) == 0
    assert ALL_BUILT.search(capsys.readouterr().err)


def test_write_replaces_the_schedule(capsys: Capture) -> None:
    Path("f.mcu").write_text(tunelib.TEXT + PINNED)
    assert main(["tune", "f.mcu", *DIMS, "--budget", "2"]) == 0
    assert "warning[MU5313]" in capsys.readouterr().err
    assert Path("f.mcu").read_text() == tunelib.TEXT + PINNED
    assert main(["tune", "f.mcu", *DIMS, "--budget", "2", "-o", "g.mcu"]) == 0
    assert "MU5313" not in capsys.readouterr().err
    assert main(["tune", "f.mcu", *DIMS, "--budget", "2", "--write"]) == 0
    text = Path("f.mcu").read_text()
    assert text == Path("g.mcu").read_text()
    assert text.startswith(tunelib.TEXT) and "// chosen by hand" in text and "128x128x32" not in text
    assert main(["check", "f.mcu"]) == 0


def test_write_adds_a_schedule() -> None:
    assert main(["tune", "f.mcu", *DIMS, "--budget", "2", "--write"]) == 0
    assert Path("f.mcu").read_text().startswith(tunelib.TEXT + "\nschedule f for sm_90a {\n")
    assert main(["fmt", "--check", "f.mcu"]) == 0


def test_keep_pins(capsys: Capture) -> None:
    Path("f.mcu").write_text(tunelib.TEXT + PINNED)
    assert main(["tune", "f.mcu", *DIMS, "--budget", "3", "--keep-pins"]) == 0
    out, err = capsys.readouterr()
    assert "128x128x32" in out and "MU5313" not in err


def test_two_machines(capsys: Capture) -> None:
    assert main(["tune", "f.mcu", *DIMS, "--budget", "3", "--build-only", "folder"]) == 0
    assert re.match(r"(\d+) of \1 candidates are built in folder", capsys.readouterr().out)
    assert main(["tune", "--measure-only", "folder"]) == 0
    measured = capsys.readouterr()
    assert "schedule f for sm_90a" in measured.out
    Path("tuning.db").unlink()
    assert main(["tune", "--collect", "folder", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["results"]) == 2
    assert main(["tune", "--list"]) == 0
    assert "M=128,N=4096,K=4096" in capsys.readouterr().out


def test_export_and_import(capsys: Capture) -> None:
    assert main(["tune", "f.mcu", *DIMS, "--budget", "2"]) == 0
    assert main(["tune", "--export", "all.json"]) == 0
    assert main(["tune", "--forget", "--kernel", "f"]) == 0
    capsys.readouterr()
    assert main(["tune", "--list"]) == 0
    assert capsys.readouterr().out == "nothing was measured yet\n"
    assert main(["tune", "--import", "all.json"]) == 0
    assert main(["tune", "--export", "-"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2]) == json.loads(Path("all.json").read_text())
    assert main(["tune", "--export", database_path()]) == 2
    assert main(["tune", "--list"]) == 0


def test_measurements_of_settings_that_cannot_be_read_are_left_out(capsys: Capture) -> None:
    assert main(["tune", "f.mcu", *DIMS, "--budget", "2"]) == 0
    assert main(["tune", "--export", "all.json"]) == 0
    data = json.loads(Path("all.json").read_text())
    for record in data["measurements"]:
        record["stages"][0]["settings"]["tile"] = "any"
        record["run"]["time_us"] /= 2
        record["date"] = "2100" + record["date"][4:]
    Path("all.json").write_text(json.dumps(data))
    assert main(["tune", "--forget"]) == 0
    assert main(["tune", "--import", "all.json"]) == 0
    capsys.readouterr()
    assert main(["f.mcu", "--emit=schedule", *DIMS[2:]]) == 0
    assert "// measured" not in capsys.readouterr().out
    for field, value in (("dims", {"M": 1e400}), ("dims", {"M": 2**70}), ("run", {"runs": 2**70})):
        data["measurements"][0][field] |= value
        Path("all.json").write_text(json.dumps(data))
        assert main(["tune", "--import", "all.json"]) == 3
        assert "error[MU5310]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        ((), "MU5001", 2),
        (("f.mcu",), "MU6051", 2),
        (("f.mcu", "--dims", "M=8,N=8,K=7"), "MU6052", 2),
        (("f.mcu", "--dims", "M=8,N=8,K=8,L=8"), "MU6051", 2),
        (("f.mcu", "--dims", "M=x"), "MU6050", 2),
        (("f.mcu", *DIMS, "--kernel", "g"), "MU5406", 2),
        (("gone.mcu", *DIMS), "MU5010", 2),
        (("f.mcu", *DIMS, "--budget", "0"), "MU5001", 2),
        (("f.mcu", *DIMS, "--factor", "0.5"), "MU5001", 2),
        (("f.mcu", *DIMS, "-o", "no/such/folder.mcu"), "MU5012", 2),
        (("f.mcu", "--list"), "MU5001", 2),
        (("--list", "--forget"), "MU5001", 2),
        (("--measure-only", "."), "MU5302", 3),
        (("--measure-only", "gone"), "MU5302", 3),
        (("--collect", "newer"), "MU5303", 3),
        (("--collect", "torn"), "MU5302", 3),
        (("--import", "f.mcu"), "MU5310", 3),
        (("--import", "list.json"), "MU5310", 3),
    ],
)
def test_bad_input(words: tuple[str, ...], code: str, status: int, capsys: Capture) -> None:
    Path("newer").mkdir()
    Path("newer/plan.json").write_text('{"mucc_plan": 99, "mucc": "9.9"}')
    Path("torn").mkdir()
    Path("torn/plan.json").write_text(tunelib.planned(budget=1).to_json()[:-40])
    Path("list.json").write_text('{"measurements": [{"target": 3}]}')
    assert main(["tune", *words]) == status
    assert f"error[{code}]" in capsys.readouterr().err


def test_no_gpu(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(mucc.measure.tune.worker, "COMMAND", (*tunelib.COMMAND, "nothing"))
    assert main(["tune", "f.mcu", *DIMS]) == 3
    err = capsys.readouterr().err
    assert "error[MU5301]" in err and "--build-only" in err


def test_nothing_good(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def bad(pool: Any, wanted: Any, tools: Any) -> Iterator[Built]:
        for kernel, candidate in wanted:
            yield Built(kernel, candidate, tunelib.library(kernel, (1.0, 1.0), {"does": "wrong"}))

    monkeypatch.setattr(mucc.measure.tune.local, "build_each", bad)
    assert main(["tune", "f.mcu", *DIMS, "--budget", "2"]) == 3
    err = capsys.readouterr().err
    assert "error[MU5309]: no schedule of 'f' was measured at M=4096" in err and "wrong: differs" in err


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted(pool: Any, wanted: Any, tools: Any) -> Iterator[Built]:
        yield next(libraries(pool, wanted, tools))
        raise KeyboardInterrupt

    monkeypatch.setattr(mucc.measure.tune.local, "build_each", interrupted)
    assert main(["tune", "f.mcu", *DIMS, "--budget", "4"]) == 130
    assert main(["tune", "--list"]) == 0
    assert "M=4096,N=4096,K=4096" in capsys.readouterr().out
