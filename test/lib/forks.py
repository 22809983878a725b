"""Run texts in forks of one interpreter that has loaded what they import."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import AbstractContextManager
from typing import Any

LOOP = """
import importlib, json, os, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    came, gone = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            os.dup2(gone, 1)
            sys.argv = ["-c"]
            exec(compile(json.loads(line), "<string>", "exec"), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(gone)
    with open(came) as pipe:
        printed = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([status, printed]), flush=True)
"""


class Forks(AbstractContextManager["Forks"]):
    """An interpreter with modules such as torch, which take seconds to load; a fork of it takes milliseconds.

    What a text changes in its process, hooks of Python's audit events among it, is gone with the fork.
    """

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", LOOP, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, text: str) -> str:
        """Return what a program prints; raises CalledProcessError where it fails."""
        assert self._process.stdin and self._process.stdout
        print(json.dumps(text), file=self._process.stdin, flush=True)
        status, printed = json.loads(self._process.stdout.readline())
        if status:
            raise subprocess.CalledProcessError(status, "text", printed)
        return printed

    def __exit__(self, *raised: Any) -> None:
        self._process.communicate()
