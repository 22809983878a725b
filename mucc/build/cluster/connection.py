"""The connection to a Ray cluster, and which of its machines may work for this one."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mucc.build.cluster.versions import Versions, with_compilers
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity
from mucc.process import machine

VARIABLE = "MUCC_RAY"
"""The environment variable with the address of a cluster, for all that builds."""

PORT = 6379
"""The port of a cluster's head, where an address has none."""

ANSWER = 5.0
"""Seconds that the head of a cluster gets to accept a connection, …"""

PROBE = 120.0
"""… and a machine to start Python and say its versions."""

STORE_BYTES = 1 << 30
"""The object store of a cluster that is started for one command."""

INSTALL = "pip install 'mucc[ray]'"


@dataclass
class Cluster:
    """A cluster that this process is connected to. Thread-safe.

    `ray` is the package, `mine` the versions here. After `probe`, `cores` and `memory_bytes` are those of all
    machines that can build, `largest_bytes` is the memory of the largest, and `warnings` (MU5503) are about
    machines that do not fit.
    """

    ray: Any
    mine: Versions
    cores: int = 0
    memory_bytes: int = 0
    largest_bytes: int = 0
    warnings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    _refused: set[str] = field(default_factory=set[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def placement(self) -> dict[str, Any]:
        """Return options for a Ray task that exclude the machines which were refused."""
        with self._lock:
            if not self._refused:
                return {}
            return {"label_selector": {"ray.io/node-id": f"!in({','.join(sorted(self._refused))})"}}

    def refuse(self, node: str, name: str, differences: Sequence[str]) -> None:
        """Give a machine no more work, and warn once. Raises MU5504 where no machine is left."""
        with self._lock:
            if node not in self._refused:
                self._refused.add(node)
                self.warnings.append(refusal(f"the machine {name}", differences))
            alive = {n["NodeID"] for n in self.ray.nodes() if n["Alive"]}
            if alive and alive <= self._refused:
                notes = tuple(str(w.message) for w in self.warnings)
                raise DiagnosticError(
                    Diagnostic("MU5504", "no machine of the cluster can build", notes=notes)
                )

    def probe(self) -> None:
        """Ask every machine for its versions, and count the cores and the memory of those that fit.

        Raises MU5504 where none does.
        """
        strategy = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        nodes = [node for node in self.ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]

        def say() -> Versions | str:
            # By value, since mucc may be missing there.
            try:
                from mucc.build.cluster.versions import with_compilers
            except ImportError as error:
                return f"mucc cannot be imported there: {error}"
            return with_compilers()

        ask = self.ray.remote(say)
        answers = [
            ask.options(num_cpus=0, scheduling_strategy=strategy(node["NodeID"], soft=False)).remote()
            for node in nodes
        ]
        ready: list[Any] = []
        if answers:
            ready, _ = self.ray.wait(answers, num_returns=len(answers), timeout=PROBE)
        for node, answer in zip(nodes, answers, strict=True):
            there: Versions | str = f"it gave no answer for {PROBE:.0f} s"
            if answer in ready:
                try:
                    there = self.ray.get(answer)
                except Exception as error:
                    there = f"it cannot run mucc: {type(error).__name__}"
            if problems := [there] if isinstance(there, str) else there.differences(self.mine):
                self.refuse(node["NodeID"], node["NodeManagerAddress"], problems)
                continue
            memory = int(node["Resources"].get("memory", 0))
            self.cores += int(node["Resources"]["CPU"])
            self.memory_bytes += memory
            self.largest_bytes = max(self.largest_bytes, memory)
        if not self.cores:
            notes = tuple(str(w.message) for w in self.warnings) or ("it has no machine with a core",)
            raise DiagnosticError(Diagnostic("MU5504", "no machine of the cluster can build", notes=notes))


def refusal(who: str, differences: Sequence[str]) -> Diagnostic:
    """Build the warning MU5503."""
    message = f"{who} is not used: {'; '.join(differences)}"
    helps = ("install the same versions on all machines",)
    return Diagnostic("MU5503", message, severity=Severity.WARNING, helps=helps)


_connected: dict[str, Cluster] = {}
_lock = threading.Lock()


def connect(address: str, nvcc: str | None = None) -> Cluster:
    """Connect this process to a cluster, once; see `Cluster`.

    `address` is HOST:PORT, `auto` for the cluster of this machine, or `local` for a new one that ends with
    this process. Raises DiagnosticError: MU5501 without Ray, MU5502 without a cluster, MU5504 for one of
    another Ray.
    """
    with _lock:
        if (found := _connected.get(address)) is not None:
            return found
        ray = imported()
        if not ray.is_initialized():
            _start(ray, address)
        elif address not in ("auto", "local", now := str(ray.get_runtime_context().gcs_address)):
            raise _missing(address, f"this process is connected to the one at {now}")
        cluster = Cluster(ray, with_compilers(nvcc))
        _connected[address] = cluster
        return cluster


def disconnect() -> None:
    """End all connections, and clusters that this process started."""
    with _lock:
        _connected.clear()
        if importlib.util.find_spec("ray") is not None and (ray := imported()).is_initialized():
            ray.shutdown()


def imported() -> Any:
    """Import Ray. Raises MU5501 where it is not installed."""
    # Ray neither reports its use nor looks for uv in the command line of this process.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        message = "--ray needs the package ray, which is not installed"
        raise DiagnosticError(Diagnostic("MU5501", message, helps=(INSTALL,))) from None


def _start(ray: Any, address: str) -> None:
    quiet = {"log_to_driver": False, "configure_logging": False, "logging_level": "ERROR"}
    if address == "local":
        start: Callable[[], Any] = lambda: ray.init(  # noqa: E731
            num_cpus=machine.cores(),
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            **quiet,
        )
    else:
        full = address if address == "auto" or ":" in address else f"{address}:{PORT}"
        _check_answer(full, address)
        start = lambda: ray.init(address=full, **quiet)  # noqa: E731
    try:
        with _own_signals():
            start()
    except (ConnectionError, TimeoutError, ValueError) as error:
        why = "none runs on this machine" if address == "auto" else str(error).partition("\n")[0]
        raise _missing(address, why) from None
    except RuntimeError as error:
        if "ersion mismatch" not in str(error):
            raise _missing(address, str(error).partition("\n")[0]) from None
        raise DiagnosticError(
            Diagnostic(
                "MU5504",
                f"the cluster at '{address}' runs another Ray or Python than this machine",
                notes=tuple(line.strip() for line in str(error).splitlines() if line.strip()),
                helps=("install the same versions on all machines",),
            )
        ) from None


def _check_answer(address: str, shown: str) -> None:
    """Raise MU5502 where nothing listens, which Ray itself takes a minute to say."""
    if address == "auto":
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        raise _missing(shown, f"'{port}' is no number of a port")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER).close()
    except (OSError, ValueError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _missing(shown, why.lower()) from None


def _missing(address: str, why: str) -> DiagnosticError:
    helps = (
        "start one: `ray start --head` here, `ray start --address=HEAD:6379` on the other machines",
        "--ray local uses the cores and GPUs of this machine",
    )
    message = f"there is no Ray cluster at '{address}': {why}"
    return DiagnosticError(Diagnostic("MU5502", message, helps=helps))


@contextmanager
def _own_signals():
    """Keep the handlers of signals, some of which Ray replaces."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        with suppress(ValueError):  # another thread than the main one sets none
            for number, handler in before.items():
                if handler is not None:
                    signal.signal(number, handler)
