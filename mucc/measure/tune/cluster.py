"""GPUs of a Ray cluster: one actor for each GPU, which holds it until the search ends.

An actor measures as this machine would, through a process that launches kernels. Libraries reach it by their
contents, once. It keeps nothing: this process alone writes to the database, so that an actor that is lost
costs what it was measuring, and another measures that again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mucc.build.cluster.connection import Cluster, connect, imported, refusal
from mucc.build.cluster.objects import Objects, contents, digest_of, pieces
from mucc.build.cluster.versions import Versions, without_compilers
from mucc.build.jobs import AWAKE
from mucc.database.records import Record
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.measure.tune.gpus import Gpus, Lost, Together
from mucc.measure.tune.measuring import Measurer, Session, check_card
from mucc.measure.tune.plans import Candidate, Kernel, Size
from mucc.measure.tune.where import Where
from mucc.measure.tune.worker import Worker
from mucc.process import reaper

START = 180.0
"""Seconds that an actor gets to start and say what its GPU is; it imports torch."""

AGAIN = 60.0
"""Seconds to wait for a GPU in the place of one that was lost."""


class Said(NamedTuple):
    """What an actor says of itself; `problem` where it cannot measure."""

    place: str
    card: str = ""
    arch: str = ""
    driver: str = ""
    versions: Versions = without_compilers()
    problem: str = ""


class Measured(NamedTuple):
    """Records, or the diagnostics of a problem that cannot be measured."""

    records: list[Record]
    diagnostics: tuple[Diagnostic, ...] = ()


class Sent(NamedTuple):
    """Stand for a library that was sent in pieces, by the digest of its contents."""

    digest: str


class Station:
    """The actor: it measures on the GPU that Ray gave it."""

    def __init__(self, command: tuple[str, ...] | None, timeout: float, support: str | None):
        self.worker = Worker(command)
        self.timeout, self.support = timeout, support
        self.folder = contextlib.ExitStack()
        self.place = self.folder.enter_context(reaper.temporary_folder(tempfile.gettempdir()))
        self.pieces: list[bytes] = []
        self.session: Session | None = None

    def hello(self) -> Said:
        """Start the process that launches kernels, and describe GPU and machine."""
        node = str(imported().util.get_node_ip_address())
        where = f"GPU {os.environ.get('CUDA_VISIBLE_DEVICES', '?')} of {node}"
        try:
            said = self.worker.hello()
        except DiagnosticError as error:
            return Said(where, problem=str(error.diagnostics[0].message))
        self.session = Session(self.worker, said["card"], self.timeout, support=self.support)
        return Said(where, said["card"], said["arch"], driver_version(), without_compilers())

    def sweep(self, kernel: Kernel, size: Size, candidate: Candidate, library: Any) -> Measured:
        """Check and time a candidate."""
        assert self.session is not None
        try:
            return Measured([self.session.sweep(kernel, size, candidate, self.path(library))])
        except DiagnosticError as error:
            return Measured([], tuple(error.diagnostics))

    def final(self, kernel: Kernel, size: Size, finalists: Sequence[tuple[Candidate, Any]]) -> Measured:
        """Time candidates in turns."""
        assert self.session is not None
        try:
            entrants = [(candidate, self.path(library)) for candidate, library in finalists]
            return Measured(self.session.final(kernel, size, entrants))
        except DiagnosticError as error:
            return Measured([], tuple(error.diagnostics))

    def take(self, number: int, piece: bytes) -> None:
        """Keep piece `number` of a library, counted from 0; piece 0 begins another library."""
        self.pieces = [*self.pieces[:number], piece]

    def whole(self) -> Sent:
        """Write the library whose pieces were taken, and return what stands for it in later calls."""
        return Sent(self._written(b"".join(self.pieces)))

    def path(self, library: Any) -> str:
        """Write a library to this machine, once, and return its path."""
        sent = isinstance(library, Sent)
        return self._place(library.digest if sent else self._written(contents(imported(), library)))

    def _written(self, data: bytes) -> str:
        """Write a library unless it is there, and return its digest."""
        digest = digest_of(data)
        if not os.path.exists(path := self._place(digest)):
            with open(path, "wb") as file:
                file.write(data)
        return digest

    def _place(self, digest: str) -> str:
        return os.path.join(self.place, f"{digest}.so")


def driver_version() -> str:
    """Return the version of the NVIDIA driver of this machine; empty without one."""
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version", encoding="utf-8") as file:
        words = file.readline().split()
        return next((w for w in words if w[:1].isdigit() and "." in w), "")
    return ""


@dataclass
class Remote:
    """A measurer that asks an actor."""

    cluster: Cluster
    objects: Objects
    actor: Any
    said: Said
    card: str

    def sweep(self, kernel: Kernel, size: Size, candidate: Candidate, path: str) -> Record:
        """Check and time a candidate alone."""
        library = self.library(path)
        return self._ask(self.actor.sweep, _bare(kernel), size, candidate, library)[0]

    def final(self, kernel: Kernel, size: Size, finalists: Sequence[tuple[Candidate, str]]) -> list[Record]:
        """Time candidates in turns."""
        entrants = [(candidate, self.library(path)) for candidate, path in finalists]
        return self._ask(self.actor.final, _bare(kernel), size, entrants)

    def library(self, path: str) -> Any:
        """Return what stands for a library in a call, sent in pieces if the store is full. Raises Lost."""
        with open(path, "rb") as file:
            data = file.read()
        errors = self.cluster.ray.exceptions
        try:
            return self.objects.put(data)
        except (errors.ObjectStoreFullError, errors.OutOfDiskError):
            self.objects.drop()
        # Ray puts large arguments into the store too, so they go in pieces, which it sends with their calls.
        for number, piece in enumerate(pieces(data)):
            self.actor.take.remote(number, piece)
        return self._call(self.actor.whole)

    def _ask(self, method: Any, *args: Any) -> list[Record]:
        """Call a method that measures. Raises Lost where the actor is gone, and the actor's diagnostics."""
        answer: Measured = self._call(method, *args)
        if answer.diagnostics:
            raise DiagnosticError(answer.diagnostics)
        return answer.records

    def _call(self, method: Any, *args: Any) -> Any:
        """Call a method of the actor. Raises Lost where it is gone."""
        ray = self.cluster.ray
        try:
            reference = method.remote(*args)
            while not ray.wait([reference], timeout=AWAKE)[0]:
                pass
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            self.stop()
            raise Lost(f"{self.said.place}: {_first_line(error)}") from None

    def stop(self) -> None:
        """End the actor, and with it the lease of its GPU."""
        with contextlib.suppress(Exception):
            self.cluster.ray.kill(self.actor)


def _bare(kernel: Kernel) -> Kernel:
    """Return a kernel without its candidates, of which an actor needs one at a time."""
    import dataclasses

    return dataclasses.replace(kernel, candidates=())


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


@dataclass
class _Stations:
    """Starts actors, and chooses those whose times may be compared."""

    cluster: Cluster
    objects: Objects
    where: Where
    timeout: float
    support: str | None

    def start(self, count: int, seconds: float) -> tuple[list[Remote], list[str]]:
        """Start actors, and wait for them. Returns those that can measure, and why others cannot."""
        ray = self.cluster.ray
        remote = ray.remote(num_gpus=1, num_cpus=0, max_restarts=0)(Station)
        actors = [remote.remote(self.where.command, self.timeout, self.support) for _ in range(count)]
        answers = [actor.hello.remote() for actor in actors]
        until = time.monotonic() + seconds
        ready: list[Any] = []
        while len(ready) < count and time.monotonic() < until:  # short waits, for signals
            ready, _ = ray.wait(answers, num_returns=count, timeout=AWAKE)
        found: list[Remote] = []
        problems: list[str] = []
        for actor, answer in zip(actors, answers, strict=True):
            said = Said("a GPU", problem=f"it was not free, or did not start, for {seconds:.0f} s")
            if answer in ready:
                try:
                    said = ray.get(answer)
                except ray.exceptions.RayError as error:
                    said = Said("a GPU", problem=_first_line(error))
            one = Remote(self.cluster, self.objects, actor, said, said.card)
            if said.problem:
                one.stop()
                problems.append(f"{said.place}: {said.problem}")
            else:
                found.append(one)
        return found, problems

    def chosen(self, found: Sequence[Remote]) -> list[Remote]:
        """Keep the GPUs of one card and one driver, and warn of others, which are given back."""
        mine = without_compilers()
        fitting = [one for one in found if one.said.versions == mine]
        wanted = [one for one in fitting if _is_card(one.card, self.where.card)] or fitting
        kinds = Counter((one.said.card, one.said.driver) for one in wanted)
        card, driver = kinds.most_common(1)[0][0] if kinds else ("", "")
        kept: list[Remote] = []
        for one in found:
            differences = one.said.versions.differences(mine)
            if one.said.card != card:
                differences.append(f"the card is {one.said.card} there and {card} on others")
            elif one.said.driver != driver:
                differences.append(f"the driver is {one.said.driver} there and {driver} on others")
            if differences:
                one.stop()
                self.where.warn(refusal(one.said.place, differences))
            else:
                kept.append(one)
        return kept

    def replace(self, lost: Measurer) -> Measurer | None:
        """Return a GPU in the place of one that is gone; None where there is none of its kind."""
        assert isinstance(lost, Remote)
        found, _ = self.start(1, AGAIN)
        for one in found:
            if (one.said.card, one.said.driver, one.said.versions) == lost.said[1:2] + lost.said[3:5]:
                return one
            one.stop()
        return None


def _is_card(name: str, asked: str | None) -> bool:
    """Whether a card's full name is meant by a word such as h200."""
    return asked is None or asked.lower() in name.lower().replace("-", " ").split()


@contextlib.contextmanager
def opened(where: Where, target: str, timeout: float, support: str | None) -> Generator[Gpus]:
    """Yield the GPUs of a cluster that can measure for a target; gives them back.

    Raises DiagnosticError as `connect` does, MU5504 where no GPU fits, MU5312 for another than the target's.
    """
    assert where.ray is not None
    cluster = connect(where.ray)
    count = int(cluster.ray.cluster_resources().get("GPU", 0))
    if where.most is not None:
        count = min(count, where.most)
    stations = _Stations(cluster, Objects(cluster.ray), where, timeout, support)
    with contextlib.ExitStack() as stack:
        found, problems = stations.start(count, START) if count else ([], ["it has no GPU"])
        for one in found:
            stack.callback(one.stop)
        kept = stations.chosen(found)
        if where.card is not None and kept and not _is_card(kept[0].card, where.card):
            problems.append(f"it has no {where.card}")
            kept = []
        if not kept:
            message = "no machine of the cluster can measure"
            raise DiagnosticError(Diagnostic("MU5504", message, notes=tuple(problems)))
        check_card(target, kept[0].said.arch)
        yield stack.enter_context(Together(kept, stations.replace))
