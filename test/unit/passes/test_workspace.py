"""Workspace slots: values alive together never share one, and no more slots than needed are made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mucc.passes.plan_workspace import Lifetime, assign_slots

SIZES = ((2, ("M", "N")), (4, ("M", "N")), (2, ("K", "M")))


@st.composite
def lifetimes(draw: st.DrawFn, sizes: tuple[tuple[int, tuple[str, ...]], ...] = SIZES) -> list[Lifetime]:
    spans = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=14))
    return [
        Lifetime(key, first, first + length, draw(st.sampled_from(sizes)))
        for key, (first, length) in enumerate(spans)
    ]


@given(lifetimes())
def test_every_value_has_one_slot_of_its_own_while_it_lives(values: list[Lifetime]) -> None:
    slots = assign_slots(values)
    assert sorted(v.key for slot in slots for v in slot) == [v.key for v in values]
    for slot in slots:
        for i, a in enumerate(slot):
            assert not any(a.first <= b.last and b.first <= a.last for b in slot[i + 1 :])


@given(lifetimes())
def test_as_many_slots_as_values_live_at_once(values: list[Lifetime]) -> None:
    alive = [sum(v.first <= t <= v.last for v in values) for t in range(20)]
    assert len(assign_slots(values)) == max(alive)


def test_a_slot_of_the_same_size_is_preferred() -> None:
    small, large = SIZES[0], SIZES[1]
    values = [Lifetime(0, 0, 1, large), Lifetime(1, 0, 1, small), Lifetime(2, 2, 3, small)]
    assert [[v.key for v in slot] for slot in assign_slots(values)] == [[0], [1, 2]]


def test_a_value_read_by_a_launch_is_not_overwritten_by_it() -> None:
    chain = [Lifetime(i, i, i + 1, SIZES[0]) for i in range(6)]
    assert [[v.key for v in slot] for slot in assign_slots(chain)] == [[0, 2, 4], [1, 3, 5]]
