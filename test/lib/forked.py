"""Run console scripts of Python in forks of this process, where their modules are imported already.

Importing the compiler takes longer than most commands, so `lit.cfg.py` imports it once. `MUCC_TEST_FORKS=0`,
which a run of all tests sets, starts a new interpreter for each command instead.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import subprocess
import sys
import traceback
import types
from typing import Any, NoReturn

SCRIPTS = {
    "mucc": "mucc.cli.start:mucc",
    "mucc-opt": "mucc.cli.start:mucc_opt",
    "mucc-agent": "mucc.cli.start:mucc_agent",
    "filecheck": "filecheck.main:main",
}
"""The functions of console scripts."""

PRELOADED = ("mucc.cli.main", "mucc.cli.opt", "mucc.cli.build", "mucc.cli.check", "filecheck.main")
PROGRAM = "kernel k[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] { return softmax(relu(x @ w.T)) }\n"


def preload() -> None:
    """Import what commands import, and compile a program, so that forks need not."""
    from mucc.compiler.driver import compile_text
    from mucc.diagnostics import Source

    for name in PRELOADED:
        importlib.import_module(name)
    compile_text(Source("k.mcu", PROGRAM)).parts()
    gc.collect()
    gc.freeze()


class Popen(subprocess.Popen[Any]):
    """A process that is a fork of this one, where it is to run one of `SCRIPTS`."""

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        """Fork, instead of executing a file; the arguments are those of `subprocess`."""
        script = SCRIPTS.get(os.path.basename(os.fspath(executable or "")))
        _, _, _, cwd, env, _, _, _, *pipes = rest
        if script is None or os.environ.get("MUCC_TEST_FORKS") == "0":
            return super()._execute_child(args, executable, *rest)  # type: ignore[misc]
        read, to, back, write, errors_back, errors = pipes[:6]
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _become(script, [os.fspath(a) for a in args], cwd, env, [read, write, errors])
        self._child_created = True
        self._close_pipe_fds(read, to, back, write, errors_back, errors)  # type: ignore[attr-defined]
        return None


def _become(script: str, args: list[str], cwd: Any, env: Any, ends: list[int]) -> NoReturn:
    """Run a script in this new process, with its own streams, folder and variables."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN)
        ends = [end if end in (-1, n) or end > 2 else os.dup(end) for n, end in enumerate(ends)]
        for number, end in enumerate(ends):
            if end not in (-1, number):
                os.dup2(end, number)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
        if cwd is not None:
            os.chdir(cwd)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        sys.argv = args
        module, _, function = script.partition(":")
        status = getattr(importlib.import_module(module), function)() or 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


def subprocess_with_forks() -> types.ModuleType:
    """Return the module `subprocess` with `Popen` in the place of its own."""
    module = types.ModuleType("subprocess")
    module.__dict__.update({**vars(subprocess), "Popen": Popen})
    return module
