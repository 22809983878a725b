"""Locks that a forked child finds free."""

import os
import sys
import threading
import types
from functools import cached_property

import pytest

from mucc.files.process_lock import ProcessLock


def test_a_child_finds_it_free_while_a_thread_of_the_parent_holds_it():
    lock, taken, done = ProcessLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock.held():
            taken.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    if (child := os.fork()) == 0:
        found = threading.Thread(target=lambda: lock.held().__enter__())
        found.start()
        found.join(60)
        os._exit(found.is_alive())
    assert os.waitpid(child, 0)[1] == 0
    done.set()
    thread.join()


def test_a_child_may_be_forked_by_the_thread_that_holds_it():
    lock = ProcessLock()
    with lock.held():
        child = os.fork()
    if child == 0:
        with lock.held():
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


class Slow:
    began, may_end = threading.Event(), threading.Event()

    @cached_property
    def value(self) -> int:
        self.began.set()
        self.may_end.wait()
        return 1


def test_a_child_computes_a_property_that_a_thread_of_the_parent_computes(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("mucc.slow")
    module.Slow = Slow
    monkeypatch.setitem(sys.modules, module.__name__, module)
    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    Slow.began.wait()
    if (child := os.fork()) == 0:
        Slow.may_end.set()
        found = threading.Thread(target=lambda: Slow().value, daemon=True)
        found.start()
        found.join(60)
        os._exit(found.is_alive())
    assert os.waitpid(child, 0)[1] == 0
    Slow.may_end.set()
    thread.join()
