"""How a call on a CPU is timed: its process stands still while inputs come and results are read."""

from __future__ import annotations

import secrets
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import processes, timing  # noqa: E402 (they need torch)
from mucc.agent.audit.cases import Case  # noqa: E402
from mucc.agent.audit.described import ranges  # noqa: E402 (it needs torch)
from mucc.agent.audit.looking import (  # noqa: E402
    AT_REST_NS,
    MORE_NS,
    RESTS,
    SETTLING,
    STEP,
    STEPS,
    WAKING_NS,
    Looker,
)
from mucc.agent.audit.moments import LONG_MS, LOOKS, moments  # noqa: E402
from mucc.agent.audit.peeks import ELEMENTS, Peek  # noqa: E402 (it needs torch)
from mucc.agent.audit.places import Look  # noqa: E402
from mucc.agent.audit.rooms import Wire  # noqa: E402
from mucc.agent.audit.threads import SMALL, bytes_of, few  # noqa: E402
from mucc.agent.audit.times import Times  # noqa: E402
from mucc.agent.audit.trial import Trial  # noqa: E402
from mucc.api.processes import Place  # noqa: E402


class Parent:
    """The parent and the candidate's process, as the judge sees them; `did` is what happened."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.words = [b"D[]", b"C"]
        self.answers: list[Any] = []

    def say(self, answer: dict[str, Any]) -> None:
        self.did.append(next(iter(answer)))
        self.looks: list[float] = answer.get("look", [])

    def heard(self) -> dict[str, Any]:
        return self.answers.pop(0) if self.answers else {"at": 5}

    def send(self, data: bytes) -> None:
        self.did.append(data.decode())

    def drain(self) -> None:
        self.did.append("drain")

    def receive(self, seconds: float | None = None) -> bytes:
        word = self.words.pop(0)
        self.did.append(word.decode())
        return word


def stopwatch(parent: Parent, size: int = 64) -> Any:
    made: Any = timing.Stopwatch.__new__(timing.Stopwatch)
    made.line, made.wire, made.host_clock, made.waited = parent, parent, object(), 0
    made.usual, made._held = [2.0, 6.0, 4.0], None
    made.peek = Peek(parent)  # pyright: ignore[reportArgumentType]
    made.lender = SimpleNamespace(results=SimpleNamespace(data=torch.arange(size)))

    def show(case: Case) -> None:
        parent.did.append("show")

    made._shown = show
    return made


def test_inputs_are_shown_while_the_process_stands_still():
    parent = Parent()
    started, returned, handed = stopwatch(parent)._handed(Case("timed 1", 1, call=7))
    assert parent.did == ["show", "G7", "go", "D[]", "C", "done"]
    assert started == 5 and returned <= handed


class Told(Parent):
    """A candidate's process that hears what a call is to be, and is ready."""

    def send(self, data: bytes) -> None:
        self.message = data

    def receive(self, seconds: float | None = None) -> bytes:
        return b"R"


def nothing(*_: object) -> None:
    """Stand for what is not looked at."""


def prepared(case: Case) -> dict[str, object]:
    return {"slot": 0, "args": {}, "seed": case.call}


def bytes_of_none(case: Case) -> int:
    return 0


def test_what_a_call_draws_is_not_known_before_it_starts():
    """Else a thread could draw it while the process waits for its inputs."""
    parent = Told()
    made = stopwatch(parent)
    made.gate, made._flushed, made._measured = None, nothing, nothing
    made.lender.prepare, made.lender.size = prepared, bytes_of_none
    made._timed(Case("timed 1", 1, call=7))
    assert b"seed" not in parent.message


def test_results_of_a_call_that_is_watched_are_read_when_it_has_returned():
    parent = Parent()
    parent.words[0] = b"D[[4096, 4, [2], [1]]]"
    parent.answers = [{"at": 5}, {"data": ["00"] * ELEMENTS}]
    made = stopwatch(parent)
    made._handed(Case("timed 1", 1, watched=True))
    assert parent.did[3:] == ["D[[4096, 4, [2], [1]]]", "peek", "C", "done"]
    described: list[Any] = [{"dtype": "float32", "shape": [2]}]
    made.peek.compare("timed 1", described, torch.ones(64, dtype=torch.uint8))
    assert made.peek.unready == ["timed 1"]


def test_a_call_that_is_watched_has_to_tell_where_its_results_lie():
    """Who says that it has returned before it has computed does not know these addresses' bytes yet."""
    parent = Parent()
    parent.words *= 2
    made = stopwatch(parent)
    made._handed(Case("timed 1", 1, watched=True))
    described: list[Any] = [{"dtype": "float32", "shape": [2]}]
    made.peek.compare("timed 1", described, torch.ones(64, dtype=torch.uint8))
    assert made.peek.unready == ["timed 1"]
    made._handed(Case("timed 2", 2))
    made.peek.compare("timed 2", described, torch.ones(64, dtype=torch.uint8))
    assert made.peek.unready == ["timed 1"], "one that is not watched is not asked"


@pytest.mark.parametrize(
    "said", [b"", b"5", b"[5]", b"[[1, 2]]", b'[["a", 4, [2], [1]]]', b"[[8, 4, [2], [1, 1]]]"]
)
def test_what_is_no_place_ends_the_series(said: bytes):
    parent = Parent()
    parent.words[0] = b"D" + said
    with pytest.raises(ValueError):
        stopwatch(parent)._handed(Case("timed 1", 1, watched=True))
    assert parent.did[-1] == "done"


def test_caches_are_flushed_while_the_process_stands_still():
    """Else a thread of it could read weights back into the caches before its call begins."""
    parent = Parent()
    made = stopwatch(parent)
    made.host_clock = SimpleNamespace(flush=lambda: parent.did.append("flush"))
    parent.words = [b"A"]
    made._flushed()
    assert parent.did == ["W", "A", "hold", "flush"]


def test_small_results_beside_large_ones_are_read_at_once():
    """A result of four bytes that is filled in late is noticed, and nobody foresees which bytes are read."""
    made = stopwatch(Parent())
    large, seen = 1 << 20, list[Any]()
    described = [{"dtype": "uint8", "shape": [large]}, {"dtype": "float32", "shape": [1]}]
    made.lender.ranges = ranges(described, large + 64)
    made.lender.results = SimpleNamespace(data=torch.zeros(large + 64), size=large + 64)
    for _ in range(2):
        torch.manual_seed(5)  # as inputs are made
        made._places = torch.Generator().manual_seed(secrets.randbits(63))
        places, read = made._spots()
        assert len(places) == timing.SPOT + 4 and torch.equal(read, made.lender.results.data[places])
        assert all(large <= int(at) < large + 4 for at in places[-4:])
        seen.append(places)
    assert not torch.equal(*seen)


def test_ranges_are_where_results_lie():
    described = [{"dtype": "float32", "shape": [3]}, {"value": 1}, {"dtype": "int64", "shape": [2]}]
    assert ranges(described, 1 << 20) == [(0, 12), (64, 80)] and ranges(described, 70) == [(0, 12)]


@pytest.mark.parametrize(("usual", "count"), [(4.0, 1), (LONG_MS, LOOKS)])
def test_a_call_that_is_watched_is_stopped_while_it_lasts(usual: float, count: int):
    drawn = [moments([usual, 0.1, 99.0]) for _ in range(20)]
    assert all(len(m) == count and m == sorted(m) and m[0] >= 0 and m[-1] <= usual for m in drawn)
    assert len({m[0] for m in drawn}) == len(drawn), "nobody can foresee them"
    assert moments([]) == []


def test_the_parent_is_asked_for_the_time_when_the_process_ends_in_a_call():
    parent = Parent()
    parent.words = [b""]
    with pytest.raises(timing.Ended):
        stopwatch(parent)._handed(Case("timed 1", 1))
    assert parent.did[-1] == "done"


def test_a_word_that_does_not_come_ends_the_wait():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        made = stopwatch(Parent())
        made.wire = Wire(ours.detach())
        with pytest.raises(TimeoutError):
            made._expect(b"R", 0.01)
        theirs.send(b"R")
        made._expect(b"R", 0.01)


def test_a_look_at_what_has_come_does_not_wait():
    """A call that waits for a library that is being loaded sends no word for long, and that is no fault."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        wire = Wire(ours.detach())
        with pytest.raises(TimeoutError):
            wire.receive(0.01)
        with pytest.raises(BlockingIOError):
            wire.peek()
        theirs.send(b"D")
        assert wire.peek() == wire.receive() == b"D"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (timing.Ended(timing.CLOSED), "closed its connection"),
        (TimeoutError(), f"no answer for {timing.ANSWERING:g} s"),
        (ConnectionResetError(), "closed its connection"),
        (ValueError(), "described its results"),
    ],
)
def test_who_ends_a_series_is_told_by_what_was_seen(error: Exception, said: str):
    made: Any = timing.Stopwatch.__new__(timing.Stopwatch)
    made.begun, made.cleared, made.left, made.usual, made.forged, made.gate = [], [], [], [], [], None
    made.overhead, made.wire, made.peek = 0.0, Parent(), Peek(SimpleNamespace())  # pyright: ignore[reportArgumentType]

    def timed(case: Case) -> None:
        raise error

    made._timed = timed
    assert said in made.series([Case("timed 1", 1)], 1.0, 1)["ended"]


def test_another_word_than_what_is_due_is_told():
    made = stopwatch(parent := Parent())
    parent.words = [b"C"]
    with pytest.raises(timing.Ended, match="sent b'C' to the judge where b'D' was due"):
        made._expect(b"D")


def test_results_are_read_while_the_process_stands_still():
    parent = Parent()
    held, copied = stopwatch(parent)._copied()
    assert parent.did == ["hold", "go"] and torch.equal(held, torch.arange(64)) and copied > 0


def test_what_handing_over_takes_is_measured_in_memory_that_was_written_before():
    """Memory that is new takes five times as long, and a call that computes while results are fetched would
    have that time for itself."""
    made = stopwatch(Parent())
    first, second = (made._copied()[0] for _ in range(2))
    assert first.data_ptr() == second.data_ptr()
    made.lender.results.data = torch.arange(65)
    assert torch.equal(made._copied()[0], torch.arange(65))


class Children:
    """A judge's process that asks, and a candidate's that is stopped."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = [{"hold": True}, {"go": True}, {"done": True}, {"times": [1]}]
        self.told: list[Any] = []
        self.scheduled = iter([(0, 1_000_000_000), (0, 1_250_000_000)])
        self.spent = iter([10_000, 10_000 + AT_REST_NS])
        self.threads: list[list[Place]] | None = [[Place("", 0)]]
        self.helped: dict[int, int] = {}
        self.new: list[int] = []

    def answer(self, *, counts: bool) -> dict[str, Any]:
        assert not counts, "the judge waits for the other process"
        return self.asked.pop(0)

    def tell(self, *requests: Any) -> None:
        self.told += requests

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> int:
        return 7

    def escaped(self) -> list[int]:
        return self.new

    def helpers(self) -> list[int]:
        return [*self.helped]

    def spent_ns(self, *pids: int) -> int:
        return self.helped[pids[0]] if pids else next(self.spent)

    def demand_ns(self, *pids: int) -> int:
        return sum(self.helped[pid] for pid in pids)

    def libraries(self) -> tuple[str, ...]:
        return ()

    def working(self) -> list[list[Place]] | None:
        return self.threads

    def scheduled_ns(self) -> tuple[int, int]:
        return next(self.scheduled)

    def has_answer(self) -> bool:
        return False

    def read(self, places: Any) -> list[str | None]:
        return ["00"] * len(places)


def test_the_parent_stops_the_process_as_the_judge_says(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "PROCESSORS", 1e9)
    children = Children()
    children.asked[1] |= {"name": "timed 3", "look": []}
    made = led(children)
    assert made._led() == {"times": [1]}
    assert children.told == ["pause", "pause", {"held": True}, {"at": 7}]
    assert made._waited == pytest.approx(0.25, abs=1e-3) and made._looker.restless == []


def test_the_parent_reads_results_when_a_call_has_returned():
    children = Children()
    children.asked = [{"hold": True}, {"go": True, "name": "timed 3", "look": []}, {"peek": [[4096, 4]]}]
    children.asked += [{"done": True}, {"times": [1]}]
    made = led(children)
    made._led()
    assert children.told[-3:] == [{"at": 7}, "pause", {"data": ["00"]}]


def test_a_look_ends_with_its_call(monkeypatch: pytest.MonkeyPatch):
    looker = Looker(Children())  # pyright: ignore[reportArgumentType]
    looker.is_open = True
    looker.look("timed 4", time.perf_counter_ns(), [1e9], ended=lambda: True)
    assert list(looker.taken([])) == []


def test_processes_that_a_call_has_started_are_seen():
    children = Children()
    children.spent = iter([0] * 9)
    looker = Looker(children)  # pyright: ignore[reportArgumentType]
    looker.is_open = True
    looker.stop()
    looker.start("timed 4")
    children.helped = {11: 0}
    looker.look("timed 4", 7, [0.0])
    call = Case("timed 4", 1), Times(0.0, 1e12, 0.0, 0)
    assert [look.started for look in looker.taken([call])] == [True]


def led(children: Children) -> Any:
    made: Any = Trial.__new__(Trial)
    made.judge = made.candidate = children
    made._waited, made._looker = 0.0, Looker(children)  # pyright: ignore[reportArgumentType]
    return made


def test_a_process_that_runs_while_it_is_stopped_is_noticed():
    children = Children()
    children.asked[1] |= {"name": "timed 3", "look": []}
    children.spent = iter([10_000, 10_001 + AT_REST_NS])
    made = led(children)
    made._led()
    assert made._looker.restless == ["timed 3"]


def test_processes_that_are_not_stopped_as_new_ones_come_all_the_time_are_noticed():
    children = Children()
    children.asked[1] |= {"name": "timed 3", "look": []}
    children.new = [17]
    made = led(children)
    made._led()
    assert made._looker.restless == ["timed 3"]


def test_the_parent_looks_where_threads_are_while_a_call_lasts():
    children = Children()
    children.asked[1] |= {"name": "timed 3", "look": [0.0, 0.1]}
    made = led(children)
    made._led()
    assert children.told == ["pause", "pause", {"held": True}, "pause", "pause", {"at": 7}]
    looker = made._looker
    watched, (first, second) = Case("timed 3", 1, watched=True), looker._seen
    assert first.case == second.case == "timed 3" and made._waited == 0.0
    assert list(looker.taken([(watched, Times(0.0, 0.0, 0.0, first.ns))])) == [], "it had returned"
    looker._seen = [first]
    assert list(looker.taken([(watched, Times(0.0, 1e-6, 0.0, first.ns))])) == [Look("timed 3")]
    children.threads = None
    looker.look("timed 4", 7, [0.0])
    assert list(looker.taken([])) == [Look("timed 4", hidden=True)]


def test_work_of_other_processes_is_that_of_calls_alone():
    children = Children()
    looker = Looker(children)  # pyright: ignore[reportArgumentType]
    children.spent = iter([0] * 100)
    children.helped = {11: 0}

    def took(ns: int, case: str = "") -> None:
        looker.stop()
        looker.start(case) if case else looker.go_on()
        children.helped[11] += ns
        looker.stop()

    for n in range(5):
        took(20_000)  # it was stopped, and waits again
        took(40_000, f"waits {n}")
    assert looker.helped == []
    took(2 * 20_000 + MORE_NS, "little")
    took(2 * 20_000 + MORE_NS + 1, "works")
    assert looker.helped == ["works"]
    looker.stop()
    looker.start("stopped amid")
    looker.is_open = True
    looker.look("stopped amid", 0, [0.0])
    children.helped[11] += 10**9
    looker.stop()
    assert looker.helped == ["works"]
    for _ in range(20):
        took(10**9)  # to work between calls hides nothing
    took(2 * WAKING_NS + MORE_NS + 1, "works too")
    assert "works too" in looker.helped


def test_a_series_begins_when_processes_of_the_solution_are_at_rest(monkeypatch: pytest.MonkeyPatch):
    children, slept = Children(), list[float]()
    looker = Looker(children)  # pyright: ignore[reportArgumentType]
    busy = iter([*[2 * RESTS * STEP] * 4, *[0.5 * RESTS * STEP] * 100])

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        children.helped[11] += int(next(busy) * 1e9)
        if len(slept) == 6:
            children.helped[12] = 0

    monkeypatch.setattr(time, "sleep", sleep)
    looker.settle()
    assert not slept, "there are none"
    children.helped = {11: 0}
    looker.settle()
    assert len(slept) == 4 + 2 + STEPS, "one more has started in the sixth step"
    now = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    busy, slept[:] = iter([1.0] * 1000), []
    looker.settle()
    assert len(slept) == SETTLING - 1, "who never rests is not waited for"


def test_processes_that_work_in_calls_on_a_gpu_are_noticed():
    """Nothing is stopped there: the parent reads their time before a call and behind it."""
    children = Children()
    children.asked = [
        {"begins": "timed 1"},
        {"ends": True},
        {"begins": "timed 2"},
        {"ends": True},
        {"times": [1]},
    ]
    children.helped = {7: 0}
    much = 2 * MORE_NS
    spent = iter([0, much, much, much, much, much + 10, much + 10])

    def spent_ns(*pids: int) -> int:
        return next(spent) if pids else 0

    children.spent_ns = spent_ns
    made = led(children)
    assert made._led() == {"times": [1]} and made._looker.helped == ["timed 1"]
    assert children.told.count({"begun": True}) == 2


def test_what_the_smallest_kernel_takes_itself_is_not_subtracted():
    made: Any = timing.Stopwatch.__new__(timing.Stopwatch)
    made.gate, made.overhead = object(), 0.0055
    made.deduct(1.5)
    assert made.overhead == pytest.approx(0.004)
    made.gate = None
    made.deduct(1.5)
    assert made.overhead == pytest.approx(0.004), "words are told, and nothing has stood for a kernel"


def test_one_thread_works_on_few_bytes():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with few(SMALL - 1):
            assert torch.get_num_threads() == 1
        with few(SMALL):
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert bytes_of([torch.zeros(3), 7, torch.zeros(2, dtype=torch.int8)]) == 14
