"""Puts a run together out of the parts of the agent, and carries it out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from mucc.agent import evaluate, profile, propose, search
from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.evaluating import Evaluator
from mucc.agent.core.progress import Progress
from mucc.agent.core.proposing import Proposer
from mucc.agent.core.searching import Budget, Strategy
from mucc.agent.core.tasks import Task
from mucc.agent.engine.opening import Opened, import_missing, open_run
from mucc.agent.engine.options import Options
from mucc.agent.engine.parts import OneAtATime, Parts
from mucc.agent.engine.running import Ending, run_tasks, turns_of
from mucc.agent.importing.importing import PRELOADED
from mucc.agent.report import live
from mucc.agent.store import TaskRecord
from mucc.api.machine import cores, get_card

EPSILON, WINDOW = 0.25, 8
"""The stop rules by themselves: of the policies that `mucc-agent replay` tried on a run over our own problems
(bench/results/h200/agent.txt) these kept all but two thousandths of the speedup for 59 % of the attempts. 8
attempts are a round of the default budget."""

WORK = "work"
"""The folder in that of a run where libraries are."""


@dataclass(frozen=True)
class Wishes:
    """What the command line says: the folder of the run, problems, the options that were named, the GPU at
    hand."""

    folder: str
    problems: Sequence[str]
    asked: dict[str, Any]
    gpu: str
    command: str = "mucc-agent optimize"
    quiet: bool = False


def carry_out(wishes: Wishes, stream: TextIO) -> Ending:
    """Begin a run, or go on with it. Raises DiagnosticError before anything is spent for what is wrong with
    the options, the problems or the machine."""
    card = get_card(wishes.asked.get("card", wishes.gpu))
    asked = {**wishes.asked, "card": card.device.key} if "card" in wishes.asked else dict(wishes.asked)
    defaults = Options(
        card=card.device.key,
        target=card.target.name,
        budget=Budget(epsilon=EPSILON, window=WINDOW),
        jobs=cores(),
    )
    opened = open_run(wishes.folder, wishes.problems, asked, defaults, wishes.command, _made)
    with opened.store:
        options = opened.options
        strategy, proposer = _made(options)
        progress: Progress = live.make(stream, quiet=wishes.quiet)
        with evaluate.make_zygote(*PRELOADED) as zygote:
            evaluator = evaluate.make(
                device=options.device,
                jobs=options.jobs,
                folder=os.path.join(wishes.folder, WORK),
                zygote=zygote,
            )
            try:
                records = import_missing(opened, zygote)
                return _run(wishes.folder, opened, records, evaluator, proposer, strategy, progress)
            finally:
                evaluator.close()


def _made(options: Options) -> tuple[Strategy, Proposer]:
    """Who searches, and who proposes. Raises DiagnosticError for options that do not fit."""
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
    parts = Parts(store, folder, options, evaluator, proposer, strategy, analyze, OneAtATime(progress), turns)
    return run_tasks(parts, records)
