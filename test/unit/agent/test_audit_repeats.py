"""Who counts calls takes another path in some; who looks at inputs takes it for such inputs each time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from mucc.agent.audit.cases import Case, plan
from mucc.agent.audit.detectors.input_shortcut import InputShortcut
from mucc.agent.audit.detectors.kernel_set import KernelSet
from mucc.agent.audit.detectors.stale_output import StaleOutput
from mucc.agent.audit.findings import Severity
from mucc.agent.audit.observations import Call, Comparison, Observations, Reference, Timing, Work
from mucc.agent.audit.repeats import repeated

Solution = Callable[[int, Case], tuple[Sequence[str], Sequence[str]]]
"""The lines and operations of a call, by its number and what it is given."""


def calls(solution: Solution, seed: int = 3) -> list[Call]:
    """The calls of an audit up to the first that is timed, those that are repeated included."""
    made: list[Call] = []

    def make(case: Case) -> None:
        lines, names = solution(len(made) + 1, case)
        count = Counter(names if case.observe else ())
        work = tuple(Work("op", name, "", 0, number, 1.0) for name, number in count.items())
        made.append(Call(case, Comparison(True), lines=tuple(lines), work=work))

    for case in plan(random.Random(seed)):
        make(case)
    for case in repeated(random.Random(seed + 1), tuple(made), "cpu"):
        make(case)
    return made


def rejects(solution: Solution, detector: InputShortcut | KernelSet | StaleOutput, seed: int = 3) -> bool:
    seen = Observations(
        "cpu", "declared", None, calls(solution, seed), [], Timing(), Reference(), None, [], []
    )
    return any(f.severity is Severity.REJECT for f in detector.check(seen))


def every(n: int) -> Solution:
    return lambda number, case: (["5", "6"], ["a::b"]) if number % n == 0 else (["5"], [])


def never(number: int, case: Case) -> tuple[list[str], list[str]]:
    return ["5"], []


@pytest.mark.parametrize("n", range(2, 9))
def test_who_counts_calls_is_not_taken_for_one_that_looks_at_inputs(n: int):
    """By chance alone all repeated calls may be such ones, in one audit of a few; two would have to be."""
    for detector in (InputShortcut(), KernelSet(), StaleOutput()):
        wrong = sum(rejects(every(n), detector, seed) for seed in range(60))
        assert wrong <= 6, type(detector).__name__


def by_size(number: int, case: Case) -> tuple[list[str], list[str]]:
    return (["5", "6"], ["a::b"]) if case.scale > 1 else (["5"], [])


def by_sign(number: int, case: Case) -> tuple[list[str], list[str]]:
    return ([], []) if case.scale < 0 else (["5"], [])


def keeps_results(number: int, case: Case) -> tuple[list[str], list[str]]:
    return ([], []) if case.name.startswith("same") else (["5"], [])


def tunes_for_six_calls(number: int, case: Case) -> tuple[list[str], list[str]]:
    """Try one, two and three blocks twice, and then take two, as in the second call."""
    return (["4"], ["a::b"] * (number % 3)) if number <= 6 else (["5"], ["a::b"] * 2)


def test_who_tunes_itself_is_not_taken_for_one_that_looks_at_inputs():
    for detector in (InputShortcut(), KernelSet(), StaleOutput()):
        assert not any(rejects(tunes_for_six_calls, detector, seed) for seed in range(20))


@pytest.mark.parametrize("solution", [by_size, by_sign])
def test_who_looks_at_inputs_is_rejected(solution: Solution):
    assert all(rejects(solution, InputShortcut(), seed) for seed in range(20))


def test_operations_that_depend_on_inputs_are_rejected():
    assert all(rejects(by_size, KernelSet(), seed) for seed in range(20))


def test_who_keeps_results_is_rejected():
    assert all(rejects(keeps_results, StaleOutput(), seed) for seed in range(20))


def test_nothing_is_repeated_where_all_calls_are_alike():
    assert len(calls(never)) == len(plan(random.Random(3)))
