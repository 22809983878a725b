"""Run tests in forks of the process that collected them: `pytest --forks N`.

Workers of pytest-xdist are new interpreters, each of which imports and collects everything. Forks share that.
Each runs the tests of one file after another, and sends its reports to the process that collected them. Not
for a machine with a GPU: a process whose parent has used CUDA cannot.
"""

from __future__ import annotations

import atexit
import os
import random
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import pytest


@dataclass
class Fork:
    """A process that runs tests. `given` are the numbers of tests that it has not begun."""

    pid: int
    link: Connection
    given: deque[int] = field(default_factory=deque[int])
    running: int | None = None
    done: bool = False


def run(session: pytest.Session, count: int) -> None:
    """Run the collected tests in `count` processes. Raises `session.Failed` where pytest is to stop."""
    _Forks(session).run(count)


class _Forks:
    """The processes, and the files that none has begun, by the numbers of their tests."""

    def __init__(self, session: pytest.Session):
        self.session, self.hook = session, session.config.hook
        numbers = range(len(session.items))
        self.files = deque(
            deque(group)
            for _, group in groupby(numbers, lambda n: session.items[n].nodeid.partition("::")[0])
        )
        self.forks: dict[Connection, Fork] = {}
        self.started = 0
        self.base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self, count: int) -> None:
        try:
            for _ in range(min(count, len(self.files))):
                self.start(self.files.popleft())
            while self.forks:
                for link in wait(list(self.forks)):
                    self.hear(self.forks[link])  # type: ignore[index]
                for reason in (self.session.shouldfail, self.session.shouldstop):
                    if reason:
                        raise self.session.Failed(reason)
        finally:
            for fork in self.forks.values():
                _stop(fork.pid)

    def start(self, given: deque[int]) -> None:
        """Start a process with its first tests."""
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.started += 1
        if not (pid := os.fork()):
            for link in (ours, *self.forks):
                link.close()
            _serve(self.session, theirs, given, self.base / f"fork{self.started}")
        theirs.close()
        self.forks[ours] = Fork(pid, ours, given)

    def hear(self, fork: Fork) -> None:
        """Take what a process says."""
        try:
            what, said = fork.link.recv()
        except (EOFError, ConnectionError):
            self.end(fork)
            return
        match what:
            case "begins":
                fork.running = fork.given.popleft()
                item = self.session.items[fork.running]
                self.hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            case "report":
                report = self.hook.pytest_report_from_serializable(config=self.session.config, data=said)
                self.hook.pytest_runtest_logreport(report=report)
            case "warning":
                self.hook.pytest_warning_recorded.call_historic(kwargs=said)
            case "ended":
                assert fork.running is not None
                item = self.session.items[fork.running]
                self.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
                fork.running = None
            case "next":
                more = self.files.popleft() if self.files else deque[int]()
                fork.given.extend(more)
                fork.done = not more
                fork.link.send(more)

    def end(self, fork: Fork) -> None:
        """Reap a process; one that left tests behind failed, and another takes these."""
        del self.forks[fork.link]
        fork.link.close()
        _, status = os.waitpid(fork.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if fork.running is not None:
            item = self.session.items[fork.running]
            ended = f"signal {-code}" if code < 0 else f"status {code}"
            said = f"the process that ran this test ended with {ended}"
            report = pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")
            self.hook.pytest_runtest_logreport(report=report)
        elif code or not fork.done:
            raise self.session.Failed(f"a process that runs tests ended with {code} between tests")
        if rest := fork.given or (self.files.popleft() if self.files and not fork.done else None):
            self.start(rest)


def _stop(pid: int) -> None:
    """End a process: it may tidy up for some seconds."""
    os.kill(pid, signal.SIGINT)
    for _ in range(100):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


class _Reporter:
    """The plugin of a fork that sends what pytest reports."""

    def __init__(self, config: pytest.Config, link: Connection):
        self.config, self.link = config, link
        self.collected = False
        """Whether warnings are those of tests; pytest tells a new plugin the earlier ones once more."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self.link.send(("report", data))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        said = {"when": when, "nodeid": nodeid, "location": location}
        if not self.collected:
            return
        try:
            self.link.send(("warning", {"warning_message": warning_message, **said}))
        except Exception:  # it holds what no other process can have
            warning_message.source = None
            warning_message.message = Warning(str(warning_message.message))
            warning_message.category = Warning
            self.link.send(("warning", {"warning_message": warning_message, **said}))


def _tests(session: pytest.Session, link: Connection, given: deque[int]) -> Iterator[tuple[Any, Any]]:
    """Yield the tests of this fork, each with the one that comes next, for which fixtures are kept."""
    while given:
        item = session.items[given.popleft()]
        if not given:
            link.send(("next", None))
            given = link.recv()
        yield item, session.items[given[0]] if given else None


def _serve(session: pytest.Session, link: Connection, given: deque[int], base: Any) -> NoReturn:
    """Be a fork: run tests, send reports, and end without what only the first process is to do at its end."""
    config, status = session.config, 1
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        atexit._clear()
        random.seed()
        config.pluginmanager.unregister(name="terminalreporter")
        capture.stop_global_capturing()
        capture.start_global_capturing()  # to files of its own
        base.mkdir(mode=0o700)
        config._tmp_path_factory._basetemp = base  # type: ignore[attr-defined]
        reporter = _Reporter(config, link)
        config.pluginmanager.register(reporter)
        reporter.collected = True
        for item, following in _tests(session, link, given):
            link.send(("begins", None))
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            link.send(("ended", None))
            if session.shouldfail or session.shouldstop:
                break
        status = 0
    except KeyboardInterrupt:
        pass
    except BaseException:
        capture.stop_global_capturing()
        traceback.print_exc()
    finally:
        try:
            session._setupstate.teardown_exact(None)
            atexit._run_exitfuncs()
        finally:
            os._exit(status)
