"""Build the components of a run (store, evaluator, proposer, strategy) and start it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from mucc.agent import evaluate, profile, propose, search
from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.evaluator import Evaluator
from mucc.agent.core.progress import Progress
from mucc.agent.core.proposer import Proposer
from mucc.agent.core.strategy import Budget, Strategy
from mucc.agent.core.tasks import Task
from mucc.agent.engine.context import RunContext, SerializedProgress
from mucc.agent.engine.options import Options
from mucc.agent.engine.resume import Opened, import_missing, open_run
from mucc.agent.engine.task_threads import Ending, run_tasks, turns_of
from mucc.agent.importing.import_tasks import PRELOADED
from mucc.agent.report import live
from mucc.agent.store import TaskRecord
from mucc.api.json_types import Json
from mucc.api.machine import cores, get_card
from mucc.api.sandbox import Isolation

EPSILON, WINDOW = 0.25, 8
"""The default stop rules. Of the policies that `mucc-agent replay` tried on a run over our own problems
(bench/results/h200/agent.txt) these kept all but two thousandths of the speedup for 59 % of the attempts. 8
attempts are a round of the default budget."""

WORK = "work"
"""The subfolder of a run that holds libraries."""


@dataclass(frozen=True)
class RunRequest:
    """A request of the command line: the run's folder, problems, the options that were named, and the GPU of
    this machine."""

    folder: str
    problems: Sequence[str]
    asked: Json
    gpu: str
    command: str = "mucc-agent optimize"
    quiet: bool = False


def optimize(request: RunRequest, stream: TextIO) -> Ending:
    """Begin a run, or go on with it.

    Raises DiagnosticError for faults of the options, the problems or the machine, before any attempt.
    """
    card = get_card(request.asked.get("card", request.gpu))
    asked = {**request.asked, "card": card.device.key} if "card" in request.asked else dict(request.asked)
    defaults = Options(
        card=card.device.key,
        target=card.target.name,
        budget=Budget(epsilon=EPSILON, window=WINDOW),
        jobs=cores(),
    )
    opened = open_run(request.folder, request.problems, asked, defaults, request.command, _made)
    with opened.store:
        options = opened.options
        strategy, proposer = _made(options)
        progress: Progress = live.make(stream, quiet=request.quiet)
        with evaluate.make_zygote(*PRELOADED, isolation=Isolation(options.isolation)) as zygote:
            evaluator = evaluate.make(
                device=options.device,
                jobs=options.jobs,
                folder=os.path.join(request.folder, WORK),
                zygote=zygote,
            )
            try:
                records = import_missing(opened, zygote)
                return _run(request.folder, opened, records, evaluator, proposer, strategy, progress)
            finally:
                evaluator.close()


def _made(options: Options) -> tuple[Strategy, Proposer]:
    """Make the strategy and the proposer. Raises DiagnosticError for options that do not fit."""
    strategy = search.make(options.strategy, options.budget, options.constants)
    return strategy, propose.make(options.proposer, options.settings)


def _run(
    folder: str,
    opened: Opened,
    records: Sequence[TaskRecord],
    evaluator: Evaluator,
    proposer: Proposer,
    strategy: Strategy,
    progress: Progress,
) -> Ending:
    store, options = opened.store, opened.options

    def analyze(task: Task, attempt: Attempt, library: str | None) -> Analysis:
        outcome = attempt.outcome
        return profile.analyze(
            task,
            attempt.candidate.program,
            library,
            device=options.device,
            ms=outcome.ms,
            diagnostics=outcome.diagnostics,
        )

    turns = turns_of(store, options, records)
    context = RunContext(
        store, folder, options, evaluator, proposer, strategy, analyze, SerializedProgress(progress), turns
    )
    return run_tasks(context, records)
