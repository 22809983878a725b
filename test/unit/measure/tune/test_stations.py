"""What a station of a cluster is sent where the object store has no room."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tunelib

from mucc.build.cluster.connection import Cluster
from mucc.build.cluster.objects import SMALL, Objects
from mucc.build.cluster.versions import without_compilers
from mucc.measure.tune.cluster import Remote, Said, Station


class Called:
    """A method of an actor, called at once in this process."""

    def __init__(self, method: Callable[..., Any]):
        self.remote = method


class Full:
    """Ray with an object store that takes nothing."""

    class exceptions:
        class RayError(Exception):
            pass

        class ObjectStoreFullError(RayError):
            pass

        class OutOfDiskError(RayError):
            pass

    def put(self, data: bytes) -> None:
        raise self.exceptions.OutOfDiskError

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return references, []

    def get(self, reference: Any) -> Any:
        return reference


def test_libraries_reach_a_gpu_past_a_full_store(tmp_path: Path) -> None:
    """They go in pieces that no call has to put into the store."""
    ray: Any = Full()
    station = Station(tunelib.COMMAND, 60, None)
    sizes: list[int] = []

    def take(number: int, piece: bytes) -> None:
        sizes.append(len(piece))
        station.take(number, piece)

    actor: Any = Namespace(take=Called(take), whole=Called(station.whole))
    connected = Cluster(ray, without_compilers())
    remote = Remote(connected, Objects(ray), actor, Said("GPU 0"), "h100")
    file = tmp_path / "library.so"
    for data in (os.urandom(3 * SMALL + 5), b"small", os.urandom(SMALL), os.urandom(2 * SMALL)):
        file.write_bytes(data)
        assert Path(station.path(remote.library(str(file)))).read_bytes() == data
    assert sum(sizes) == 6 * SMALL + 5 and max(sizes) < SMALL
    station.folder.close()
