"""Evaluation on a GPU: what candidates do to it costs them one attempt, and nothing after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from evaluations import opened, outcome_of, problem, task_of

from mucc.agent.core.attempts import Candidate, Status
from mucc.agent.core.tasks import BASELINES, Task
from mucc.agent.evaluate import Settings
from mucc.agent.evaluate.evaluator import LocalEvaluator

PROBLEM = problem(256, 1024)

HEAD = """
import os
os.environ["TRITON_CACHE_DIR"] = os.path.join(os.getcwd(), "triton")
"""
"""Of every driver: kernels of Triton are kept in the candidate's own folder."""

ILLEGAL = """
import triton, triton.language as tl

@triton.jit
def beside(p):
    tl.store(p + (1 << 42), 1.0)
"""

SETTINGS = Settings(run_seconds=20)


@pytest.fixture(scope="module")
def evaluator() -> Iterator[LocalEvaluator]:
    with opened("cuda", SETTINGS) as made:
        yield made


def task(body: str, *, head: str = "", precision: str = "declared") -> Task:
    return task_of(PROBLEM, body, head=HEAD + head, precision=precision)


BAD = {
    "device assert": ("torch.zeros(4, device='cuda')[torch.tensor([9], device='cuda')]", Status.CRASHED),
    "illegal address": ("beside[(1,)](y)", Status.CRASHED),
    "hang": ("torch.cuda._sleep(1 << 50)", Status.TIMED_OUT),
    "memory": ("torch.empty(1 << 42, device='cuda')", Status.OUT_OF_MEMORY),
    "values": ("return y * 1.01", Status.WRONG),
    "on the host": ("return y.cpu()", Status.GOOD),
    "end": ("os._exit(3)", Status.CRASHED),
    "elsewhere": ("open('/tmp/mucc-test-elsewhere', 'w')", Status.RAISED),
}


@pytest.mark.parametrize(("body", "status"), BAD.values(), ids=BAD)
def test_a_bad_candidate_costs_one_attempt(evaluator: LocalEvaluator, body: str, status: Status):
    evaluator.runner.settings = Settings(run_seconds=4 if "sleep" in body else 20)
    outcome = outcome_of(evaluator, task(body, head=ILLEGAL if "beside" in body else ""))
    assert outcome.status is status, outcome
    good = outcome_of(evaluator, task("pass"))
    assert good.status is Status.GOOD and good.ms, good


@pytest.mark.alone
def test_pytorch_is_told_by_the_audit(evaluator: LocalEvaluator):
    outcome = outcome_of(evaluator, task("pass"), None)
    assert outcome.status is Status.REJECTED and outcome.label == "PyTorch-only", outcome


def test_baselines(evaluator: LocalEvaluator):
    found = evaluator.compare(task("pass", precision="tf32"), Candidate("kernel linear", ""))
    assert found.ms.keys() == {*BASELINES, "mucc"}, found.failed
