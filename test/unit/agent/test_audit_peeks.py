"""Results are there when a call has returned: elements are read in its process and compared."""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import candidate, peeks  # noqa: E402 (they need torch)
from mucc.agent.audit.described import BYTES  # noqa: E402
from mucc.agent.audit.detectors.aliasing import Aliasing  # noqa: E402
from mucc.agent.audit.detectors.inputs_modified import InputsModified  # noqa: E402
from mucc.agent.audit.detectors.late_work import LateWork  # noqa: E402
from mucc.agent.audit.observations import Observations, Reference, Timing  # noqa: E402
from mucc.agent.audit.places import Look  # noqa: E402
from mucc.agent.audit.results import Results  # noqa: E402
from mucc.agent.audit.slots import Slot  # noqa: E402
from mucc.api.processes import memory  # noqa: E402


def handed_over(values: list[Any]) -> Any:
    data = torch.zeros(1 << 16, dtype=torch.uint8)
    Results(data).write(values)
    return data


def read(spots: list[peeks.Spot]) -> list[str | None]:
    found = memory(os.getpid(), [(s.address, s.size) for s in spots])
    return [None if data is None else data.hex() for data in found]


RESULTS = {
    "plain": [torch.rand(40, 30)],
    "transposed": [torch.rand(40, 30).t()],
    "expanded": [torch.rand(40, 1).expand(40, 30)],
    "part": [torch.rand(40, 64)[:, 3:33]],
    "several": [torch.rand(3), torch.arange(7), torch.tensor(5.0), torch.empty(0), torch.rand(9).half()],
}


@pytest.mark.parametrize("name", RESULTS)
def test_elements_are_where_they_are_said_to_be(name: str):
    values = RESULTS[name]
    spots = peeks.spots(peeks.places(peeks.told(values)), random.Random(1))
    assert len(spots) == peeks.ELEMENTS * sum(bool(v.numel()) for v in values)
    assert not peeks.differs(spots, read(spots), handed_over(values))


def test_what_changes_on_the_way_is_noticed():
    value = torch.rand(40, 30)
    spots = peeks.spots(peeks.places(peeks.told([value])), random.Random(1))
    before = read(spots)
    value[20:] = 0
    assert peeks.differs(spots, before, handed_over([value]))


def test_memory_that_nobody_may_read_was_not_written():
    spots = [peeks.Spot(8, 4, 0)]
    assert read(spots) == [None]
    assert peeks.differs(spots, [None], handed_over([torch.ones(1)]))
    assert not peeks.differs(spots, [], handed_over([torch.ones(1)])), "the system does not tell"


def test_protected_memory_shows_what_it_holds():
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    at = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
    ctypes.memmove(at, b"\x2a" * 16, 16)
    libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(4096), 0)
    assert memory(os.getpid(), [(at, 4)]) == [b"\x2a" * 4]
    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(4096))


def test_what_has_no_memory_is_left_out():
    values = [3, torch.rand(4)]
    spots = peeks.spots(peeks.places(peeks.told(values)), random.Random(1))
    assert {spot.size for spot in spots} == {4} and not peeks.differs(spots, read(spots), handed_over(values))
    conjugate = torch.rand(4, dtype=torch.complex64).conj()
    assert peeks.spots(peeks.places(peeks.told([conjugate])), random.Random(1)) == []


class Odd(torch.Tensor):
    """A tensor that may compute when it is read."""


@pytest.mark.parametrize(
    ("told", "hidden"),
    [
        ([torch.rand(4), 3], False),
        ([torch.rand(4), torch.rand(0)], False),
        ([torch.rand(3)], True),
        ([], True),
        ([torch.rand(4).as_subclass(Odd)], True),
        ([torch._neg_view(torch.rand(4))], True),
    ],
)
def test_results_that_lie_nowhere_were_not_there(told: list[Any], hidden: bool):
    described = [{"dtype": "float32", "shape": [4]}, {"value": 3}]
    assert peeks.hides_some(peeks.places(peeks.told(told)), described) is hidden


def test_elements_of_views_that_compute_are_in_memory_when_a_call_has_returned():
    negative, conjugate = torch._neg_view(torch.rand(4)), torch.rand(4, dtype=torch.complex64).conj()
    for view in (negative, conjugate):
        (place,) = peeks.places(peeks.told([candidate._resolved(view)]))  # pyright: ignore[reportPrivateUsage]
        assert place is not None and place[0] > 0


@pytest.mark.parametrize(
    ("value", "shares"),
    [
        (torch.rand(4, 3), False),
        (torch.rand(4, 3).t(), False),
        (torch.rand(4, 8)[1:3, 2:5], False),
        (torch.rand(2, 3, 4).permute(2, 0, 1), False),
        (torch.rand(4, 1).expand(4, 3), True),
        (torch.rand(24).as_strided((4, 3), (6, 0)), True),
        (torch.rand(24).as_strided((4, 3), (1, 1)), True),
        (torch.rand(1).expand(1), False),
        (torch.rand(0, 3), False),
    ],
)
def test_elements_that_share_memory_are_found_also_among_gaps(value: Any, shares: bool):
    assert candidate._shares_elements(value) is shares  # pyright: ignore[reportPrivateUsage]


def test_an_input_differs_from_what_was_put_there_by_any_byte():
    value = torch.rand(5, 7)
    value[0, 0] = float("nan")
    lent, hidden = Slot(), Slot()
    for slot in (lent, hidden):
        slot.fill([value], 0xFF)
    (here,), (there,) = lent.guarded, hidden.guarded
    assert not here.differs(there), "NaN is the same as itself"
    here.tensor[4, 6] += 1e-3
    assert here.differs(there)


NOTHING = Timing()


def finding(detector: Any, timing: Timing = NOTHING, looks: tuple[Look, ...] = ()) -> list[str]:
    seen = Observations("cpu", "declared", None, [], [], timing, Reference(), None, [], [], (), looks)
    return [f"{f.severity.value} {f.message}" for f in detector.check(seen)]


def test_timed_calls_are_judged_as_others_are():
    (late,) = finding(LateWork(), Timing(unready=("timed 3", "timed 9")))
    assert late == "reject results were not there when calls had returned: timed 3, timed 9"
    (changed,) = finding(InputsModified(), Timing(modified=(1,)))
    assert changed == "reject changes input 1, which the reference leaves alone"
    (shared,) = finding(Aliasing(), Timing(aliased=(0,)))
    assert shared == "reject a result lies in the memory of input 0"


def test_processes_that_timed_calls_start_reject_when_two_calls_have_some():
    one, other = (Look(f"timed {n}", started=True) for n in (1, 2))
    assert finding(LateWork(), looks=(one, one)) == []
    (found,) = finding(LateWork(), looks=(one, other, Look("timed 3")))
    assert found.startswith("reject timed calls start processes") and found.endswith("timed 1, timed 2")


def test_types_of_results_have_pytorchs_sizes() -> None:
    assert all(getattr(torch, name).itemsize == size for name, size in BYTES.items())
