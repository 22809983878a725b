"""What the compiler resolved, and what its models say of it: `mucc --explain-schedule` and `mucc sol`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from mucc.agent.profile.commands import CommandFailed, run_mucc
from mucc.agent.profile.sources import Reading, Request


class Schedule:
    """Schedules with their estimates, and the speed of light of each kernel with its stages."""

    name = "schedule"

    def read(self, asked: Request) -> Reading:
        dims = ",".join(f"{name}={value}" for name, value in asked.given.items())
        sized = [f"--dims={dims}"] if dims else []
        explain = ["-", "--explain-schedule", "--json", f"--target={asked.target}", *sized]
        sol = ["sol", "-", "--json", f"--device={asked.card}", *sized]
        missing: list[str] = []

        def ask(arguments: Sequence[str]) -> list[Mapping[str, Any]]:
            try:
                found = json.loads(run_mucc(arguments, asked.time_limit, asked.program))
            except (CommandFailed, ValueError) as error:
                missing.append(f"schedule: {error}")
                return []
            return cast("list[Mapping[str, Any]]", found if isinstance(found, list) else [found])

        with ThreadPoolExecutor(2) as threads:
            explained, bounds = threads.map(ask, (explain, sol))
        return Reading(explained=explained, sol=bounds, missing=missing)
