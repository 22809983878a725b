"""What tests of evaluation share: a problem, drivers made by hand, and an evaluator that builds nothing."""

from __future__ import annotations

from mucc.agent.core.attempts import Candidate, Outcome, Status
from mucc.agent.core.tasks import Imported, Task
from mucc.agent.evaluate import Settings, make
from mucc.agent.evaluate.build import Builder, Built
from mucc.agent.evaluate.evaluator import LocalEvaluator
from mucc.diagnostics.core import Diagnostic, DiagnosticError

DRIVER = """
import ctypes, os, subprocess, time
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


def problem(rows: int, size: int) -> str:
    """A layer of [`size`, `size`] over `rows` rows, as a problem file."""
    return f"""
import torch

class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)

    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn({rows}, {size})]

def get_init_inputs():
    return [{size}]
"""


def task_of(problem: str, body: str = "pass", *, head: str = "", precision: str = "declared") -> Task:
    """A problem whose driver does `body` when it is called, and `head` when it is loaded."""
    imported = Imported("linear", "kernel linear", head + DRIVER.replace("{body}", body))
    return Task("own/linear", "linear.py", problem, precision, "h200", "sm_90a", imported)


class NoBuilder(Builder):
    """Takes programs as they are: `bad` is none, `unbuilt` does not build, `broken machine` has no nvcc."""

    def __init__(self) -> None:
        pass

    def build(self, task: Task, candidate: Candidate) -> Built:
        if candidate.program == "broken machine":
            raise DiagnosticError(Diagnostic("MU5101", "nvcc was not found"))
        said = {"bad": Status.INVALID, "unbuilt": Status.UNBUILT}.get(candidate.program)
        return Built(None, said or Status.GOOD, "no" if said else "")


def opened(device: str, settings: Settings) -> LocalEvaluator:
    """An evaluator whose drivers have no kernels."""
    made = make(device=device, jobs=1, settings=settings)
    assert isinstance(made, LocalEvaluator)
    made.builder = NoBuilder()
    return made


def outcome_of(evaluator: LocalEvaluator, task: Task, best_ms: float | None = 0.0) -> Outcome:
    """What becomes of one candidate; with the default nothing beats the best, so nothing is audited."""
    found = list(evaluator.evaluate(task, [Candidate("kernel linear", "")], best_ms))
    assert [place for place, _ in found] == [0]
    return found[0][1]
