"""A run as plain values, for programs."""

from __future__ import annotations

from mucc.agent.report.figures import figures, overhead, row_of, seconds
from mucc.agent.report.reading import Run
from mucc.agent.report.trajectory import points
from mucc.api.json_types import Json, to_json


def as_json(run: Run) -> Json:
    """Return the run for programs: docs/agent/report.md says what is in it."""
    rows = [row_of(task) for task in run.tasks]
    spent_s = seconds(rows)
    return {
        "run": run.name,
        "info": to_json(run.info),
        "ended": run.ended,
        "figures": figures(rows),
        "seconds": spent_s,
        "overhead": overhead(spent_s),
        "tasks": [
            row.to_json()
            | {
                "best": to_json(task.best),
                "trajectory": [to_json(point) for point in points(task)],
            }
            for row, task in zip(rows, run.tasks, strict=True)
        ],
    }
