"""Evaluation on a GPU: what candidates do to it costs them one attempt, and nothing after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mucc.agent.core.attempts import Candidate, Outcome, Status
from mucc.agent.core.tasks import BASELINES, Imported, Task
from mucc.agent.evaluate import Settings, make
from mucc.agent.evaluate.building import Builder, Built
from mucc.agent.evaluate.evaluator import LocalEvaluator

PROBLEM = """
import torch

class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(256, 1024)]

def get_init_inputs():
    return [1024]
"""

DRIVER = """
import os
os.environ["TRITON_CACHE_DIR"] = os.path.join(os.getcwd(), "triton")
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        {body}
        return y
"""

ILLEGAL = """
import triton, triton.language as tl

@triton.jit
def beside(p):
    tl.store(p + (1 << 42), 1.0)
"""

SETTINGS = Settings(run_seconds=20)


class NoBuilder(Builder):
    """The drivers have no kernels."""

    def __init__(self) -> None:
        pass

    def build(self, task: Task, candidate: Candidate) -> Built:
        return Built()


@pytest.fixture(scope="module")
def evaluator() -> Iterator[LocalEvaluator]:
    made = make(device="cuda", jobs=1, settings=SETTINGS)
    assert isinstance(made, LocalEvaluator)
    made.builder = NoBuilder()
    with made:
        yield made


def outcome_of(evaluator: LocalEvaluator, body: str, best_ms: float | None = 0.0, head: str = "") -> Outcome:
    imported = Imported("linear", "kernel linear", head + DRIVER.replace("{body}", body))
    task = Task("own/linear", "linear.py", PROBLEM, "declared", "h200", "sm_90a", imported)
    ((_, outcome),) = evaluator.evaluate(task, [Candidate("kernel linear", "")], best_ms)
    return outcome


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
    outcome = outcome_of(evaluator, body, head=ILLEGAL if "beside" in body else "")
    assert outcome.status is status, outcome
    good = outcome_of(evaluator, "pass")
    assert good.status is Status.GOOD and good.ms, good


def test_pytorch_is_told_by_the_audit(evaluator: LocalEvaluator):
    outcome = outcome_of(evaluator, "pass", None)
    assert outcome.status is Status.REJECTED and outcome.label == "PyTorch-only", outcome


def test_baselines(evaluator: LocalEvaluator):
    imported = Imported("linear", "kernel linear", DRIVER.replace("{body}", "pass"))
    task = Task("own/linear", "linear.py", PROBLEM, "tf32", "h200", "sm_90a", imported)
    found = evaluator.compare(task, Candidate("kernel linear", ""))
    assert found.ms.keys() == {*BASELINES, "mucc"}, found.failed
