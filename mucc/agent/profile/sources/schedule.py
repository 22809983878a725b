"""Read the schedules that the compiler chose and their bounds: `mucc --explain-schedule` and `mucc sol`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mucc.agent.profile.commands import CommandFailed, run_mucc
from mucc.agent.profile.sources import Reading, Request
from mucc.api.json_types import ExplanationJson, SolReport, from_json

T = TypeVar("T")


class Schedule:
    """Schedules with their estimates, and the speed of light of each kernel with its stages."""

    name = "schedule"

    def read(self, asked: Request) -> Reading:
        dims = ",".join(f"{name}={value}" for name, value in asked.given.items())
        sized = [f"--dims={dims}"] if dims else []
        explain = ["-", "--explain-schedule", "--json", f"--target={asked.target}", *sized]
        sol = ["sol", "-", "--json", f"--device={asked.card}", *sized]
        missing: list[str] = []

        def ask(kind: type[T], arguments: Sequence[str]) -> list[T]:
            try:
                found = json.loads(run_mucc(arguments, asked.time_limit, asked.program))
                return from_json(list[kind], found if isinstance(found, list) else [found])
            except (CommandFailed, ValueError) as error:
                missing.append(f"schedule: {error}")
                return []

        with ThreadPoolExecutor(2) as threads:
            explained = threads.submit(ask, ExplanationJson, explain)
            bounds = threads.submit(ask, SolReport, sol)
        return Reading(explained=explained.result(), sol=bounds.result(), missing=missing)
