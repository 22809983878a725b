"""Time a task's baselines and a candidate in one process in turns: the parent's side of
`comparison_child`."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import nullcontext

from mucc.agent.core.evaluator import Comparison
from mucc.agent.core.tasks import PROBLEM_FILE, Task
from mucc.agent.evaluate.execution import Turn
from mucc.agent.evaluate.protocol import Compared, Compiled
from mucc.agent.evaluate.settings import Settings
from mucc.agent.evaluate.workspace import lay_out
from mucc.agent.isolation.problems import problem_error
from mucc.agent.isolation.process import TORCH, Child, ChildFailed
from mucc.agent.isolation.zygote import Zygote
from mucc.api import processes
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.json_types import Json, from_json
from mucc.api.machine import Room, exclusive_gpu, out_of_memory, shared_gpu

CANDIDATE = "mucc"


class Comparer:
    """Times baselines and candidates. A folder keeps the caches of torch.compile from process to process."""

    def __init__(self, zygote: Zygote, folder: str, room: Room, settings: Settings):
        self.zygote, self.room, self.settings = zygote, room, settings
        names = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        self.env = {variable: os.path.join(folder, name) for variable, name in names.items()}
        self._seats = threading.Semaphore(settings.together)

    def compare(self, task: Task, device: str, program: str | None, library: str | None) -> Comparison:
        """Time the baselines of a task, and a built program if one is given.

        Raises DiagnosticError where the baselines end their process, or hang.
        """

        def compared() -> Comparison:
            return self._compared(task, device, program, library)

        try:
            with self._seats:
                return self.room.within(task.gpu_memory, compared, _short)
        except ChildFailed as failed:
            if program is None:
                raise problem_error(task.path, failed) from None
            without = self.compare(task, device, None, None)
            said = {CANDIDATE: f"its process {failed.reason}"}
            return Comparison(without.ms, {**without.failed, **said})

    def _compared(self, task: Task, device: str, program: str | None, library: str | None) -> Comparison:
        settings = self.settings
        memory = settings.memory_bytes + TORCH["cpu" if device == "cpu" else "cuda"]
        module = "mucc.agent.evaluate.comparison_child"
        with processes.temporary_folder(tempfile.gettempdir()) as folder:
            driver = lay_out(folder, task, program or "", library)
            for cache in self.env.values():
                os.makedirs(cache, exist_ok=True)
            seconds, caches = settings.compare_seconds, [*self.env.values()]
            with Child(self.zygote, module, folder, seconds, memory, self.env, writable=caches) as child:
                asked: Json = {
                    "problem": os.path.join(folder, PROBLEM_FILE),
                    "driver": driver if program is not None else None,
                    "device": "cpu" if device == "cpu" else "cuda",
                    "tf32": task.precision == "tf32",
                }
                with _turn(device, shared_gpu)():
                    said = child.ask(do="open", **asked)
                if "raised" in said:
                    message = f"{task.path} raised {said['raised']}"
                    raise DiagnosticError(Diagnostic("MU7012", message))
                # For long, and mostly not on the GPU.
                failed = from_json(Compiled, child.ask(do="compile"))["failed"]
                with _turn(device, exclusive_gpu)():
                    most, fewest = settings.compare_runs, settings.fewest
                    said = child.ask(do="time", budget_ms=settings.compare_ms, fewest=fewest, most=most)
        return Comparison(from_json(Compared, said)["ms"], failed)


def _short(found: Comparison) -> bool:
    return any(map(out_of_memory, found.failed.values()))


def _turn(device: str, turn: Turn) -> Turn:
    return nullcontext if device == "cpu" else turn
