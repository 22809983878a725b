"""`mucc bench`: contenders from files, tables and plots; what needs no GPU."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from mucc.cli.main import main

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no file f.x.py with it"),
        ("import surely_missing", "surely_missing is not installed"),
        ("def g(x): pass", "f.x.py has no function f"),
        ("1 / 0", "f.x.py cannot be loaded: ZeroDivisionError: division by zero"),
        ("def f(x): return x", ""),
    ],
)
def test_contenders_from_files(tmp_path: Path, text: str | None, why: str) -> None:
    from mucc.measure.against import function_of

    path = tmp_path / "f.x.py"
    if text is not None:
        path.write_text(text)
    function, said = function_of(path, "f")
    assert said == why and (function is None) is bool(why)


def test_files_import_what_lies_beside_them(tmp_path: Path) -> None:
    from mucc.measure.against import function_of

    (tmp_path / "beside_f.py").write_text("SCALE = 3")
    path = tmp_path / "f.x.py"
    path.write_text("from beside_f import SCALE\ndef f(x): return SCALE * x")
    searched = list(sys.path)
    function, _ = function_of(path, "f")
    assert function is not None and function(2) == 6 and sys.path == searched
    assert sys.modules[function.__module__].SCALE == 3  # where Helion looks up the globals of a kernel


def test_a_first_call_ends_with_its_time_though_tuners_go_on_after_exceptions() -> None:
    from mucc.measure.against import TooLong
    from mucc.process.alarm import limited

    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(TooLong), limited(0.05, TooLong()):
        while True:
            with contextlib.suppress(Exception):
                time.sleep(5)
    with limited(None, TooLong()):
        pass
    assert signal.getsignal(signal.SIGALRM) is before


def test_tables_and_plots_name_what_has_no_time() -> None:
    from mucc.measure.against import Timed, plot, table

    results = [Timed("mucc", 10.0, 1e-3), Timed("a<b", 25.0, 2e-3), Timed("helion", problem="not installed")]
    text = table(results)
    assert "2.50" in text and "not installed" in text
    drawn = xml.fromstring(plot("f at M=1", results))
    words = ["".join(t.itertext()) for t in drawn if t.tag.endswith("text")]
    assert words == ["f at M=1", "mucc", "10.0 µs", "a<b", "25.0 µs"]


@pytest.mark.parametrize(
    "words", [[], ["f.mcu", "--against", "a b"], ["f.mcu", "--iters", "0"], ["f.mcu", "--first-call", "0"]]
)
def test_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    assert "MU5001" in capsys.readouterr().err
