"""Audit candidates, which decides whether they count."""

from __future__ import annotations

import tempfile
import threading
import time
from dataclasses import dataclass

from mucc.agent.audit.auditing import Auditor
from mucc.agent.audit.bound import lowest
from mucc.agent.audit.findings import Label
from mucc.agent.audit.options import Options
from mucc.agent.audit.solutions import Solution
from mucc.agent.core.attempts import VerdictJson
from mucc.agent.core.tasks import PROGRAM_FILE, Task
from mucc.agent.evaluate.settings import Settings
from mucc.agent.evaluate.workspace import lay_out
from mucc.agent.isolation.zygote import Zygote
from mucc.api import processes
from mucc.api.machine import Room, out_of_memory


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of an audit, and its time in seconds."""

    accepted: bool
    label: str
    reason: str
    verdict: VerdictJson
    seconds: float


class Judge:
    """Audits candidates."""

    def __init__(self, zygote: Zygote, room: Room, settings: Settings):
        self.auditor, self.room, self.settings = Auditor(zygote), room, settings
        self._seats = threading.Semaphore(settings.together)

    def judge(self, task: Task, device: str, program: str, library: str | None) -> Judged:
        """Audit a candidate. Raises DiagnosticError where the audit cannot be made."""

        def judged() -> Judged:
            return self._judged(task, device, program, library)

        with self._seats:
            return self.room.within(task.gpu_memory, judged, lambda found: out_of_memory(found.reason))

    def _judged(self, task: Task, device: str, program: str, library: str | None) -> Judged:
        started = time.monotonic()
        bound = lowest(task.sol, task.precision) if "assumptions" in task.sol else None
        options = Options(
            device="cpu" if device == "cpu" else "cuda",
            card=task.card,
            precision=task.precision,
            time_limit=self.settings.audit_seconds,
            memory_limit=self.settings.memory,
            bound=bound is not None,
            known=bound,
        )
        with processes.temporary_folder(tempfile.gettempdir()) as folder:
            driver = lay_out(folder, task, program, library)
            solution = Solution(driver, PROGRAM_FILE, None, is_library=library is not None)
            verdict = self.auditor.judge(task.path, task.text, solution, options)
            if verdict.label is Label.INCONCLUSIVE:
                verdict = self.auditor.judge(task.path, task.text, solution, options)
        grave = ("reject", "unsure")
        reasons = [f"{f.detector}: {f.message}" for f in verdict.findings if f.severity in grave]
        if verdict.failure:
            reasons = [verdict.failure.message]
        reason = "; ".join(reasons)
        return Judged(
            verdict.accepted, verdict.label.value, reason, verdict.to_json(), time.monotonic() - started
        )
