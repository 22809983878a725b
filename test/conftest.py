"""What all tests share.

Nothing that was measured on this machine changes what they compile. Processes that tests start hear of Ctrl-C
also where a shell has put the tests into the background. Where tests run side by side, each takes one core.
Garbage is collected rarely, and never among what all tests share: modules and the tests themselves.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile

import pytest

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with builds by nvcc first, then those about PyTorch.

    They take longest, and processes take one file after another (`--dist loadscope`).
    """
    builds = {item.path for item in items if item.get_closest_marker("nvcc")}
    items.sort(key=lambda item: (item.path not in builds, "torch" not in item.path.parts))
