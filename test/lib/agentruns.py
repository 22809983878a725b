"""Runs of the agent that never happened, in stores as the agent leaves them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.progress import Progress
from mucc.agent.core.proposer import Call, Lesson
from mucc.agent.core.strategy import Budget
from mucc.agent.core.tasks import Compiled, Imported, OpaqueOperation, Task
from mucc.agent.store import Document, RunInfo, Store, TaskRecord, TaskState
from mucc.files.json_data import to_json

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>&lt;</pre></style>"
    "</script>[click](javascript:alert(4)) ![p](http://example.org/p.png) <http://example.org>"
    " \x00\x1b[31m\u202e\u2028 ]]> --><!--"
)
"""What a program, a model or a problem file may say."""

BASELINES = {"default": 2.0, "tf32": 1.0, "compile": 0.8}

SOL = {
    "bound_us": 500.0,
    "limits": {
        "tensor.tf32": {"amount": 2.4e11, "rate": 4.9e14, "us": 490.0},
        "dram": {"amount": 1.0e9, "rate": 4.8e12, "us": 208.0},
    },
    "assumptions": {"as declared": {"bound_us": 3600.0, "limits": {}}},
}

PROGRAM = """\
kernel square[M, N, K](x: f32[M, K], w: f32[N, K]) -> f32[M, N] {{
    return matmul(x, w.T, compute=tf32)
}}

schedule square for sm_90a {{
    tile    = {tile}
    cluster = 2x1
    stages  = auto
}}
"""


def make_task(key: str = "gemm/square", *, compiled: Compiled = Compiled.WHOLE, hostile: str = "") -> Task:
    """A task that was imported and measured."""
    imported = Imported(
        key.rpartition("/")[2],
        program=PROGRAM.format(tile="128x128x32") + hostile,
        driver="import torch\n" + hostile,
        compiled=compiled,
        share=1.0 if compiled is Compiled.WHOLE else 0.5,
        opaque=[] if compiled is Compiled.WHOLE else [OpaqueOperation("aten.sort" + hostile, 0.5)],
    )
    text = "class Model: ...\n" + hostile
    baselines = dict(BASELINES)
    return Task(key, f"{key}.py", text, "tf32", "h200", "sm_90a", imported, SOL, 0.5, baselines)


def outcome(ms: float | None, *, audited: bool = True, hostile: str = "") -> Outcome:
    """An outcome that counts; one that is wrong where there is no time."""
    seconds = {"check": 0.05, "build": 2.5, "wait": 9.0, "run": 0.6} | (
        {"audit": 3.0} if audited and ms else {}
    )
    if ms is None:
        said = [
            {
                "code": "MU3004",
                "severity": "error",
                "message": "pipeline needs 5 stages but 4 fit" + hostile,
                "span": {"file": "square.mcu", "start": 142, "end": 162, "line": 6, "column": 5},
                "label": "",
                "labels": [],
                "fixes": [],
                "notes": ["227 KB of shared memory" + hostile],
                "helps": ["stages = 4"],
            }
        ]
        reason = "pipeline needs 5 stages" + hostile
        return Outcome(Status.INVALID, reason, diagnostics=said, seconds={"check": 0.05}, printed=hostile)
    verdict = {
        "label": "No Issues",
        "accepted": True,
        "findings": [{"severity": "note", "detector": "precision", "message": "tf32 is declared" + hostile}],
    }
    label = "No Issues" if audited else ""
    facts = {"registers": 168, "error": 1e-4, "note": hostile}
    return Outcome(
        Status.GOOD,
        "",
        ms,
        ms / 100,
        audited,
        label,
        verdict if audited else None,
        [],
        seconds,
        facts,
        hostile,
    )


def fill(
    store: Store,
    task: Task,
    times: Sequence[float | None],
    *,
    state: TaskState = TaskState.DONE,
    tokens: int = 0,
    together: int = 1,
    hostile: str = "",
    stop: str = "40 attempts are spent",
) -> None:
    """A task with attempts: 0 is the program as imported, None does not count."""
    best = min((ms for ms in times if ms is not None), default=None)
    compared = state is TaskState.DONE and best is not None
    result = {"ms": task.baselines | {"mucc": best}, "failed": {}} if compared else {}
    seconds = {"agent": 0.4, "build": 30.0, "gpu": 12.0, "audit": 9.0, "model": 0.0, "wait": 3.0}
    ended = state not in (TaskState.RUNNING, TaskState.WAITING)
    store.put_task(TaskRecord(task, state, stop + hostile if ended else "", result, seconds if times else {}))
    idea = Hypothesis(
        "larger tiles" + hostile, "More reuse in *registers*.\n\n* one\n* two\n" + hostile, "tile"
    )
    for number, ms in enumerate(times[:1]):
        store.add_attempts(task.key, 0, [Candidate(task.imported.program, "")])
        store.finish_attempt(task.key, number, outcome(ms, hostile=hostile))
    step = 1
    for first in range(1, len(times), together):
        ms_of = times[first : first + together]
        if tokens:
            call = Call(
                "openai", "gpt" + hostile, "implement", "prompt" + hostile, "answer" + hostile, tokens, 0, 10
            )
            store.add_calls(task.key, step, [call])
        (hypothesis,) = store.add_hypotheses(task.key, step, [idea])
        candidates = [
            Candidate(
                PROGRAM.format(tile=f"{64 * (first + i)}x128x32") + hostile,
                f"tile {first + i}" + hostile,
                0,
                hypothesis,
            )
            for i in range(len(ms_of))
        ]
        numbers = store.add_attempts(task.key, step, candidates)
        for number, ms in zip(numbers, ms_of, strict=True):
            store.finish_attempt(task.key, number, outcome(ms, hostile=hostile))
        step += 1
    if times:
        document = Document(
            "Summarize" + hostile, f"# Summary\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n{hostile}", {}
        )
        store.add_document(task.key, step, document)
        store.add_lessons([Lesson(task.key, "tile", "larger tiles", 1.2)])


def begin(folder: Path, **options: Any) -> Store:
    """A store of a run that has begun."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(str(folder / "run.db"), create=True)
    command = "mucc-agent optimize bench/kernelbench/problems/gemm --precision tf32 -o run"
    versions = {"python": "3.12.3", "torch": "2.11.0"}
    store.start(
        RunInfo(command, "2026-11-22T01:00:00+00:00", "0.1.0", dict(options), "NVIDIA H200", versions)
    )
    return store


def typical(folder: Path) -> str:
    """Five tasks: two with results, one in part, one that mucc has no kernels for, one that failed."""
    with begin(folder, strategy="mantis", budget=to_json(Budget(epsilon=0.25))) as store:
        fill(store, make_task("gemm/square"), [0.9, 0.8, None, 0.7, 0.62, 0.61], tokens=1500)
        fill(store, make_task("gemm/tall"), [0.9, None, 0.95, 0.75], tokens=700)
        fill(store, make_task("mlp/gpt2", compiled=Compiled.PART), [1.5, None, 1.2])
        fill(
            store,
            make_task("mlp/sorted", compiled=Compiled.NONE),
            [],
            state=TaskState.SKIPPED,
            stop="no kernels",
        )
        fill(store, make_task("mlp/broken"), [], state=TaskState.FAILED, stop="the problem file raised")
    return str(folder)


def random_times(rng: random.Random, count: int) -> list[float | None]:
    """Times of a search that gets better by and by; a third does not count."""
    found: list[float | None] = [1.5]
    best = 1.5
    for _ in range(count):
        ms = best * rng.uniform(0.93, 1.3)
        counts = rng.random() > 0.33 and ms < best
        best = min(best, ms) if counts else best
        found.append(ms if counts else None)
    return found


TASK = make_task()
CHANGE = Candidate("…", "tile = 128x256x64\nstages = 4", parent=0, hypothesis=0)


def play(progress: Progress) -> None:
    """A short run."""
    progress.opened(2, 80)
    progress.task(TASK, "running")
    progress.task(TASK, "measure", "default 2 ms")
    progress.started(TASK.key, 0, Candidate("…", "as imported"))
    progress.stage(TASK.key, 0, "build")
    progress.finished(TASK.key, Attempt(0, Candidate("…", "as imported"), outcome(0.9)), 0.9)
    progress.called(TASK.key, [Call("openai", "m", "nominate", prompt_tokens=90, answer_tokens=10, cost=0.5)])
    progress.started(TASK.key, 1, CHANGE)
    progress.stage(TASK.key, 1, "audit")
    progress.finished(TASK.key, Attempt(1, CHANGE, outcome(0.5)), 0.5)
    progress.started(TASK.key, 2, CHANGE)
    progress.finished(TASK.key, Attempt(2, CHANGE, Outcome(Status.REPEATED, "as #1")), 0.5)
    progress.called(TASK.key, [Call("openai", "m", "nominate", error="429: slow\ndown")])
    progress.task(TASK, "done", "within 25% of the speed of light")
