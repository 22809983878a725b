"""What the judge and a candidate's process say to each other, and what follows from times and evidence."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.audit.cases import Case
from mucc.agent.audit.confirming import confirmed, needs_another
from mucc.agent.audit.described import bytes_of, descriptions
from mucc.agent.audit.findings import Label, minor, reject, unsure
from mucc.agent.audit.noise import interval, is_steady
from mucc.agent.audit.observations import Comparison, Timing, call_from, signs_from
from mucc.agent.audit.shapes import with_other_shapes
from mucc.agent.audit.verdict import Failure, Verdict
from mucc.api.importer import Request

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import (  # noqa: E402 (they need torch)
    candidate,
    gate,
    inputs,
    referee,
    results,
    rooms,
    values,
)

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN)
def test_arguments_come_back_as_they_were(value: Any):
    said = values.told(value, values.packed)
    found = values.heard(said, values.unpacked)
    assert found == value and repr(found) == repr(value)


def test_tensors_and_types_come_back():
    value: list[Any] = [
        torch.arange(6, dtype=torch.bfloat16).view(2, 3),
        torch.float16,
        torch.empty(0, 3),
        1 + 2j,
    ]
    found = values.heard(values.told(value, values.packed), values.unpacked)
    assert torch.equal(found[0], value[0]) and found[1] is torch.float16
    assert found[2].shape == (0, 3) and found[3] == 1 + 2j


def test_other_values_are_refused():
    with pytest.raises(values.NotPlain, match="object"):
        values.told([object()], values.packed)


def test_lent_memory_is_shared_and_keeps_its_size():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here, there = rooms.Wire(ours.detach()), rooms.Wire(theirs.detach())
    room, fd = rooms.make(10_000)
    kept = os.dup(fd)
    here.lend("0", room, fd)
    name, same = there.borrow()
    room.data[17] = 42
    assert name == "0" and int(same.data[17]) == 42
    for size in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(kept, size)
    os.close(kept)


def test_results_lie_one_behind_the_other():
    room = torch.zeros(4096, dtype=torch.uint8)
    made: list[Any] = [torch.randn(3, 5), torch.arange(7), 2.5, torch.randn(4, 6).t()]
    results.Results(room).write(made)
    said: list[dict[str, Any]] = [
        {"dtype": str(v.dtype).removeprefix("torch."), "shape": list(v.shape)}
        if isinstance(v, torch.Tensor)
        else {"value": v}
        for v in made
    ]
    read = results.Results(room).read(said)
    for value, found in zip(made, read, strict=True):
        assert not isinstance(value, torch.Tensor) or torch.equal(found.view(value.shape), value)


@pytest.mark.parametrize(
    "said",
    [
        {"dtype": "os", "shape": [1]},
        {"dtype": 3, "shape": [1]},
        {"dtype": "float32", "shape": [-1]},
        {"dtype": "float32", "shape": [True]},
        {"dtype": "float32", "shape": "1"},
        {"dtype": "float32", "shape": [2**70]},
    ],
)
def test_descriptions_that_are_none_lead_to_no_result(said: dict[str, Any]):
    assert results.Results(torch.zeros(64, dtype=torch.uint8)).read([said]) == [None]


@pytest.mark.parametrize("said", [3, None, "x", [3], [["x"]], [{"dtype": "bool"}] * 5000])
def test_what_describes_no_results_is_refused(said: object):
    with pytest.raises(ValueError):
        descriptions(said)


def test_sizes_of_any_length_take_no_time():
    said = {"dtype": "float32", "shape": [10**18] * 10_000}
    started = time.monotonic()
    assert bytes_of(said) == -1
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("times", [{"seconds": 10**400}, {"seconds": float("nan")}, {"us": float("inf")}])
def test_times_that_are_none_are_refused(times: dict[str, Any]):
    work = {"kind": "op", "name": "aten::mm", "parent": "", "stream": 0, "calls": 1, "us": 1.0}
    said = {"outputs": [], "work": [work | times], "seconds": times.get("seconds", 1.0)}
    with pytest.raises((ValueError, OverflowError)):
        call_from(Case("again", 1), said, Comparison(True))


@pytest.mark.parametrize("said", [{"changed": 5}, {"seen": [1]}, {"changed": {"a": 1}}])
def test_signs_that_are_none_are_refused(said: dict[str, Any]):
    assert signs_from({"changed": ["a"]}) == {"changed": ("a",), "seen": ()}
    with pytest.raises(ValueError):
        signs_from(said)


def test_messages_are_bounded():
    assert len(reject("results", "no " * 10**6).message) < 3000
    assert reject("results", "no").message == "no"


def test_a_closed_connection_is_no_fault_of_the_memory():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    room, fd = rooms.make(100)
    wire = rooms.Wire(ours.detach())
    with pytest.raises(rooms.Closed):
        wire.lend("0", room, fd)
    wire.socket.close()


def test_a_gate_tells_when_numbers_came():
    room, fd = rooms.make(gate.BYTES)
    os.close(fd)
    judge = gate.Gate(room)
    words = memoryview(room.memory).cast("I")

    def device(number: int) -> None:
        while words[gate.OPEN * gate.LINE] != number:
            time.sleep(0.0001)
        for which in (gate.COPIED, gate.AWAKE, gate.READY, gate.DONE, gate.HANDED):
            time.sleep(0.005)
            words[which * gate.LINE] = number

    def nobody() -> None:
        pass

    for n in range(3):
        other = threading.Thread(target=device, args=(judge.next(),))
        other.start()
        times = [judge.open(), judge.seen(gate.COPIED, nobody)]
        judge.cold()
        times += [judge.seen(gate.AWAKE, nobody), judge.keyed((n, 2**64 - 1))]
        times += [judge.seen(which, nobody) for which in (gate.READY, gate.DONE, gate.HANDED)]
        other.join()
        assert times == sorted(times) and times[-1] - times[0] > 20e6
        assert [*words[gate.KEY * gate.LINE :][:4]] == [n, 0, 2**32 - 1, 2**32 - 1]


def test_a_gate_is_left_where_the_process_has_ended(monkeypatch: pytest.MonkeyPatch):
    room, fd = rooms.make(gate.BYTES)
    os.close(fd)
    judge = gate.Gate(room)
    judge.next()
    monkeypatch.setattr(gate, "SPIN_S", 0.0)

    def ended() -> None:
        raise gate.Ended

    with pytest.raises(gate.Ended):
        judge.seen(gate.READY, ended)


@pytest.mark.parametrize("count", [8, 12, 20, 34])
def test_an_interval_misses_the_median_as_rarely_as_it_says(count: int):
    draws = random.Random(count)
    missed = 0
    for _ in range(3000):
        low, high = interval([draws.expovariate(1.0) for _ in range(count)])
        missed += not low <= 0.6931 <= high
    assert missed <= 3000 * 0.02  # at most 1 in 100, and what chance adds


def test_times_that_vary_are_not_steady():
    assert is_steady([1.0, 1.1, 0.9] * 8) and is_steady([0.001, 0.01] * 8)
    assert not is_steady([1.0, 2.0, 0.5] * 8)


def test_a_disturbed_time_is_that_of_the_least_disturbed_calls():
    calls = tuple(float(n) for n in range(1, 21))
    assert Timing(calls).ms == 10.5 and Timing(calls, busy=0.5).ms == 3.0
    assert Timing().ms is None and Timing((2.0,), busy=1.0).ms == 2.0


BASE = Verdict("p.py", "s.py", "cpu", "", "declared", 1)
TWICE = reject("results", "wrong", Label.INCORRECT, cases=["first", "again"])
ONCE = reject("late_work", "late", cases=["first"])


@pytest.mark.parametrize(
    ("verdict", "needed"),
    [
        (BASE, False),
        (replace(BASE, findings=[minor("aliasing", "shares")]), False),
        (replace(BASE, findings=[TWICE]), False),
        (replace(BASE, findings=[TWICE, ONCE]), False),
        (replace(BASE, findings=[ONCE]), True),
        (replace(BASE, failure=Failure("raised")), True),
        (replace(BASE, failure=Failure("did not end", cause="time")), False),
    ],
)
def test_what_is_seen_once_needs_another_audit(verdict: Verdict, needed: bool):
    assert needs_another(verdict) is needed


def test_a_rejection_stands_where_two_audits_agree():
    rejected, failed = replace(BASE, findings=[ONCE]), replace(BASE, failure=Failure("raised"))
    for first, second in ((rejected, rejected), (failed, failed), (rejected, failed), (failed, rejected)):
        assert confirmed(first, second).state == "rejected"
    for first, second in ((rejected, BASE), (failed, BASE)):
        found = confirmed(first, second)
        assert found.state == "inconclusive" and not found.accepted
        assert "one of two audits" in found.findings[-1].message
    other = replace(BASE, findings=[reject("timers", "replaces time.time")])
    assert confirmed(rejected, other).state == "inconclusive"


COUNTER = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x + self.calls

def get_inputs():
    return [torch.randn(8)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("error", "correct"), [(0.0, True), (0.01, False)])
def test_a_reference_with_state_computes_timed_cases_in_float64_too(error: float, correct: bool):
    """What its float64 copy computes afterwards is as exact as before, and so is what is allowed."""
    problem = Request.of("p.py", COUNTER).to_json()
    asked: Any = {
        "device": "cpu",
        "precision": "declared",
        "problem": problem,
        "seed": 1,
        "draws_there": False,
    }
    reference = referee.Referee(asked)
    cases = (Case("first", seed=1), Case("timed", seed=2, drift=1), Case("last", seed=3))
    answers: list[bool] = []
    for number, case in enumerate(cases, 1):
        (x,) = inputs.make_inputs(reference.problem, case, reference.device)
        result = x + number + error * (case is cases[-1])
        gave = referee.Given(case, [{"dtype": "float32", "shape": [8]}], [result])
        answers.append(bool(reference.judge(gave)["correct"]))
    assert answers == [True, True, correct]


@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_the_places_that_are_compared_are_the_same_on_every_device(size: int):
    flat = torch.arange(size)
    found = inputs.sampled(flat, 7, 1 << 17)
    assert torch.equal(found, inputs.sampled(flat, 7, 1 << 17)) and len(found) == min(size, 1 << 17)
    assert inputs.sampled(torch.empty(size, device="meta"), 7, 1 << 17).shape == found.shape


@pytest.mark.parametrize("shape", [(3, 5), (2, 3 << 18), (1, 5, 1 << 18)])
def test_large_results_are_copied_whole_in_any_order(shape: tuple[int, ...]):
    values = [torch.rand(shape), torch.rand(shape).mT]
    data = torch.zeros(sum(results.padded(v.numel() * 4) for v in values), dtype=torch.uint8)
    written = results.Results(data)
    written.write(values)
    described = [{"dtype": "float32", "shape": list(v.shape)} for v in values]
    for value, got in zip(values, written.read(described), strict=True):
        assert torch.equal(got.view(value.shape), value)
    assert results.snapshot([values[0], 3])[0] is values[0]


def test_pieces_of_large_results_are_copied_in_another_order_each_time():
    value, target = torch.rand(16 << 18), torch.empty(16 << 18)
    real, orders = torch.Tensor.copy_, list[list[int]]()

    def copied(self: Any, other: Any, **options: Any) -> Any:
        orders[-1].append((other.data_ptr() - value.data_ptr()) // results.PIECE)
        return real(self, other, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "copy_", copied)
        for _ in range(3):
            orders.append([])
            results.copy(target, value)
    assert all(sorted(order) == list(range(16)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3 and torch.equal(value, target)


def test_a_solution_writes_no_lines_of_a_verdict():
    said = "no\np.py: No Issues, accepted"
    verdict = replace(BASE, failure=Failure(said), findings=[reject("results", said)])
    assert not any(line.startswith("p.py: No Issues") for line in verdict.as_text().splitlines())


def test_a_busy_machine_says_nothing_of_other_sizes():
    stated = Verdict("problem.py", "solution.py", "cpu", "", "declared", 1)
    busy = replace(stated, findings=[unsure("noise", "did not end within 3000 s")])
    found = with_other_shapes(stated, "n = 4096\nm = n\n", lambda text: busy)
    assert found.accepted and "not judged at smaller sizes: did not end" in found.as_text()


class Later(float):
    """A number that is asked for its class."""

    @property
    def __class__(self):
        raise AssertionError("this code is the solution's")


def test_numbers_are_taken_as_they_are_when_a_call_returns():
    found = candidate._results([Later(0.5), -0.0, 3, True])  # pyright: ignore[reportPrivateUsage]
    assert [type(v) for v in found] == [float, float, int, bool]
    assert found == [0.5, 0.0, 3, True] and str(found[1]) == "-0.0"


def test_views_that_compute_when_they_are_read_are_compared():
    values = torch.complex(torch.rand(4, 3), torch.rand(4, 3))
    same = candidate._same  # pyright: ignore[reportPrivateUsage]
    assert same(values.conj(), values.conj().clone()) and not same(values.conj(), values)
