"""Use a command that reads a prompt on stdin and answers on stdout as a model."""

from __future__ import annotations

import os
import shlex
import shutil

from mucc.agent.core.command import run
from mucc.agent.propose.llm.endpoint import Answer, EndpointError, Prompt, Tool
from mucc.agent.propose.llm.options import Options
from mucc.agent.propose.llm.redaction import redact
from mucc.api.diagnostics import Diagnostic, DiagnosticError, usage_error

LONGEST = 4 << 20
"""Bytes of the longest answer."""

TOLD = 300
"""Characters of its stderr that messages quote."""


class Command:
    """A program, with its arguments; started anew for each prompt, and ended with all that it started."""

    provider = "command"
    has_tools = False

    def __init__(self, options: Options, longest: int = LONGEST):
        assert options.command is not None
        try:
            self._words = shlex.split(options.command)
        except ValueError as error:
            raise usage_error(f"--command: {error}") from None
        if not self._words or shutil.which(self._words[0]) is None:
            message = f"there is no program '{self._words[0] if self._words else ''}'"
            raise DiagnosticError(Diagnostic("MU7248", message, helps=("--command 'PROGRAM ARGUMENTS'",)))
        self.model = options.model or os.path.basename(self._words[0])
        self._seconds, self._longest = options.call_timeout, longest

    def ask(self, prompt: Prompt, tool: Tool, limit: int) -> Answer:
        """Run the command, and return its output. Raises EndpointError."""
        try:
            ended = run(self._words, seconds=self._seconds, given=prompt.text, longest=self._longest)
        except OSError as error:
            raise EndpointError("MU7248", f"cannot start it: {error.strerror}", final=True) from None
        answer = Answer(ended.out)
        if ended.seconds >= self._seconds and ended.stopped:
            raise EndpointError("MU7241", f"the program {ended.how}", partial=answer)
        if ended.stopped or ended.status:
            said = redact(" ".join(ended.err.split()))[-TOLD:]
            message = f"the program {ended.how}{': ' if said else ''}{said}"
            raise EndpointError("MU7248", message, partial=answer)
        return answer
