"""The audit on a GPU: samples that cheat with streams, graphs and clocks are caught, honest ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.audit_samples import HONEST_WHEN_PROFILED
from mucc.agent.audit import Options, Verdict, audit

pytestmark = pytest.mark.alone

SAMPLES = Path(__file__).parents[1] / "agent" / "cuda"

CHEATS = {
    "aliased_input": "aliasing",
    "behind_the_copy": "late_work",
    "cached_result": "stale_output",
    "cublas": "pytorch_only",
    "constant_output": "constant_output",
    "extra_work": "early_work",
    "fallback": "fallback",
    "flush_skipped": "timers",
    "found_clock": "harness",
    "graph_behind_the_gate": "pytorch_only",
    "graph_empty": "graph_replay",
    "graph_half": "results",
    "graph_of_pytorch": "pytorch_only",
    "graph_replay": "graph_replay",
    "input_shortcut": "input_shortcut",
    "mapped_result": "results",
    "marks_by_an_object": "timers",
    "marks_done": "timers",
    "marks_natively": "timers",
    "marks_ready": "timers",
    "other_process": "other_processes",
    "other_stream": "late_work",
    "other_thread": "late_work",
    "out_of_bounds": "out_of_bounds",
    "patched_timer": "timers",
    "pytorch_behind_the_gate": "pytorch_only",
    "pytorch_unless_kernels_are_recorded": "pytorch_only",
    "pytorch_work": "pytorch_only",
    "recognised_input": "stale_output",
    "rounded_weights": "precision",
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
    needed = {p.stem for p in SAMPLES.glob("cheat_*.py")} - {*HONEST_WHEN_PROFILED}
    assert {name.removeprefix("cheat_") for name in needed} == set(CHEATS)


LARGE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2.0

def get_inputs():
    return [torch.rand(5, 1 << 20)]

def get_init_inputs():
    return []
"""

DOUBLES = """
import torch, triton
import triton.language as tl

@triton.jit
def doubles(x, y, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    tl.store(y + places, tl.load(x + places, mask=inside) * FACTOR, mask=inside)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        doubles[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


@pytest.mark.parametrize(("factor", "accepted"), [("2.0", True), ("2.001", False)])
def test_large_results_are_compared_where_they_were_kept(tmp_path: Path, factor: str, accepted: bool):
    """Of more than 4 Mi elements some are compared, which the judge draws on its host and on the GPU."""
    pytest.importorskip("triton", reason="needs triton")
    (tmp_path / "problem.py").write_text(LARGE)
    (tmp_path / "solution.py").write_text(DOUBLES.replace("FACTOR", factor))
    found = audit(str(tmp_path / "problem.py"), str(tmp_path / "solution.py"), Options(device="cuda"))
    assert found.correct is accepted and found.accepted is accepted, found.as_text()


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
