"""The audit on a GPU: samples that cheat with streams, graphs and clocks are caught, honest ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mucc.agent.audit import Options, Verdict, audit

SAMPLES = Path(__file__).parents[1] / "agent" / "cuda"

CHEATS = {
    "aliased_input": "aliasing",
    "cached_result": "stale_output",
    "cublas": "pytorch_only",
    "constant_output": "constant_output",
    "extra_work": "late_work",
    "fallback": "fallback",
    "flush_skipped": "timers",
    "found_clock": "harness",
    "graph_empty": "graph_replay",
    "graph_half": "results",
    "graph_of_pytorch": "pytorch_only",
    "graph_replay": "graph_replay",
    "input_shortcut": "input_shortcut",
    "mapped_result": "results",
    "marks_done": "timers",
    "marks_ready": "timers",
    "other_stream": "late_work",
    "other_thread": "late_work",
    "out_of_bounds": "out_of_bounds",
    "patched_timer": "timers",
    "pytorch_work": "pytorch_only",
    "recognised_input": "stale_output",
    "spinning_kernel": "results",
    "stream_ahead": "results",
    "stream_left_current": "results",
    "tf32_later": "results",
    "undeclared_precision": "precision",
    "uninitialised": "results",
    "warm_weights": "early_work",
}
"""Each with the detector that must find it."""


def judged(name: str) -> Verdict:
    pytest.importorskip("triton", reason="needs triton")
    return audit(str(SAMPLES / "problem.py"), str(SAMPLES / f"{name}.py"), Options(device="cuda"))


def test_every_sample_has_a_test():
    assert {p.stem.removeprefix("cheat_") for p in SAMPLES.glob("cheat_*.py")} == set(CHEATS)


HONEST = sorted(p.stem for p in SAMPLES.glob("honest*.py"))


@pytest.mark.parametrize("name", HONEST)
def test_honest_kernels_are_accepted(name: str):
    verdict = judged(name)
    assert verdict.state != "rejected" and verdict.correct, verdict.as_text()


@pytest.mark.parametrize(("name", "detector"), [pytest.param(*c, id=c[0]) for c in CHEATS.items()])
def test_cheats_are_caught(name: str, detector: str):
    verdict = judged(f"cheat_{name}")
    assert not verdict.accepted, verdict.as_text()
    assert detector in {f.detector for f in verdict.findings if f.severity == "reject"}, verdict.as_text()
