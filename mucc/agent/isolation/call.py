"""Call functions in processes of their own, which end with all that the functions started.

{"call": "mucc.agent.importing.child:import_task", "shown": "mlp.py", "memory": …, "arguments": {…}}
    -> {"answer": …} or {"errors": […]}
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any

from mucc.agent.isolation.line import Line
from mucc.agent.isolation.problems import problem_error
from mucc.agent.isolation.process import TORCH, Child, ChildFailed
from mucc.agent.isolation.zygote import Zygote
from mucc.api import processes
from mucc.api.importer import answered, error_from_json, limit_process

MODULE = "mucc.agent.isolation.call"
"""The module that a child runs."""


class Call:
    """A call of a function on a problem file, without a GPU; messages call the file `shown`.

    `function` is `module:name`; its arguments and what it returns are values of JSON. It has so many seconds,
    and so many bytes of memory beside what torch takes. Raises DiagnosticError where there can be no process.
    """

    def __init__(
        self, zygote: Zygote, function: str, shown: str, *, seconds: float, memory: int, **arguments: Any
    ):
        self.shown = shown
        with ExitStack() as stack:
            folder = stack.enter_context(processes.temporary_folder(tempfile.gettempdir()))
            env = {"CUDA_VISIBLE_DEVICES": ""}
            child = Child(zygote, MODULE, folder, seconds, memory + TORCH["cpu"], env)
            self._child = stack.enter_context(child)
            asked = {"call": function, "shown": shown, "memory": memory, "arguments": arguments}
            try:
                child.tell(asked)
            except ChildFailed as failed:
                raise problem_error(shown, failed) from None
            self._held = stack.pop_all()

    def result(self) -> Any:
        """Return the result once it is there, and clean up. Raises DiagnosticError: the call's own, and
        MU7013 to MU7015 and MU7214 if it ends otherwise.
        """
        with self:
            try:
                answer = self._child.answer()
            except ChildFailed as failed:
                raise problem_error(self.shown, failed) from None
            if "errors" in answer:
                raise error_from_json(answer["errors"])
            return answer["answer"]

    def close(self) -> None:
        """End the process."""
        self._held.close()

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(line: Line) -> None:
    """Execute requested calls. Runs in a child."""
    for request in line.requests():
        module, _, name = request["call"].partition(":")
        function = partial(getattr(import_module(module), name), **request["arguments"])
        limit_process(request["memory"])
        line.say(answered(request["shown"], function))
