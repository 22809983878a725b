"""`bench.gpu_tests`: what it keeps of reports of pytest."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from bench.gpu_tests import programs, row


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
