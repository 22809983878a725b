"""Check and time candidates, each in its own process: the parent's side of `execution_child`."""

from __future__ import annotations

import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from mucc.agent.core.attempts import Status
from mucc.agent.core.tasks import Task
from mucc.agent.evaluate.protocol import Checked, Loaded, Timed
from mucc.agent.evaluate.settings import Settings
from mucc.agent.evaluate.timing import spread
from mucc.agent.evaluate.workspace import lay_out, request_of
from mucc.agent.isolation.problems import problem_error
from mucc.agent.isolation.process import TORCH, Child, ChildFailed, in_turn
from mucc.agent.isolation.zygote import Zygote
from mucc.api import processes
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import error_from_json
from mucc.api.json_types import Json, from_json
from mucc.api.machine import Room, exclusive_gpu, shared_gpu

SEEDS = 2**31

SLOW = 0.3
"""Seconds of a reference in float64 above which later candidates of the task are checked without one."""

STATUS = {"raised": Status.RAISED, "memory": Status.OUT_OF_MEMORY, "fault": Status.CRASHED}

T = TypeVar("T")

Turn = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a run; times in ms."""

    status: Status
    reason: str = ""
    ms: float | None = None
    spread_ms: float | None = None
    facts: Json = field(default_factory=Json)
    printed: str = ""
    seconds: dict[str, float] = field(default_factory=dict[str, float])


class _Failed(Exception):
    """The candidate failed, with this result."""

    def __init__(self, ran: Ran):
        super().__init__(ran.reason)
        self.ran = ran


class Runner:
    """Runs candidates in parallel, and times one at a time."""

    def __init__(self, zygote: Zygote, device: str, room: Room, settings: Settings):
        self.zygote, self.device, self.room, self.settings = zygote, device, room, settings
        self._seats = threading.Semaphore(settings.together)
        self._noise: dict[tuple[str, str], float] = {}

    def run(self, task: Task, program: str, library: str | None) -> Ran:
        """Check and time a candidate. Raises DiagnosticError where the problem file or the machine is at
        fault."""

        def tried() -> Ran:
            return self._tried(task, program, library)

        with self._seats:
            return self.room.within(task.gpu_memory, tried, lambda ran: ran.status is Status.OUT_OF_MEMORY)

    def _tried(self, task: Task, program: str, library: str | None) -> Ran:
        started = time.monotonic()
        with processes.temporary_folder(tempfile.gettempdir()) as folder:
            driver = lay_out(folder, task, program, library)
            seconds = {"wait": 0.0}
            with self._child(folder) as child:
                try:
                    ran = self._trial(task, child, driver, folder, seconds)
                except _Failed as failed:
                    ran = failed.ran
                except (KeyError, TypeError, ValueError) as error:
                    ran = Ran(Status.CRASHED, f"its process gave an answer that is none: {error!r}"[:300])
                except ChildFailed as failed:
                    ran = Ran(status_of(failed), f"its process {failed.reason}", printed=failed.printed)
                printed = ran.printed or child.printed()
        seconds["run"] = time.monotonic() - started - seconds["wait"]
        return Ran(ran.status, ran.reason, ran.ms, ran.spread_ms, ran.facts, printed, seconds)

    def _child(self, folder: str) -> Child:
        settings = self.settings
        memory = settings.memory_bytes + TORCH["cpu" if self.device == "cpu" else "cuda"]
        return Child(
            self.zygote, "mucc.agent.evaluate.execution_child", folder, settings.open_seconds, memory
        )

    def _trial(self, task: Task, child: Child, driver: str, folder: str, seconds: dict[str, float]) -> Ran:
        settings = self.settings
        self._open(task, child, folder)
        child.allow(settings.run_seconds)
        _ask(child, Loaded, do="load", driver=driver)
        key = (task.text, task.precision)
        with in_turn(self._turn(shared_gpu)) as waited:
            seconds["wait"] += waited
            child.allow(settings.run_seconds)
            seed = secrets.randbelow(SEEDS)
            said = _ask(
                child, Checked, do="check", precision=task.precision, seed=seed, noise=self._noise.get(key)
            )
        if not said["correct"]:
            raise _Failed(Ran(Status.WRONG, said["why"], facts={"excess": said["excess"]}))
        if (said["exact_seconds"] or 0.0) > SLOW:
            self._noise[key] = said["noise"]
        with in_turn(self._turn(exclusive_gpu)) as waited:
            seconds["wait"] += waited
            child.allow(settings.run_seconds)
            budget = {"budget_ms": settings.time_ms, "fewest": settings.fewest, "most": settings.runs}
            times = _ask(child, Timed, do="time", **budget)["times"]
        facts = {"excess": said["excess"], "runs": len(times)}
        return Ran(Status.GOOD, "", median(times), spread(times), facts)

    def _turn(self, turn: Turn) -> Turn:
        return nullcontext if self.device == "cpu" else turn

    def _open(self, task: Task, child: Child, folder: str) -> None:
        """Load the problem file in the child. Raises DiagnosticError: failures here are the problem's
        fault."""
        try:
            said = child.ask(
                do="open",
                problem=request_of(task, folder).to_json(),
                device=self.device,
                memory=self.settings.memory_bytes,
                output=self.settings.output << 20,
            )
        except ChildFailed as failed:
            raise problem_error(task.path, failed) from None
        if "errors" in said:
            raise error_from_json(said["errors"])
        if "failed" in said:
            message = f"the process that ran {task.path} raised {said['failed']}"
            raise DiagnosticError(Diagnostic("MU7015", message))
        if said["device"] != self.device and self.device != "auto":
            helps = ("candidates run on the GPU that they are for",)
            raise DiagnosticError(
                Diagnostic("MU7101", f"no GPU to evaluate on: {said['reason']}", helps=helps)
            )
        self.device = str(said["device"])


def _ask(child: Child, kind: type[T], **request: Any) -> T:
    """Send a request, and return its answer. Raises _Failed for faults of the candidate, DiagnosticError for
    the problem.
    """
    said = child.ask(**request)
    if "errors" in said:
        raise error_from_json(said["errors"])
    if outside := said.get("outside"):
        raise _Failed(Ran(Status.RAISED, f"it writes outside its folder: {outside[0]}"))
    if "failed" in said:
        raise _Failed(Ran(STATUS.get(said["kind"], Status.RAISED), str(said["failed"])))
    return from_json(kind, said)


def status_of(failed: ChildFailed) -> Status:
    """Return the status of a candidate whose process gave no answer."""
    if failed.cause in ("time", "busy"):
        return Status.TIMED_OUT
    if failed.cause == "memory" or (failed.cause == "ended" and failed.status == -signal.SIGKILL):
        return Status.OUT_OF_MEMORY
    return Status.CRASHED
