"""Small elements of results that a candidate has not computed. Imports torch."""

from __future__ import annotations

from typing import Any

SMALL, KNOWN, WRONG = 1e-5, 0.01, 0.3
"""Elements count whose size is this part of the rms or more, of which PyTorch's own result has this relative
error or less, and the candidate's this one or more."""


def absent_share(got: Any, want: Any, near: Any) -> float:
    """Return the share of elements that a candidate's result is far from, though PyTorch's f32 is near.

    What is tolerated is relative to the rms of a result. Where few elements are large, most of the others
    could be anything within that. An honest sum may be less exact than PyTorch's, by so much in few elements
    at the most: those that are near zero by chance.
    """
    if not near.is_floating_point() or near.element_size() < 4 or not near.numel():
        return 0.0
    want, off, own = want.double(), (got.double() - want).abs(), (near.double() - want).abs()
    size = want.abs()
    counts = (
        (size > 0)
        & (size >= SMALL * (want * want).mean().sqrt())
        & (own <= KNOWN * size)
        & (off >= WRONG * size)
    )
    return float((counts & want.isfinite()).double().mean())
