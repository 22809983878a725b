"""Serve calls by Inductor alone while kernels are built, and compile the graph anew with them then."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mucc.build.cache import Cache, Entry, content_key
from mucc.build.cache.keys import loaded_fingerprint
from mucc.torch.backend.copies import copied
from mucc.torch.backend.joined import GraphPass
from mucc.torch.backend.operator import Builds
from mucc.torch.importer.capture import torch

_config: Any = importlib.import_module("torch._inductor.config")
_aot: Any = importlib.import_module("functorch.compile")

Result = TypeVar("Result")

log = logging.getLogger("mucc.torch")

PATIENCE = 2.0
"""Seconds to wait for the kernels of a graph that was built before: enough to load cached ones.

Once it is known that a kernel is not in the cache, waiting ends."""
POLL = 0.02


class Postponed(BaseException):
    """Kernels of a graph are not built yet. No `Exception`, since Inductor wraps those."""


class Background:
    """Work on kernels in threads while a graph runs without them: choosing, building, loading.

    `gains` is whether kernels were chosen, so that the graph is to be compiled anew.
    """

    def __init__(self) -> None:
        self.gains = False
        self._threads: list[threading.Thread] = []
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self.problem: Exception | None = None

    @property
    def is_pending(self) -> bool:
        """Whether something is being built."""
        return any(thread.is_alive() for thread in self._threads)

    @property
    def was_needed(self) -> bool:
        """Whether a graph was compiled without its kernels."""
        return bool(self._threads)

    def result(self, work: Callable[[Builds], Result], waits: bool = True) -> Result:
        """Do work with builds in a thread, and wait for it a short time if `waits`; returns its result.

        Raises Postponed where that is not enough, and the work is held (`hold`) until `go_on`. Programs that
        do not compile are found, and named, when the graph is compiled anew.
        """
        builds, found = Builds(), list[Result]()

        def run() -> None:
            try:
                with builds:
                    found.append(work(builds))
            except Exception as error:
                self.problem = error
                self.gains = True  # it is reported when the graph is compiled anew

        thread = threading.Thread(target=run, name="mucc builds kernels", daemon=True)
        thread.start()
        until = time.monotonic() + (PATIENCE if waits else 0.0)
        while thread.is_alive() and time.monotonic() < until and not builds.compiles:
            thread.join(POLL)
        if thread.is_alive():
            self._may_go_on.clear()
            self._threads.append(thread)
            raise Postponed
        if self.problem is not None:
            raise self.problem
        return found[0]

    def hold(self) -> None:
        """Wait while Inductor compiles the graph without kernels, since one thread runs Python at a time."""
        self._may_go_on.wait()

    def go_on(self) -> None:
        """Let work that is held go on."""
        self._may_go_on.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is being built; returns whether that is so."""
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return not self.is_pending


class BuildRecord:
    """A note in the cache that the kernels of a graph were built, by this process or another one.

    `key` is that of the pass which chose them.
    """

    def __init__(self, graph: Any, key: str):
        arguments = [repr(n.meta.get("val")) for n in graph.nodes if n.op == "placeholder"]
        self.cache = Cache()
        self.key = content_key("graphs", loaded_fingerprint(), key, str(graph), repr(arguments))

    def may_be_cached(self) -> bool:
        """Whether the kernels may be in a cache: the note exists, or there are caches that others fill."""
        return bool(self.cache.shared) or self.cache.find("graphs", self.key) is not None

    def store(self) -> None:
        """Note that the kernels are built."""
        self.cache.store("graphs", self.key, Entry(b""))


class WithoutKernels(GraphPass):
    """Stands in the place of mucc's pass where a graph is compiled without its kernels.

    Inductor's cache keeps such graphs apart, and later processes get those with kernels.
    """

    def __init__(self, first: tuple[Any, ...]):
        self.first = first

    def key(self) -> str:
        return "without kernels"

    def run(self, graph: Any) -> None:
        pass


def compiled_anyhow(
    compile: Callable[..., Any], setting: str, first: tuple[Any, ...], background: Background
) -> Callable[..., Any]:
    """Return a compiler of Inductor's graphs that leaves out kernels which are not built.

    `compile` compiles a graph, and raises Postponed from mucc's pass, which `setting` names in Inductor's
    configuration; `first` are the passes before it. AOTAutograd caches no such graph.
    """

    def inner(module: Any, inputs: Sequence[Any], **options: Any) -> Any:
        before = copied(module)
        try:
            return compile(module, inputs, **options)
        except Postponed:
            try:
                with _config.patch({setting: WithoutKernels(first)}):
                    made = compile(before, inputs, **options)
            finally:
                background.go_on()

            def run(*arguments: Any) -> Any:
                return made([*arguments])

            return _aot.make_boxed_func(run)

    return inner


def served(
    module: Any,
    inputs: Sequence[Any],
    background: Background,
    make: Callable[[Any, Sequence[Any]], Any],
    choose: Callable[[Any, Any, Sequence[Any]], Any] | None = None,
) -> Any:
    """Compile a graph by `make`, and again at the first call behind the end of the builds it began.

    Between them calls run without the kernels, and from then on where none was chosen. Errors of the second
    compilation leave it so, once reported. `choose` gets the second, the first and the arguments of that
    call, and returns what runs from then on.
    """
    again = copied(module)
    context = torch._guards.TracingContext.try_get()
    first = make(copied(module), inputs)  # as later: a graph in AOTAutograd's cache is of a copy
    if not background.was_needed:
        return first
    run: list[Any] = [first]
    waiting: list[Sequence[Any]] = [inputs]
    lock = threading.Lock()

    def call(*arguments: Any) -> Any:
        if waiting and not background.is_pending and lock.acquire(blocking=False):
            try:
                if waiting and not background.gains:
                    waiting.clear()
                if waiting:
                    run[0] = anew(waiting.pop(), arguments)
            finally:
                lock.release()
        return run[0](*arguments)

    def anew(given: Sequence[Any], arguments: Sequence[Any]) -> Any:
        log.info("kernels are built: a graph of %d operations is compiled anew", len(again.graph.nodes))
        with torch._guards.tracing(context):
            made = make(again, given)
        return made if choose is None else choose(made, first, arguments)

    return call
