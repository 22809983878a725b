"""Reports of Nsight Compute, read by NVIDIA's package `ncu-report`, where it is installed (`mucc[profile]`).

A report has numbers as they were measured; the CSV that ncu prints has them rounded, and as text. Where the
package is missing, or is older than the ncu that wrote the report, the CSV is read instead.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mucc.agent.profile.sources import Launch

PACKAGE = "ncu_report"
NAME = "report"
SUFFIX = ".ncu-rep"


def is_installed() -> bool:
    """Whether reports can be read."""
    return importlib.util.find_spec(PACKAGE) is not None


def read(folder: Path) -> list[Launch]:
    """Return the launches of the report that ncu wrote to a folder; none where there is none to be read."""
    path = folder / f"{NAME}{SUFFIX}"
    if not path.exists() or not is_installed():
        return []
    package: Any = importlib.import_module(PACKAGE)
    try:
        return list(_launches(package.load_report(str(path))))
    except Exception:  # of what kind, the package does not say
        return []


def _launches(report: Any) -> Iterator[Launch]:
    for number in range(report.num_ranges()):
        actions = report.range_by_idx(number)
        for index in range(actions.num_actions()):
            yield _launch(actions.action_by_idx(index))


def _launch(action: Any) -> Launch:
    counters: dict[str, float] = {}
    for name in action.metric_names():
        metric = action.metric_by_name(name)
        if "__" in name and metric is not None and metric.has_value() and _is_number(metric):
            counters[name] = float(metric.as_double())
    kernel = re.split(r"[(<\s]", action.name().removeprefix("void ").strip(), maxsplit=1)[0]
    return Launch(kernel, _size(counters, "grid"), _size(counters, "block"), counters)


def _is_number(metric: Any) -> bool:
    kinds = (
        metric.ValueKind_DOUBLE,
        metric.ValueKind_FLOAT,
        metric.ValueKind_UINT32,
        metric.ValueKind_UINT64,
    )
    return metric.kind() in kinds


def _size(counters: dict[str, float], what: str) -> str:
    """Return the extents of a grid or a block as ncu prints them; empty where it did not count them."""
    sizes = [counters.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
    return "" if None in sizes else f"({', '.join(str(int(size or 0)) for size in sizes)})"
