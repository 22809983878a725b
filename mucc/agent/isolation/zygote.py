"""The parent's side of the zygote: start it, request forks, start another where it has ended."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from mucc.agent.isolation.server import MARK
from mucc.api import processes
from mucc.api.json_types import Json
from mucc.api.processes import Printed

START = 300.0
"""Seconds that loading torch may take."""

ANSWER = 60.0
"""Seconds that a fork may take."""

TORCH = ("torch",)
"""Modules that every child needs."""


class ZygoteFailed(Exception):
    """The zygote has failed: the message says why, `printed` is its last output."""

    def __init__(self, message: str, printed: str):
        super().__init__(message)
        self.printed = printed


class Server:
    """One process that forks children."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str]):
        self._lock = threading.Lock()
        self._ready = False
        self._printed = Printed()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "mucc.agent.isolation.server", str(theirs.fileno()), *modules],
                    stdin=subprocess.DEVNULL,
                    stdout=self._printed.fileno(),
                    stderr=self._printed.fileno(),
                    pass_fds=(theirs.fileno(),),
                    env={
                        **environment(),
                        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                        "PYTHONDONTWRITEBYTECODE": "1",
                        **env,
                        MARK: new_mark(),
                    },
                    cwd="/",
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        processes.watch(self._process.pid)

    def ask(self, request: Mapping[str, Any], pipes: Sequence[int] = ()) -> Json:
        """Send a request, and return its answer. Raises ZygoteFailed if the process has ended, or hangs."""
        with self._lock:
            try:
                if not self._ready:
                    self._control.settimeout(START)
                    self._heard()
                    self._ready = True
                    self._control.settimeout(ANSWER)
                socket.send_fds(self._control, [json.dumps(request).encode()], pipes)
                return self._heard()
            except OSError as error:
                said = self._printed.last_lines()
                raise ZygoteFailed(f"the process that forks others {_how(error)}", said) from None

    def _heard(self) -> Json:
        data = self._control.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        return json.loads(data)

    def close(self) -> None:
        """End the process and its children."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        try:
            self._process.wait(1.0 if self._ready else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        processes.forget(self._process.pid)
        self._printed.close()


class Zygote:
    """A process that has loaded modules, from which children fork within milliseconds; its start takes
    seconds, and goes on beside the caller.

    Children have the variables of this process without secrets, and those of `env`. All methods may be called
    from any thread.
    """

    def __init__(self, modules: Sequence[str] = TORCH, env: Mapping[str, str] | None = None):
        self._modules, self._env = (*modules, "msgspec"), dict(env or {})
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._closed = False

    def start(self) -> Server:
        """Return the process that forks; start it if there is none."""
        with self._lock:
            if self._closed:
                raise ZygoteFailed("it was closed", "")
            if self._server is None:
                self._server = Server(self._modules, self._env)
            return self._server

    def fork(
        self, module: str, folder: str, mark: str, env: Mapping[str, str], pipes: Sequence[int]
    ) -> tuple[Server, int]:
        """Fork a child in a process group of its own, which runs `serve(line)` of a module; return who forked
        it, and its number.

        `pipes` are where it hears, where it answers, and where it prints. Raises ZygoteFailed.
        """
        request = {"fork": module, "folder": folder, "mark": mark, "env": dict(env)}
        for last in (False, True):
            server = self.start()
            try:
                answer = server.ask(request, pipes)
            except ZygoteFailed:
                self._drop(server)
                if last:
                    raise
                continue
            if "pid" in answer:
                return server, int(answer["pid"])
            raise ZygoteFailed(f"no process can be started: {answer['error']}", "")
        raise AssertionError

    def _drop(self, server: Server) -> None:
        with self._lock:
            if self._server is server:
                self._server = None
        server.close()

    def close(self) -> None:
        """End the process and all its children."""
        with self._lock:
            server, self._server, self._closed = self._server, None, True
        if server is not None:
            server.close()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def environment() -> dict[str, str]:
    """Return the variables of this process, without those that hold a secret."""
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
    return {name: value for name, value in os.environ.items() if not any(s in name.upper() for s in secret)}


def new_mark() -> str:
    """Make a mark for a child."""
    return secrets.token_hex(16)


def _how(error: OSError) -> str:
    return "hangs" if isinstance(error, TimeoutError) else "has ended"
