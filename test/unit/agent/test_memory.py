"""Sharing a GPU's memory: what is taken fits, and what has run short is done again with all of it."""

from __future__ import annotations

import threading
import time

import pytest
import scripted

from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.strategy import Budget
from mucc.agent.core.tasks import Task
from mucc.agent.engine.limits import reason_to_stop
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.process.gpu_memory import CONTEXT, COPIES, Room, out_of_memory

OUT = "OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB"


def test_no_more_is_taken_than_there_is():
    room, lock = Room(10), threading.Lock()
    taken, most, order = [0], [0], list[int]()

    def work(number: int, wanted: int) -> None:
        with room.take(wanted):
            with lock:
                order.append(number)
                taken[0] += wanted
                most[0] = max(most[0], taken[0])
            time.sleep(0.002)
            with lock:
                taken[0] -= wanted

    threads = [threading.Thread(target=work, args=(n, 1 + n % 7)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(order) == list(range(40)) and 5 < most[0] <= 10


def test_the_large_is_not_passed_by_the_small():
    room, order = Room(10), list[str]()

    def work(name: str, wanted: int) -> None:
        with room.take(wanted):
            order.append(name)

    with room.take(6):
        threads = [threading.Thread(target=work, args=each) for each in (("large", 100), ("small", 1))]
        for thread in threads:
            thread.start()
            time.sleep(0.05)
        assert order == []
    for thread in threads:
        thread.join(300)
    assert order == ["large", "small"]


@pytest.mark.parametrize("raises", [False, True])
def test_what_ran_short_is_done_again_alone(raises: bool):
    room, answers = Room(10), iter([OUT, "good"])

    def work() -> str:
        answer = next(answers)
        if raises and answer == OUT:
            raise DiagnosticError(Diagnostic("MU7012", f"get_inputs() raised {OUT}"))
        return answer

    assert room.within(3, work, out_of_memory) == "good"


def test_other_errors_are_nobodys_lack_of_memory():
    calls: list[int] = []

    def work() -> str:
        calls.append(1)
        raise DiagnosticError(Diagnostic("MU7012", "get_inputs() raised ValueError"))

    with pytest.raises(DiagnosticError):
        Room(10).within(3, work, out_of_memory)
    assert len(calls) == 1
    assert Room(None).within(3, lambda: OUT, out_of_memory) == OUT


def of_bytes(*moved: float) -> Task:
    task = scripted.task()
    bounds = {str(n): {"limits": {"dram": {"amount": m, "us": 1.0}}} for n, m in enumerate(moved)}
    task.sol["assumptions"] = bounds
    return task


def test_what_a_task_takes_grows_with_its_tensors():
    assert scripted.task().gpu_memory == CONTEXT
    assert of_bytes(1e9, 3e9).gpu_memory == CONTEXT + COPIES * 3_000_000_000


def test_a_reference_that_proves_nothing_costs_no_attempt():
    def attempts(label: str) -> list[Attempt]:
        outcome = Outcome(Status.REJECTED, "degenerate: one result", label=label)
        return [Attempt(0, Candidate("k", "as imported"), outcome)]

    said = reason_to_stop(Budget(), scripted.task(), attempts("Inherited Gaming"), [], 0.0)
    assert said == "nothing can be shown: degenerate: one result"
    assert reason_to_stop(Budget(), scripted.task(), attempts("Incorrect"), [], 0.0) == ""
