"""The parent's side of the zygote: start it, request forks, start another where it has ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mucc.agent.isolation.server import MARK
from mucc.api import processes
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.json_types import Json
from mucc.api.processes import Printed
from mucc.api.sandbox import GUARDS, Isolation, Layer

START = 300.0
"""Seconds that loading torch may take."""

ANSWER = 60.0
"""Seconds that a fork may take."""

SECRET_NAME = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
"""Matches names of environment variables that hold a secret, such as a key or a password."""

SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""Matches values with the password of a user, as addresses of databases and proxies have."""

TORCH = ("torch",)
"""Modules that every child needs."""


class ZygoteFailed(Exception):
    """The zygote has failed: the message says why, `printed` is its last output."""

    def __init__(self, message: str, printed: str):
        super().__init__(message)
        self.printed = printed


class Server:
    """One process that forks children."""

    def __init__(self, modules: Sequence[str], env: Mapping[str, str], isolation: Isolation):
        self._lock = threading.Lock()
        self._isolation = isolation
        self._layers: tuple[Layer, ...] | None = None
        self._printed = Printed()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "mucc.agent.isolation.server",
                        str(theirs.fileno()),
                        isolation.value,
                        *modules,
                    ],
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

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def layers(self) -> tuple[Layer, ...]:
        """Return the layers that confine children, once the process has loaded its modules. Raises
        ZygoteFailed."""
        with self._lock:
            return self._started()

    def ask(self, request: Mapping[str, Any], pipes: Sequence[int] = ()) -> tuple[Json, int | None]:
        """Send a request, and return its answer and a descriptor that may come with it. Raises ZygoteFailed
        if the process has ended, or hangs."""
        with self._lock:
            self._started()
            try:
                socket.send_fds(self._control, [json.dumps(request).encode()], pipes)
                return self._heard()
            except OSError as error:
                raise self._failed(error) from None

    def _started(self) -> tuple[Layer, ...]:
        if self._layers is None:
            try:
                self._control.settimeout(START)
                said, _ = self._heard()
                self._control.settimeout(ANSWER)
            except OSError as error:
                raise self._failed(error) from None
            self._layers = tuple(map(Layer, said["layers"]))
        return self._layers

    def _failed(self, error: OSError) -> ZygoteFailed:
        return ZygoteFailed(f"the process that forks others {_how(error)}", self._printed.last_lines())

    def _heard(self) -> tuple[Json, int | None]:
        data, given, _, _ = socket.recv_fds(self._control, 1 << 16, 1)
        if not data:
            raise ConnectionResetError
        return json.loads(data), given[0] if given else None

    def close(self) -> None:
        """End the process and its children."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
        try:
            self._process.wait(0.0 if self._layers is None else 1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        processes.forget(self._process.pid)
        self._printed.close()


class Forked(NamedTuple):
    """A child: who forked it, its number, and its folder where that is a file system of its own."""

    server: Server
    pid: int
    folder: int | None


class Zygote:
    """A process that has loaded modules, from which children fork within milliseconds; its start takes
    seconds, and goes on beside the caller.

    Children have the variables of this process without secrets, and those of `env`; `isolation` says which
    layers confine them. All methods may be called from any thread.
    """

    def __init__(
        self,
        modules: Sequence[str] = TORCH,
        env: Mapping[str, str] | None = None,
        isolation: Isolation = Isolation.BEST,
    ):
        self._modules, self._env = (*modules, "msgspec"), dict(env or {})
        self.isolation = isolation
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._closed = False

    def start(self) -> Server:
        """Return the process that forks; start it if there is none."""
        with self._lock:
            if self._closed:
                raise ZygoteFailed("it was closed", "")
            if self._server is None:
                self._server = Server(self._modules, self._env, self.isolation)
            return self._server

    def layers(self) -> tuple[Layer, ...]:
        """Return the layers that confine children, once modules are loaded. Raises ZygoteFailed, and
        DiagnosticError (MU7213) where all are required and some are missing."""
        found = self.start().layers()
        missing = [layer.value for layer in GUARDS if layer not in found]
        if self.isolation is Isolation.REQUIRED and missing:
            raise DiagnosticError(
                Diagnostic(
                    "MU7213",
                    f"this machine does not allow to confine processes by {', '.join(missing)}",
                    notes=tuple(
                        f"{layer.value} ensures {layer.meaning}" for layer in GUARDS if layer not in found
                    ),
                    helps=("`--isolation best` takes the layers that it allows; `mucc doctor` shows them",),
                )
            )
        return found

    def fork(
        self,
        module: str,
        folder: str,
        mark: str,
        env: Mapping[str, str],
        pipes: Sequence[int],
        readable: Sequence[str] = (),
        writable: Sequence[str] = (),
    ) -> Forked:
        """Fork a child in a process group of its own, which runs `serve(line)` of a module.

        `pipes` are its requests, its answers, its output, and perhaps a shared folder. Of private folders
        it can read the files of `readable` only; it can write in its own folder and in those of `writable`.
        Raises ZygoteFailed; DiagnosticError as `layers`.
        """
        request = {
            "fork": module,
            "folder": folder,
            "mark": mark,
            "env": dict(env),
            "readable": [*map(os.path.abspath, readable)],
            "writable": [*map(os.path.abspath, writable)],
        }
        for last in (False, True):
            server = self.start()
            try:
                self.layers()
                answer, own = server.ask(request, pipes)
            except ZygoteFailed:
                self._drop(server)
                if last:
                    raise
                continue
            if "pid" in answer:
                return Forked(server, int(answer["pid"]), own)
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
    return {
        name: value
        for name, value in os.environ.items()
        if not SECRET_NAME.search(name) and not SECRET_VALUE.search(value)
    }


def new_mark() -> str:
    """Make a mark for a child."""
    return secrets.token_hex(16)


def _how(error: OSError) -> str:
    return "hangs" if isinstance(error, TimeoutError) else "has ended"
