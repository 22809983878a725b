"""Reports of runs: the page, the table, and that no text of a run becomes part of the page."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path

import pytest
from agentruns import HOSTILE, begin, fill, make_task, random_times, typical
from hypothesis import given
from hypothesis import strategies as st
from pages import Reader, read
from screens import WIDTHS, too_wide

from mucc.agent.cli.main import main
from mucc.agent.core.attempts import Candidate
from mucc.agent.report.chart import Axis, short
from mucc.agent.report.markup import escape, h, markdown
from mucc.agent.report.page import page
from mucc.agent.report.plain import as_json
from mucc.agent.report.reading import read_run
from mucc.agent.report.room import Room
from mucc.agent.report.style import RULES
from mucc.agent.report.text import text
from mucc.agent.store import Store, TaskState


def test_a_page_says_everything(tmp_path: Path):
    run = read_run(typical(tmp_path / "run"))
    said = " ".join(read(page(run)).said)
    for word in (
        "5 tasks on NVIDIA H200",
        "--precision tf32 -o run",
        "geomean",
        "1.71x",
        "0.6100",
        "mlp/sorted",
        "no kernels",
        "PyTorch's: aten.sort",
        "MU3004",
        "pipeline needs 5 stages but 4 fit",
        "--> candidate.mcu:6:5",
        "tile    = 320x128x32",
        "larger tiles",
        "No Issues",
        "tf32 is declared",
        "Roofline",
        "Best time against tokens",
        "Speedup over compile against attempts of each task",
        "Hypothesis 2",
        "Summarize",
        "3 lessons for further problems",
        "1500",
        "40 attempts are spent",
    ):
        assert word in said, word


def test_nothing_that_a_run_holds_becomes_part_of_the_page(tmp_path: Path):
    with begin(tmp_path / "<img src=x>", note=HOSTILE) as store:
        task = make_task("gemm/" + HOSTILE, hostile=HOSTILE)
        fill(store, task, [0.9, 0.8, None, 0.7], hostile=HOSTILE, tokens=9)
        store.add_attempts(task.key, 9, [Candidate(HOSTILE, HOSTILE, 77, 0)])
    html = page(read_run(str(tmp_path / "<img src=x>")))
    said = " ".join(read(html).said)
    assert "<script>alert(1)</script>" in said  # as text
    assert not re.search(r'(src|href)\s*=\s*"(?!#)', html) and "\x00" not in html and "\u202e" not in html
    assert 'href="javascript' not in html and "<img" not in html


@given(st.text(st.characters()))
def test_text_stays_text(said: str):
    reader = Reader()
    reader.feed(h("p", said, content=said) + h("div", markdown(said)))
    reader.close()
    assert reader.open == []
    assert not set("<>\"'") & set(escape(said))


def test_a_run_that_was_killed_or_goes_on(tmp_path: Path):
    with begin(tmp_path / "run") as store:
        running = make_task("gemm/square")
        fill(store, running, [0.9, 0.8], state=TaskState.RUNNING)
        store.add_attempts(running.key, 5, [Candidate("kernel", "the last one", 1)])
        fill(store, make_task("gemm/tall"), [], state=TaskState.WAITING)
        said = " ".join(read(page(read_run(str(tmp_path / "run")))).said)
        assert "2 of 2 tasks are open" in said and "the last one" in said and "begun" in said
        found = as_json(read_run(str(tmp_path / "run")))
    assert found["ended"] is False and found["figures"]["unfinished"] == 1
    assert found["tasks"][0]["provisional"] is True and found["tasks"][0]["default_speedup"] == 2.5
    assert found["tasks"][1]["default_speedup"] is None


def test_runs_of_nothing(tmp_path: Path):
    with begin(tmp_path / "empty"):
        pass
    assert "No task was begun" in " ".join(read(page(read_run(str(tmp_path / "empty")))).said)
    assert "no task was begun" in text(read_run(str(tmp_path / "empty")))
    Store(str(tmp_path / "run.db"), create=True).close()
    assert "ended before it began" in " ".join(read(page(read_run(str(tmp_path / "run.db")))).said)
    assert "ended before it began" in text(read_run(str(tmp_path / "run.db")))


def test_a_thousand_attempts(tmp_path: Path):
    with begin(tmp_path / "run") as store:
        times = random_times(random.Random(1), 1000)
        fill(store, make_task(hostile="y" * 3000), times, hostile="z" * 3000, tokens=9, together=10)
    html = page(read_run(str(tmp_path / "run")))
    assert len(html.encode()) < 5_000_000
    reader = read(html)
    assert "task0-1000" in reader.ids and "characters more" in " ".join(reader.said)


@pytest.mark.long
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_screen(tmp_path: Path, width: int):
    typical(tmp_path / "run")
    with begin(tmp_path / "long") as store:
        times = random_times(random.Random(1), 60)
        fill(store, make_task(hostile="y" * 300), times, hostile="z" * 300, tokens=9, together=10)
    for name in ("run", "long"):
        (tmp_path / f"{name}.html").write_text(page(read_run(str(tmp_path / name))), encoding="utf-8")
    runs = [str(tmp_path / name) for name in ("run", "long")]
    assert main(["replay", *runs, "-o", str(tmp_path / "replay.html")]) == 0
    assert too_wide(tmp_path, ["/run.html", "/long.html", "/replay.html"], width) == []


def contrast(one: str, other: str) -> float:
    """The ratio of two colours by WCAG 2."""

    def light(colour: str) -> float:
        digits = colour.lstrip("#")
        digits = digits if len(digits) == 6 else "".join(2 * d for d in digits)
        parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_can_be_read_by_day_and_in_the_dark():
    bright, dark, *_ = re.findall(r":root \{(.*?)\}", RULES, re.DOTALL)
    schemes = [dict(re.findall(r"--(\w+): (#\w+)", text)) for text in (bright, dark)]
    assert "prefers-color-scheme: dark" in RULES and schemes[0].keys() == schemes[1].keys()
    for colours in schemes:
        for name in ("fg", "dim", "good", "bad", "warn", "link"):
            assert contrast(colours[name], colours["bg"]) >= 4.5, name
        assert all(contrast(colours["fg"], colours[name]) >= 4.5 for name in ("box", "add", "del"))


TABLE = """\
run: 5 tasks on NVIDIA H200
  mucc-agent optimize bench/kernelbench/problems/gemm --precision tf32 -o run
task         state    precision  compiled  label          ms  default  tf32  compile   bound   gap  tried  why
gemm/square  done     tf32          whole  No Issues  0.6100     3.28  1.64     1.31  0.5000  1.22      5  40 attempts are spent
gemm/tall    done     tf32          whole  No Issues  0.7500     2.67  1.33     1.07  0.5000  1.50      3  40 attempts are spent
mlp/gpt2     done     tf32            50%  No Issues  1.2000     1.67  0.83     0.67  0.5000  2.40      2  40 attempts are spent; PyTorch's: aten.sort
mlp/sorted   skipped  tf32           none  -               -      (1)   (1)      (1)  0.5000     -      0  no kernels; PyTorch's: aten.sort
mlp/broken   failed   tf32          whole  -               -      (1)   (1)      (1)  0.5000     -      0  the problem file raised
geomean of 5 tasks: 1.71x over default, 1.13x over tf32, 0.99x over compile (2 in it as 1)
10 attempts, 8 model calls, 9680 tokens
time: agent 1.2 s, build 90.0 s, gpu 36.0 s, audit 27.0 s, wait 9.0 s; the agent's own work is 0.7%
"""  # noqa: E501


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = typical(tmp_path / "run")
    assert main(["report", folder, "--text"]) == 0
    assert capsys.readouterr().out == TABLE


def test_figures_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", typical(tmp_path / "run"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    figures = found["figures"]
    assert figures["over_default_geomean"] == pytest.approx((2 / 0.61 * 2 / 0.75 * 2 / 1.2) ** 0.2, abs=1e-4)
    assert figures["fallbacks"] == 2 and figures["gemm.attempts"] == 8 and figures["mlp.fallbacks"] == 2
    assert found["overhead"] == pytest.approx(0.4 / 54.4)
    points = found["tasks"][0]["trajectory"]
    assert [p["best_ms"] for p in points] == [0.9, 0.8, 0.8, 0.7, 0.62, 0.61]
    assert [p["attempts"] for p in points] == [0, 1, 2, 3, 4, 5]
    assert [p["tokens"] for p in points] == [0, 1510, 3020, 4530, 6040, 7550]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = typical(tmp_path / "run")
    assert main(["report", folder]) == 0
    assert Path(capsys.readouterr().out.strip()) == tmp_path / "run" / "report.html"
    read((tmp_path / "run" / "report.html").read_text())
    assert main(["report", f"{folder}/run.db", "-o", str(tmp_path / "a.html")]) == 0
    assert (tmp_path / "a.html").exists()
    capsys.readouterr()
    for argv, code in (
        ([], "MU5001"),
        ([folder, "--text", "--json"], "MU5001"),
        ([str(tmp_path / "none")], "MU7203"),
        ([folder, "-o", str(tmp_path / "no" / "a.html")], "MU5012"),
        ([folder, "-o", f"{folder}/run.db"], "MU5015"),
        ([f"{folder}/run.db", "-o", f"{folder}/run.db"], "MU5015"),
    ):
        assert main(["report", *argv]) != 0
        assert code in capsys.readouterr().err
    assert len(read_run(folder).tasks) == 5


def test_a_store_in_a_folder_that_takes_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from mucc.agent.report import reading

    folder = typical(tmp_path / "run")
    kept = Store.info

    def info(self: Store):
        if self.path.startswith(folder):
            reading.Store  # noqa: B018
            from mucc.diagnostics.core import Diagnostic, DiagnosticError

            raise DiagnosticError(Diagnostic("MU7203", "attempt to write a readonly database"))
        return kept(self)

    monkeypatch.setattr(Store, "info", info)
    monkeypatch.setattr(reading.os, "access", lambda *_: False)
    assert len(read_run(folder).tasks) == 5
    assert read_run(folder).name == "run"
    shutil.rmtree(folder)


def test_a_long_run_shows_the_attempts_that_led_to_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mucc.agent.report.room.ATTEMPTS", 6)
    with begin(tmp_path / "run") as store:
        fill(store, make_task(), [0.9, None, None, None, 0.8, None, None, 0.7, None, 0.75])
    reader = read(page(read_run(str(tmp_path / "run"))))
    shown = [name for name in reader.ids if name.startswith("task0-")]
    assert shown == [f"task0-{n}" for n in (0, 1, 2, 3, 4, 7)]
    assert "4 more are left out" in " ".join(reader.said) and "Attempts (10)" in reader.said


def test_room_gets_smaller():
    room = Room([], 10_000)
    cut = [len(room.cut("x" * 5000, 4000)) for _ in range(100)]
    assert cut[0] < 400 and cut == sorted(cut, reverse=True) and cut[-1] >= 80


@given(st.lists(st.floats(1e-9, 1e15), min_size=1, max_size=9), st.booleans())
def test_axes_hold_their_values(values: list[float], log: bool):
    axis = Axis.over("x", values, log=log)
    assert all(0.0 <= axis.place(v) <= 1.0 for v in values)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 13 and ticks == sorted(ticks)
    assert all(axis.low <= t <= axis.high * 1.0001 for t in ticks)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0, "0"), (0.25, "0.25"), (5, "5"), (120, "120"), (15000, "15k"), (2.5e6, "2.5M"), (3e14, "300T")],
)
def test_short_numbers(value: float, said: str):
    assert short(value) == said
