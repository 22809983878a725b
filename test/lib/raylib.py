"""Clusters of Ray for tests: several machines by name, processes of this one in fact."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator, Mapping
from typing import Any

import pytest

STORE = 80 << 20
"""Bytes of a machine's object store, the least that Ray takes."""


class Machines:
    """A cluster: `add` starts a machine, `lose` ends one without warning."""

    def __init__(self, head: Mapping[str, Any]):
        cluster_utils = pytest.importorskip("ray.cluster_utils")
        common = {"object_store_memory": STORE, "include_dashboard": False}
        self.cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**common, **head})
        self.address = str(self.cluster.address)

    def add(self, **resources: Any) -> Any:
        return self.cluster.add_node(object_store_memory=STORE, **resources)

    def lose(self, node: Any) -> None:
        self.cluster.remove_node(node, allow_graceful=False)

    def close(self) -> None:
        from mucc.build.cluster.connection import disconnect

        disconnect()
        self.cluster.shutdown()


@contextlib.contextmanager
def machines(**head: Any) -> Generator[Machines]:
    """A cluster with a head; no signal handlers of Ray stay behind."""
    pytest.importorskip("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    made = Machines(head)
    try:
        yield made
    finally:
        made.close()
        for number, handler in handlers.items():
            signal.signal(number, handler)
