"""`bench.gpu_tests`: what it keeps of reports of pytest."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from bench.gpu_tests import programs, row, runs


def test_a_row_says_why_a_test_did_not_pass() -> None:
    report = ET.fromstring(
        "<s>"
        '<testcase name="a" time="1.504"/>'
        '<testcase name="b"><failure message="boom">trace</failure></testcase>'
        '<testcase name="c"><error>no GPU</error></testcase>'
        '<testcase name="d"><skipped message="m"/></testcase>'
        "</s>"
    )
    assert [row(case) for case in report.iter("testcase")] == [
        {"test": "a", "outcome": "passed", "seconds": 1.5},
        {"test": "b", "outcome": "failed", "seconds": 0.0, "why": "boom"},
        {"test": "c", "outcome": "error", "seconds": 0.0, "why": "no GPU"},
        {"test": "d", "outcome": "skipped", "seconds": 0.0, "why": "m"},
    ]


def test_examples_are_built_too() -> None:
    names = {path.stem for path in programs()}
    assert {"mlp", "reductions_only"} <= names


@pytest.mark.parametrize(
    ("arguments", "marks"),
    [
        ("test/gpu -n 14", [("14", "not alone"), ("0", "alone")]),
        ("-n14 -m nvcc -q", [("14", "(nvcc) and not alone"), ("0", "(nvcc) and alone")]),
        ("test/gpu -n 0", [("0", None)]),
        ("test/gpu", [(None, None)]),
    ],
)
def test_workers_leave_the_gpu_to_tests_that_need_it_alone(
    arguments: str, marks: list[tuple[str, str]]
) -> None:
    def told(words: list[str], option: str) -> str | None:
        return words[words.index(option) + 1] if option in words else None

    made = runs(arguments.split(), Path("reports"))
    assert [(told(run.arguments, "-n"), told(run.arguments, "-m")) for run in made] == marks
    assert len({run.report for run in made}) == len(made)


def test_runs_have_reports_beside_the_one_that_is_named() -> None:
    first, second = runs(["-n", "2", "--junitxml", "out/r.xml"], Path("reports"))
    assert (first.report, second.report) == (Path("out/r.xml"), Path("out/r-alone.xml"))
    assert "--junitxml=out/r-alone.xml" in second.arguments
