"""Start the judge's process and the candidate's, and send requests to them, such as series of timed calls."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from mucc.agent.audit.looking import Looker
from mucc.agent.audit.observations import operations_from
from mucc.agent.audit.options import Options
from mucc.agent.audit.runs import CandidateFailed, TooBusy
from mucc.agent.isolation.priority import AHEAD, first
from mucc.agent.isolation.problems import problem_error
from mucc.agent.isolation.process import TORCH, Child, ChildFailed, in_turn
from mucc.agent.isolation.zygote import Zygote
from mucc.api.importer import Request, error_from_json
from mucc.api.json_types import Json
from mucc.api.processes import PROCESSORS, waited_for_others

WAKING = 5e-5
"""Seconds until a process that was stopped runs again."""


class Processes:
    """The judge's process and the candidate's, which share a socket and memory, and their parent's requests.

    `device` is where the solution runs, and `seconds` says how long each phase took.
    """

    judge: Child
    candidate: Child

    def __init__(self, zygote: Zygote, request: Request, options: Options, folder: str):
        self.zygote, self.request, self.options, self.folder = zygote, request, options, folder
        self.device = options.device
        self.seconds: dict[str, float] = {}
        self._held: list[Child] = []
        self._waited = 0.0
        """Seconds that the candidate's threads waited for a processor in timed calls."""
        self._looker: Looker | None = None

    def _child(self, module: str, wire: socket.socket, **more: Any) -> Child:
        memory = (self.options.memory_limit << 20) + TORCH["cuda" if self.device != "cpu" else "cpu"]
        folder = os.path.join(self.folder, module)
        os.mkdir(folder)
        name, seconds = f"mucc.agent.audit.{module}", self.options.time_limit
        child = Child(self.zygote, name, folder, seconds, memory, shared=wire.fileno(), **more)
        self._held.append(child)
        return child

    def close(self) -> None:
        """End the processes."""
        for child in self._held:
            child.__exit__()
        self._held.clear()

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time a phase of the audit for the verdict."""
        started = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started

    @contextmanager
    def turn(self, turn: Callable[[], AbstractContextManager[None]]) -> Generator[None]:
        """Wait for the turn on the GPU and hold it."""
        if self.device == "cpu":
            yield
            return
        with in_turn(turn) as waited:
            self.seconds["candidate.wait"] = self.seconds.get("candidate.wait", 0.0) + waited
            yield

    # Requests

    def ask(self, **request: Any) -> Json:
        """Return the answer of the judge's process to a request. Raises DiagnosticError if it fails,
        CandidateFailed where it cannot speak to the candidate's."""
        self._begin(request)
        answer = self.answered()
        if "closed" in answer:
            raise CandidateFailed("its process closed its connection to the judge")
        return answer

    def _begin(self, request: Json) -> None:
        """Send a request to the judge's process without waiting for its answer."""
        try:
            self.judge.tell(request)
        except ChildFailed as failed:
            raise self._error(failed) from None

    def _tell(self, **request: Any) -> Json:
        """Send a request to the candidate's process, and return its answer."""
        answer = self.candidate.ask(**request)
        if "failed" in answer:
            raise CandidateFailed(f"the solution raised {answer['failed']}")
        return answer

    def _lend(self, answer: Json) -> Json:
        """Let the candidate's process take over the memory that the judge has lent."""
        for _ in range(answer.pop("lent")):
            self._tell(do="borrow")
        return answer

    # Series of timed calls

    def _tell_series(self, **request: Any) -> Json:
        """Let both processes make a series of timed calls; returns times and observed operations."""
        before = self.candidate.charged
        for child in (self.judge, self.candidate):
            child.prefer(AHEAD)  # of what is not timed
        self._begin(request)
        with ThreadPoolExecutor(1) as pool:
            led = pool.submit(self._led)
            try:
                self.candidate.tell({"do": "series"})
                answer = self.candidate.answer(self.judge)
            except BaseException:
                self.candidate.close()  # or the judge's process would wait for it, and `led` for that
                raise
            found = led.result()
        for child in (self.judge, self.candidate):
            child.prefer(0)
        if "failed" in answer:
            raise CandidateFailed(f"the solution raised {answer['failed']}")
        silent = float(found.get("silent", 0.0))
        if silent and self.candidate.charged - before < silent / 2:
            raise TooBusy(f"while it was timed its process {found['ended']}, which other work took")
        if found.get("ended"):
            raise CandidateFailed(f"while it was timed its process {found['ended']}")
        told = operations_from(answer.get("operations") or ())
        return found | {"operations": told, "us": answer.get("us") or ()}

    def _led(self) -> Json:
        """Return the answer of the judge's process to a series.

        Until then, stop the candidate's process and let it go on as the judge's process requests.
        """
        with first():
            return self._leading()

    def _leading(self) -> Json:
        before, begun, looks = (0, 0), 0.0, list[float]()
        looker = self._looker = self._looker or Looker(self.candidate)
        looker.open()
        while True:
            answer = self.answered(counts=False)
            if "hold" in answer:
                looker.stop()
                self._begin({"held": True})
            elif "go" in answer and "name" in answer:
                looks = answer["look"]
                before, begun = self.candidate.scheduled_ns(), time.monotonic()
                started = looker.start(answer["name"])
                looker.look(answer["name"], started, looks, self.judge.has_answer)
                self._begin({"at": started})  # read when the call has ended
            elif "go" in answer:
                self._begin({"at": looker.go_on()})
            elif "peek" in answer:
                self._begin({"data": looker.read(answer["peek"])})
            elif "begins" in answer:
                looker.begins(answer["begins"])
                self._begin({"begun": True})
            elif "ends" in answer:
                looker.ended()
            elif "look" in answer:
                looker.look(answer["name"], time.perf_counter_ns(), answer["look"])
            elif "done" not in answer:
                return answer
            elif not looks:
                wall, now = time.monotonic() - begun, self.candidate.scheduled_ns()
                on, waited = ((there - here) / 1e9 for here, there in zip(before, now, strict=True))
                self._waited += waited_for_others(max(waited - WAKING, 0.0), on, wall * PROCESSORS)

    def answered(self, *, counts: bool = True) -> Json:
        """Return the answer of the judge's process. Unless it `counts`, that waits for the candidate's."""
        try:
            answer = self.judge.answer(counts=counts)
        except ChildFailed as failed:
            raise self._error(failed) from None
        if "errors" in answer:
            raise error_from_json(answer["errors"])
        return answer

    def _error(self, failed: ChildFailed) -> Exception:
        """Return the error of a judge's process that gave no answer: the problem's, or the machine's."""
        if failed.cause == "busy":
            return TooBusy(f"the process that ran {self.request.shown} {failed.reason}")
        return problem_error(self.request.shown, failed, limits=True)
