"""What all tests share.

Nothing that was measured on this machine changes what they compile. Processes that tests start hear of Ctrl-C
also where a shell has put the tests into the background. Where tests run side by side, each takes one core.
Garbage is collected rarely, and never among what all tests share: modules and the tests themselves.
"""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mucc.files.atomic import replace_file

TIMES = Path(__file__).parents[1] / "build" / "test-times.json"
"""Seconds of each file of tests in the last run of all."""

_seconds: Counter[str] = Counter()

os.environ["MUCC_TUNING_DB"] = os.path.join(tempfile.gettempdir(), "mucc-tests-have-none", "tuning.db")

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector begin, with what is created from here on.

    A worker has 700,000 objects by now, and full collections would go through all of them some 30 times.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files first that took longest in the last run of all tests, as `lit` does with its own.

    Workers take one file after another (`--dist loadscope`), and one that begins a long file last would end
    alone. Files without a time come before others: those with builds by nvcc, then those about PyTorch. Tests
    that need a GPU alone come before all, for a process that has used it does so to its end.
    """
    seconds = getattr(config, "workerinput", {}).get(TIMES.name) or _recorded_seconds()
    builds = {item.path for item in items if item.get_closest_marker("nvcc")}
    items.sort(
        key=lambda item: (
            item.get_closest_marker("alone") is None,
            -seconds.get(_file(item.nodeid), math.inf),
            item.path not in builds,
            "torch" not in item.path.parts,
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hand the times to a worker, so that all workers collect tests in one order."""
    node.workerinput[TIMES.name] = _recorded_seconds()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what a file takes."""
    _seconds[_file(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Record the times of a run of all tests by several workers."""
    config = session.config
    is_whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS and not config.getoption("keyword")
    if is_whole and config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        TIMES.parent.mkdir(exist_ok=True)
        replace_file(str(TIMES), json.dumps({f: round(t, 2) for f, t in _seconds.items()}, indent=1).encode())


def _recorded_seconds() -> dict[str, float]:
    try:
        return json.loads(TIMES.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]
