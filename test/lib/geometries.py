"""Random geometry of convolutions and pools."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def text(values: Any) -> str:
    """`(2, 3)`, or `2` for one number."""
    return str(values[0]) if len(values) == 1 else f"({', '.join(map(str, values))})"


def given_once_or_for_each(draw: st.DrawFn, numbers: st.SearchStrategy[int], axes: int) -> list[int]:
    """A number for each axis, or one for all."""
    return draw(
        st.one_of(st.lists(numbers, min_size=axes, max_size=axes), st.lists(numbers, min_size=1, max_size=1))
    )


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Windows, channels in groups, and extents, which need not fit each other."""
    axes = draw(st.integers(1, 3))
    small = draw(st.sampled_from((1, 2, 3)))
    return {
        "axes": axes,
        "groups": small,
        "per_group": (draw(st.integers(1, 2)), draw(st.integers(1, 2))),
        "batch": draw(st.integers(1, 2)),
        "extents": draw(st.lists(st.integers(1, 7), min_size=axes, max_size=axes)),
        "sizes": draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes)),
        "stride": given_once_or_for_each(draw, st.integers(1, 3), axes),
        "pad": given_once_or_for_each(draw, st.integers(0, 2), axes),
        "dilation": given_once_or_for_each(draw, st.integers(1, 2), axes),
    }


def spread(numbers: list[int], axes: int) -> tuple[int, ...]:
    """A number for each axis."""
    return tuple(numbers * axes) if len(numbers) == 1 else tuple(numbers)
