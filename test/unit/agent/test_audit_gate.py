"""The judge's side of a call on a GPU, with a thread in the place of the GPU's stream."""

from __future__ import annotations

import threading
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import gate, timing  # noqa: E402 (they need torch)
from mucc.agent.audit.cases import Case  # noqa: E402
from mucc.agent.audit.crowds import crowd  # noqa: E402
from mucc.agent.audit.detectors import findings, timers  # noqa: E402
from mucc.agent.audit.findings import Severity  # noqa: E402
from mucc.agent.audit.observations import Observations, Reference, Timing  # noqa: E402
from mucc.agent.audit.rooms import make  # noqa: E402

HONEST = (
    ("wait", gate.OPEN),
    ("mark", gate.COPIED),
    ("wait", gate.COLD),
    ("mark", gate.AWAKE),
    ("wait", gate.KEYED),
    ("mark", gate.READY),
    ("mark", gate.DONE),
    ("mark", gate.HANDED),
)
"""What the runner puts into the stream for a call, whatever the solution adds between the last marks."""

FORGED = (*HONEST[:3], ("mark", gate.DONE), *HONEST[3:6], HONEST[7])
"""The same with a mark for the end of work that somebody writes before the key is there."""

CALLS = 40


def stream(room: Any, steps: Any, go: threading.Event) -> None:
    """Execute the steps of all calls in their order, as the GPU does."""
    words = memoryview(room.memory).cast("I")
    for number in range(1, CALLS + 1):
        for kind, which in steps:
            if kind == "mark":
                words[which * gate.LINE] = number
            while kind == "wait" and words[which * gate.LINE] < number:
                if go.is_set():
                    return


class Quiet:
    """A line to the parent, and one to the candidate's process that says each call has been started."""

    def say(self, answer: dict[str, Any]) -> None: ...

    def heard(self) -> dict[str, Any]:
        return {}

    def send(self, data: bytes) -> None: ...

    def receive(self, seconds: float | None = None) -> bytes:
        return b"D"


def forged(steps: Any) -> list[str]:
    """Lead calls through the gate; return those whose marks came before they could begin."""
    room, _ = make(gate.BYTES)
    made: Any = timing.Stopwatch.__new__(timing.Stopwatch)
    made.line = made.wire = Quiet()
    found: list[str] = []
    made.host, made.cleared, made.begun, made.forged, made.ready_ns = [], [], [], found, 0
    made._masked, made._clear, made._alive = key, int, int
    own, ended = gate.Gate(room), threading.Event()
    thread = threading.Thread(target=stream, args=(room, steps, ended), daemon=True)
    thread.start()
    try:
        for n in range(CALLS):
            own.next()
            made._gated(Case(f"timed {n}", n), own)
    finally:
        ended.set()
        thread.join()
    return found


def key(case: Case) -> tuple[int, int]:
    return 1, 2


def test_a_stream_that_waits_for_its_key_has_forged_nothing():
    assert forged(HONEST) == []


def test_marks_before_the_key_are_forged():
    found = forged(FORGED)
    assert found == [f"timed {n}" for n in range(CALLS)]
    held = Timing(forged=tuple(found))
    seen = Observations("cuda", "declared", None, [], [], held, Reference(), None, [], [])
    (said,) = timers.Timers().check(seen)
    assert said.severity is Severity.REJECT and said.is_repeated


@pytest.mark.parametrize("crowded", [crowd({7, 8}, 0, 0, 0), crowd((), 0.2, 0, 0), crowd((), 0, 2.0, 0.2)])
def test_other_processes_alone_decide_nothing(crowded: str):
    """They only make what would reject inconclusive: no detector finds fault with their being there."""
    held = Timing((1.0,) * 9, crowded=crowded, cleared=(0.1, 0.1, 0.1, 0.1))
    seen = Observations("cuda", "declared", None, [], [], held, Reference(), None, [], [])
    assert crowded
    assert [f for f in findings(seen) if f.severity in (Severity.REJECT, Severity.UNSURE)] == []
