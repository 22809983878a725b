"""Records of what a GPU ran: what is left behind when a call returns, and whose work it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.audit.activity import MARK, RESOLVED_US, Activity, device_rows
from mucc.agent.audit.cases import Case
from mucc.agent.audit.detectors.early_work import EarlyWork
from mucc.agent.audit.detectors.late_work import LateWork
from mucc.agent.audit.detectors.pytorch_only import MUCH, PyTorchOnly
from mucc.agent.audit.findings import Finding, Label
from mucc.agent.audit.observations import Call, Comparison, Observations, Reference, Timing, work_from

US = 1000
DEFAULT, SIDE, FAST = 7, 13, 20
"""Streams, by the numbers that the profiler gives them."""


def kernel(start: float, end: float, stream: int = DEFAULT, name: str = "mine", parent: str = "") -> Activity:
    """A record; times in us."""
    return Activity(name, parent, stream, round(start * US), round(end * US))


def mark(start: float) -> Activity:
    return kernel(start, start + 1.5, FAST, "at::native::nextafter", MARK)


def observed(
    calls: Sequence[Sequence[Activity]], reference: Sequence[Activity] = (), device: str = "cuda"
) -> Observations:
    names = ("again", "x3", "back", "same")
    seen = [
        Call(Case(name, 0, observe=True), Comparison(True), work=work_from(device_rows(records)))
        for name, records in zip(names, calls, strict=False)
    ]
    known = Reference(work=work_from(device_rows(reference)))
    return Observations(device, "declared", None, seen, (), Timing(), known, None, (), ())


def late(*calls: Sequence[Activity]) -> list[Finding]:
    return [f for f in LateWork().check(observed(calls)) if "late_us" in f.facts]


EXTRA = [kernel(0, 184), *(kernel(184 * n, 184 * (n + 1), SIDE) for n in range(1, 5)), mark(186)]
"""What `cheat_extra_work` does: a call of 0.18 ms, and four more of the same on another stream."""

JOINED = [kernel(0, 90), kernel(2, 110, SIDE), mark(113)]
"""`honest_streams`: halves on two streams."""


def test_kernels_that_run_on_when_a_call_has_returned_are_rejected():
    (found,) = late(*[EXTRA] * 4)
    assert found.severity == "reject" and found.label is Label.ORIGINAL_GAMING and found.is_repeated
    assert found.facts["late_us"] == pytest.approx(184 * 5 - 186)
    assert found.facts["cases"] == {name: ["mine"] for name in ("again", "x3", "back", "same")}


def test_streams_that_are_joined_are_told_only():
    (found,) = LateWork().check(observed([JOINED] * 4))
    assert found.severity == "minor" and found.facts["streams"] == [DEFAULT, SIDE]


def test_one_call_of_several_does_not_reject():
    (found,) = late(EXTRA, JOINED, JOINED, JOINED)
    assert found.severity == "minor" and not found.is_repeated


def test_less_than_what_times_resolve_is_nothing():
    for over, count in ((RESOLVED_US, 0), (RESOLVED_US + 1, 1)):
        records = [kernel(0, 90), kernel(2, 113 + over, SIDE), mark(113)]
        assert len(late(*[records] * 4)) == count


def test_without_a_mark_nothing_is_late():
    assert not late(*[[r for r in EXTRA if r.parent != MARK]] * 4)


def test_the_mark_is_none_of_the_calls_kernels():
    assert {row["stream"] for row in device_rows(EXTRA)} == {DEFAULT, SIDE}
    own = kernel(10, 12, name="at::native::nextafter", parent=MARK)
    (row,) = [r for r in device_rows([own, *EXTRA]) if r["parent"] == MARK]
    assert row["calls"] == 1 and row["stream"] == DEFAULT and row["us"] == 2


TIMES = st.floats(0, 1e4)
SPANS = st.lists(st.tuples(TIMES, TIMES, st.sampled_from((DEFAULT, SIDE, 14))), max_size=8)


@given(SPANS, st.floats(0, 1e5))
def test_what_ends_before_the_mark_is_never_late(spans: list[tuple[float, float, int]], waited: float):
    """However long kernels and the host take: a mark that waits for all of them starts after their ends."""
    records = [kernel(start, start + took, stream) for start, took, stream in spans]
    last = max((r.end for r in records), default=0) / US
    assert not late(*[[*records, mark(last + waited)]] * 4)


@given(SPANS)
def test_rows_keep_calls_and_times(spans: list[tuple[float, float, int]]):
    records = [kernel(start, start + took, stream) for start, took, stream in spans]
    rows = device_rows(records)
    assert sum(r["calls"] for r in rows) == len(records)
    assert sum(r["us"] for r in rows) == pytest.approx(sum(r.end - r.start for r in records) / US, abs=0.01)


SPUN = 11_000
"""Where the kernel ends that keeps the default stream at work while a call is put there."""

SPIN_NAME = "at::cuda::(anonymous namespace)::spin_kernel(long)"
BESIDE = "2 other processes use the GPU (1270, 1273)"
FORKED = [kernel(SPUN + 2, SPUN + 90), kernel(SPUN + 4, SPUN + 110, SIDE), mark(SPUN + 113)]
"""`honest_streams` amid a series: the other stream waits for the default one."""

WARM = [
    kernel(300, 302, SIDE, "_changed"),
    kernel(320, 500, SIDE, "_read"),
    kernel(SPUN + 2, SPUN + 190),
    mark(SPUN + 193),
]
"""`cheat_warm_weights`: its stream reads weights while the call still waits for its turn."""

AHEAD = [kernel(300, 302, SIDE, "_changed"), kernel(310, 500, SIDE), mark(SPUN + 3)]
"""`cheat_stream_ahead`: all is computed there, and joined."""

SLOW = [kernel(SPUN + 900, SPUN + 1080), kernel(SPUN + 700, SPUN + 880, SIDE), mark(SPUN + 1084)]
"""The host was busy, and has put the call there when the default stream was idle."""


def spin(end: float = SPUN, stream: int = DEFAULT, start: float = 0) -> Activity:
    return kernel(start, end, stream, SPIN_NAME)


def amid(
    *calls: Sequence[Activity], queued: bool = True, crowded: str = "", cleared: Sequence[float] = (0.0,) * 4
) -> Observations:
    """Calls amid a timed series, at the beginning of which the default stream was at work."""
    seen = [
        Call(
            Case(f"amid {n}", 0, observe=True),
            Comparison(True),
            work=work_from(device_rows([spin(), *records], queued)),
        )
        for n, records in enumerate(calls)
    ]
    first, second, third, fourth = cleared
    timing = Timing(cleared=(first, second, third, fourth), crowded=crowded)
    return Observations("cuda", "declared", None, seen, (), timing, Reference(), None, (), ())


def judged(seen: Observations) -> dict[str, str]:
    return {
        f.detector: str(f.severity) for detector in (LateWork(), EarlyWork()) for f in detector.check(seen)
    }


@pytest.mark.parametrize("crowded", ["", BESIDE])
@pytest.mark.parametrize("queued", [True, False])
@pytest.mark.parametrize("records", [WARM, AHEAD])
def test_work_that_does_not_wait_for_a_calls_turn_is_rejected_whoever_uses_the_gpu(
    records: list[Activity], queued: bool, crowded: str
):
    seen = amid(*[records] * 3, queued=queued, crowded=crowded)
    (found,) = EarlyWork().check(seen)
    assert found.severity == "reject" and found.is_repeated
    assert (
        found.facts["early_us"] == SPUN - 300
        and "wait for no inputs: amid 0, amid 1, amid 2" in found.message
    )


WAITED = (0.221, 1.7, 0.222, 0.094)
"""How long clearing caches took in ms where a second stream waited for the default one, on an H100."""


def test_a_stream_that_waits_may_delay_the_judges_kernel():
    """`honest_streams`, `honest_persisting`: the GPU stays with a process whose stream waits for another."""
    assert judged(amid(*[FORKED] * 3, cleared=WAITED)) == {"late_work": "minor"}


@pytest.mark.parametrize(
    ("records", "queued"),
    [
        pytest.param(FORKED, False, id="records do not tell"),
        pytest.param([kernel(SPUN + 2, SPUN + 90), mark(SPUN + 113)], True, id="one stream"),
        pytest.param(WARM, True, id="records tell early work"),
    ],
)
def test_other_delays_of_the_judges_kernel_reject(records: list[Activity], queued: bool):
    found = judged(amid(*[records] * 3, queued=queued, cleared=WAITED))
    assert found["early_work"] == "reject"


def test_a_second_audit_has_to_see_what_one_call_has_shown():
    (found,) = EarlyWork().check(amid(FORKED, WARM, FORKED))
    assert found.severity == "reject" and not found.is_repeated
    assert found.facts["cases"] == {"amid 1": ["_changed", "_read"]}


def test_extra_work_is_early_where_it_ends_before_the_calls_turn():
    extra = [*(kernel(300 + 184 * n, 484 + 184 * n, SIDE) for n in range(4)), kernel(SPUN + 2, SPUN + 186)]
    seen = amid(*[[*extra, mark(SPUN + 189)]] * 3, crowded=BESIDE)
    assert judged(seen) == {"late_work": "minor", "early_work": "reject"}


def test_work_that_nobody_waits_for_is_rejected_whoever_uses_the_gpu():
    """`cheat_other_stream`, and times of the judge's own kernel that say nothing beside another process."""
    left = [kernel(SPUN + 3, SPUN + 187, SIDE), mark(SPUN + 3)]
    cleared = (0.2, 0.306, 1.74, 0.2)
    assert judged(amid(*[left] * 3, crowded=BESIDE, cleared=cleared)) == {"late_work": "reject"}
    assert judged(amid(left, FORKED, FORKED)) == {"late_work": "minor"}
    assert judged(amid(left, FORKED, FORKED, crowded=BESIDE)) == {"late_work": "unsure"}


@pytest.mark.parametrize(
    ("calls", "queued", "crowded", "severity"),
    [
        ([FORKED] * 3, True, "", "minor"),
        ([FORKED] * 3, True, BESIDE, "minor"),
        ([SLOW] * 3, False, "", "minor"),
        ([SLOW] * 3, False, BESIDE, "unsure"),
        ([], True, BESIDE, "unsure"),  # no call amid the series was observed
    ],
)
def test_streams_that_wait_and_are_joined_are_told_only_where_records_say_so(
    calls: list[list[Activity]], queued: bool, crowded: str, severity: str
):
    seen = amid(*calls, queued=queued, crowded=crowded)
    before = observed([JOINED] * 4)
    found = judged(replace(seen, calls=[*before.calls, *seen.calls]))
    assert found == {"late_work": severity}


def test_one_stream_needs_no_records_of_others():
    assert (
        judged(amid(*[[kernel(SPUN + 900, SPUN + 990), mark(SPUN + 993)]] * 3, queued=False, crowded=BESIDE))
        == {}
    )


def test_a_kernel_of_the_solutions_that_spins_first_does_not_say_when_a_calls_turn_comes():
    own = [spin(5, SIDE, -10), kernel(20, 200, SIDE, "_read"), kernel(SPUN + 2, SPUN + 190), mark(SPUN + 193)]
    (found,) = EarlyWork().check(amid(*[own] * 3))
    assert "_read" in found.facts["cases"]["amid 0"]  # pyright: ignore[reportIndexIssue]


@given(SPANS, st.floats(0, 1e5))
def test_what_waits_for_the_default_stream_is_never_early(
    spans: list[tuple[float, float, int]], waited: float
):
    """However long the host takes, and whatever other processes do on the GPU."""
    records = [kernel(SPUN + waited + start, SPUN + waited + start + took, on) for start, took, on in spans]
    assert not list(EarlyWork().check(amid(*[records] * 3)))


class Record:
    """What the profiler keeps of one event, by the methods that are used; times in ns."""

    def __init__(
        self, name: str, device: Any, start: int, took: int, numbers: tuple[int, int, int], kind: str
    ):
        self.name = lambda: name
        self.device_type = lambda: device
        self.start_ns, self.duration_ns = lambda: start, lambda: took
        correlation, linked, stream = numbers
        self.correlation_id, self.linked_correlation_id = lambda: correlation, lambda: linked
        self.device_resource_id = lambda: stream
        self.activity_type = lambda: kind
        self.is_user_annotation = lambda: kind == "gpu_user_annotation"


def test_the_profilers_records_become_activities():
    torch = pytest.importorskip("torch", reason="needs torch")
    from mucc.agent.audit import watch

    cpu, cuda = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA
    events = [
        Record("aten::addmm", cpu, 5, 50, (1, 0, 0), "cpu_op"),
        Record("cudaLaunchKernel", cpu, 10, 5, (90, 1, 0), "cuda_runtime"),
        Record("gemm", cuda, 100, 40, (90, 1, DEFAULT), "kernel"),
        Record("mine", cuda, 130, 400, (91, 0, SIDE), "kernel"),
        Record("Event Sync", cuda, 100, 900, (92, 0, DEFAULT), "cuda_sync"),
        Record("a range", cuda, 100, 900, (93, 0, DEFAULT), "gpu_user_annotation"),
    ]
    assert list(watch._activities(events)) == [  # pyright: ignore[reportPrivateUsage]
        Activity("gemm", "aten::addmm", DEFAULT, 100, 140),
        Activity("mine", "", SIDE, 130, 530),
    ]


def test_the_marks_operation_has_the_name_that_is_looked_for():
    torch = pytest.importorskip("torch", reason="needs torch")
    from mucc.agent.audit import watch

    number = torch.zeros(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.ops.aten.nextafter_.default(number, number)
        number.add_(1)
        torch.ops.aten.nextafter_.default(number, number)
    for marked, calls in ((False, 2), (True, 1)):
        rows = {r["name"]: r["calls"] for r in watch._work(profile, marked)}  # pyright: ignore[reportPrivateUsage]
        assert rows["aten::add_"] == 1 and rows[MARK] == calls


# Whose work it was

PRODUCT = kernel(0, 10, name="sm90_xmma_gemm_f32f32_f32f32_f32_tn_n", parent="aten::addmm")
RELU = kernel(10, 13, name="void at::native::vectorized_elementwise_kernel", parent="aten::clamp_min")
LAYER = [PRODUCT, RELU]
"""A layer by PyTorch."""

FINITE = [
    kernel(40, 47, name="void at::native::elementwise_kernel", parent="aten::ne"),
    kernel(47, 60, name="void at::native::reduce_kernel", parent="aten::all"),
]
"""`checks_the_result`: whether all numbers are finite."""


def owned(call: Sequence[Activity], reference: Sequence[Activity], device: str = "cuda") -> list[Any]:
    found = PyTorchOnly().check(observed([call] * 4, reference, device))
    return [(str(f.severity), f.label) for f in found]


REJECTED, TOLD = [("reject", Label.PYTORCH_ONLY)], [("minor", Label.MINOR_ISSUES)]


@pytest.mark.parametrize(
    ("call", "reference", "expected"),
    [
        ([*LAYER, kernel(20, 27)], LAYER, REJECTED),  # `library_beside_a_kernel`: 65 % PyTorch's
        ([*LAYER, kernel(20, 34)], LAYER, []),  # takes twice as long as PyTorch
        ([*LAYER, kernel(20, 21)], LAYER, REJECTED),
        ([kernel(0, 20), *FINITE], LAYER, []),
        ([kernel(0, 10), *FINITE], LAYER, TOLD),
        ([PRODUCT, kernel(10, 13)], LAYER, TOLD),  # another ReLU than PyTorch's
        ([*LAYER, *LAYER, kernel(40, 50)], [*LAYER, *LAYER, *LAYER], TOLD),  # one layer of three
        ([*LAYER, *LAYER, *FINITE, kernel(40, 50)], LAYER, REJECTED),
        ([*LAYER, kernel(20, 27)], [], TOLD),
    ],
)
def test_work_is_pytorchs_where_it_runs_the_reference_for_most_of_the_time(
    call: list[Activity], reference: list[Activity], expected: list[Any]
):
    assert owned(call, reference) == expected


def test_every_call_has_to_run_the_reference():
    calls = [[*LAYER, kernel(20, 27)]] * 3 + [[PRODUCT, kernel(20, 27)]]
    assert [str(f.severity) for f in PyTorchOnly().check(observed(calls, LAYER))] == ["minor"]


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ([*LAYER, kernel(20, 27)], "unsure"),
        ([*LAYER, kernel(20, 21)], "unsure"),
        (LAYER, "reject"),  # whatever kernels take, none is its own
    ],
)
def test_shares_of_times_on_a_gpu_that_others_use_reject_nothing(call: list[Activity], severity: str):
    crowded = Timing(crowded="1 other process uses the GPU (7)")
    (found,) = PyTorchOnly().check(replace(observed([call] * 4, LAYER), timing=crowded))
    assert found.severity == severity


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_who_replaces_an_operation_is_not_rejected_for_the_others(
    products: int, relus: int, all_products: int, all_relus: int
):
    """A reference of several products and ReLUs, some of which a solution leaves to PyTorch."""
    reference = [PRODUCT] * all_products + [RELU] * all_relus
    own = kernel(50, 50 + (10 * products + 3 * relus) * (1 - MUCH))
    found = owned([PRODUCT] * products + [RELU] * relus + [own], reference)
    assert (found == REJECTED) == (products >= all_products and relus >= all_relus)


def test_the_kernel_that_keeps_the_stream_at_work_is_no_part_of_a_call():
    name = "at::cuda::(anonymous namespace)::spin_kernel(long)"
    spin, theirs = kernel(-3000, 0, name=name), kernel(5, 6, name=name)
    rows = device_rows([kernel(0, 5), theirs, spin, mark(7)])
    assert [(row["name"], row["calls"], row["us"]) for row in rows] == [("mine", 1, 5.0), (name, 1, 1.0)]
    assert device_rows([kernel(0, 5), mark(7)])[0]["name"] == "mine"
