"""A proposer, an evaluator and tasks that follow a script, for tests of the agent's engine."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mucc.agent.core.analysis import Advice, Analysis, Limit, Severity
from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.evaluator import Comparison, Watch
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import Call, Reply, View
from mucc.agent.core.strategy import Budget, Strategy
from mucc.agent.core.tasks import Compiled, Imported, Task
from mucc.agent.engine.context import RunContext, SerializedProgress
from mucc.agent.engine.options import Options
from mucc.agent.engine.turns import Seats, Turns
from mucc.agent.importing.problems import Problem
from mucc.agent.isolation.zygote import Zygote
from mucc.agent.search import make
from mucc.agent.store import Store

BASELINES = {"default": 4.0, "tf32": 2.0, "compile": 1.5}


def drawn(*parts: object) -> float:
    """A number between 0 and 1 that only depends on what it is called."""
    return zlib.crc32("/".join(map(str, parts)).encode()) / 2**32


def task(key: str = "gemm/square", compiled: Compiled = Compiled.WHOLE, bound_ms: float | None = 0.5) -> Task:
    """A problem with a bound."""
    return Task(
        key,
        f"{key}.py",
        "# a problem",
        "tf32",
        "h200",
        "sm_90a",
        Imported(key.rpartition("/")[2], f"kernel 0 of {key}", "# a driver", compiled, 1.0),
        {"binding": "tensor.tf32", "limits": {}, "stages": [{"kind": "contraction"}]},
        bound_ms,
    )


@dataclass
class ScriptedProposer:
    """Names hypotheses and writes programs by what it has seen; with `calls`, each answer costs one."""

    calls: bool = False
    slow: float = 0.0
    most: int = 1 << 30
    name: str = "offline"

    def nominate(self, view: View, count: int, parent: Attempt) -> Reply[Sequence[Hypothesis]]:
        time.sleep(self.slow)
        known = len(view.hypotheses)
        found = [
            Hypothesis(
                f"idea {n} on {parent.number}",
                "because",
                ("tile", "stages", "split")[n % 3],
                1 + drawn(view.task.key, n),
                parent=parent.number,
            )
            for n in range(known, min(known + count, self.most))
        ]
        return Reply(found, self._calls("nominate"))

    def implement(
        self, view: View, number: int, hypothesis: Hypothesis, earlier: Sequence[Attempt], count: int
    ) -> Reply[Sequence[Candidate]]:
        time.sleep(self.slow)
        key, seen = view.task.key, len(view.attempts)
        if drawn(key, number, len(earlier), "end") < 0.15:
            return Reply([], self._calls("implement"))
        want = 1 + int(2 * drawn(key, number, len(earlier), "count"))
        made = [
            Candidate(f"kernel {self._which(key, number, len(earlier) + n, seen)} of {key}", f"change {n}")
            for n in range(min(want, count))
        ]
        return Reply(made, self._calls("implement"))

    @staticmethod
    def _which(key: str, number: int, n: int, seen: int) -> int:
        if drawn(key, number, n, "again") < 0.1:
            return 0
        return 1 + 100 * number + 10 * n + seen % 10

    def _calls(self, purpose: str) -> list[Call]:
        return [Call("scripted", "m", purpose, prompt_tokens=100, answer_tokens=10)] if self.calls else []


@dataclass
class ScriptedEvaluator:
    """Outcomes by what a program is called. `log` has a line for every candidate that was evaluated."""

    slow: float = 0.0
    log: str | None = None
    evaluated: list[str] = field(default_factory=list[str])
    closed: bool = False

    def evaluate(
        self, task: Task, candidates: Sequence[Candidate], best_ms: float | None, watch: Watch | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        for place in sorted(range(len(candidates)), key=lambda n: drawn(candidates[n].program, "order")):
            time.sleep(self.slow)
            if watch is not None:
                watch(place, "build")
            program = candidates[place].program
            self.evaluated.append(program)
            if self.log is not None:
                with Path(self.log).open("a") as file:
                    file.write(json.dumps([os.getpid(), program]) + "\n")
            yield place, outcome_of(program)

    def compare(self, task: Task, candidate: Candidate | None) -> Comparison:
        time.sleep(self.slow)
        ours = {} if candidate is None else {"mucc": outcome_of(candidate.program).ms or 9.0}
        return Comparison({**BASELINES, **ours})

    def library(self, task: Task, candidate: Candidate) -> str | None:
        return None

    def close(self) -> None:
        self.closed = True


def outcome_of(program: str) -> Outcome:
    """What always comes of a program."""
    luck = drawn(program, "luck")
    seconds = {"build": 0.01, "run": 0.01}
    if program.startswith("kernel 0 "):
        return Outcome(Status.GOOD, ms=2.0, audited=True, label="No Issues", seconds=seconds)
    if luck < 0.2:
        return Outcome(
            Status.INVALID, "no", diagnostics=[{"code": "MU0001", "message": "no"}], seconds=seconds
        )
    if luck < 0.3:
        return Outcome(Status.CRASHED, "signal 11", seconds=seconds)
    ms = 0.6 + 2 * drawn(program, "ms")
    return Outcome(Status.GOOD, ms=round(ms, 4), audited=True, label="No Issues", seconds=seconds)


def analyze(task: Task, attempt: Attempt, library: str | None) -> Analysis:
    """An analysis without a profiler."""
    advice = Advice("scripted", Severity.WARNING, "slow", ["a larger tile"], levers=["tile"])
    return Analysis(Limit.COMPUTE, 2.0, [advice])


def parts(
    folder: Path,
    *,
    strategy: str | Strategy = "mantis",
    budget: Budget = Budget(),  # noqa: B008
    turns: Turns | None = None,
    proposer: Any = None,
    evaluator: Any = None,
    progress: Any = None,
) -> RunContext:
    """A run of scripted parts in a folder."""
    options = Options(precision="tf32", budget=budget, jobs=4)
    return RunContext(
        Store(str(folder / "run.db"), create=True),
        str(folder),
        options,
        evaluator or ScriptedEvaluator(),
        proposer or ScriptedProposer(),
        make(strategy, budget) if isinstance(strategy, str) else strategy,
        analyze,
        SerializedProgress(progress),
        turns or Seats(4),
    )


def imported(_: Zygote, problems: Sequence[Problem], *__: Any) -> Iterator[Task]:
    """Imports that need no torch; the last comes first."""
    for problem in reversed(problems):
        yield task(problem.key)


def unprofiled(task: Task, *_: Any, **__: Any) -> Analysis:
    """Profiles nothing."""
    return Analysis(Limit.COMPUTE, 2.0)
