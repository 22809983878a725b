"""What sums in f32 lose by their own roundings (`bounded`)."""

from __future__ import annotations

import math
from typing import Any

from mucc.dialects.mu.arrays import Arrays
from mucc.dialects.mu.bounded_values import ROUNDING

FEW = 8
"""Of so many equal terms a sum in any order is off by no more than the 2 roundings that all sums have."""


def sum_roundoff(arrays: Arrays, terms: Any) -> Any:
    """Return the error of sums over the last axis, in any order, relative to the sum of the terms' sizes.

    Roundings that add different terms are independent: of n of them the error grows with the root of n.
    Those that add equal terms may be equal, half a step each of sums that are half the total on average: m
    of them lose m / 4 roundings of the total, and count as 4 m². NumPy or torch, float64; the result has the
    shape of the terms without the last axis.
    """
    marked, count = _marked(arrays, terms), arrays.full(terms.shape[:-1], float(terms.shape[-1]))
    return independent_roundoff(arrays, count if marked is None else count + _alike(arrays, marked).sum(-1))


def running_roundoff(arrays: Arrays, terms: Any) -> Any:
    """Return what `sum_roundoff` does for running sums along the last axis; in the shape of the terms.

    Roundings of different terms count as many as there are in a whole row.
    """
    marked, count = _marked(arrays, terms), arrays.full(terms.shape, float(terms.shape[-1]))
    if marked is None:
        return independent_roundoff(arrays, count)
    places = arrays.order(arrays.order(marked, -1), -1)
    more = arrays.take_along(_alike(arrays, marked), places, -1)
    return independent_roundoff(arrays, count + arrays.xp.cumsum(more, -1))


def independent_roundoff(arrays: Arrays, count: Any) -> Any:
    """Return the error of sums whose terms are rounded independently, relative to the sum of their sizes."""
    return ROUNDING * (2 + arrays.xp.sqrt(count) / 8)


def _marked(arrays: Arrays, terms: Any) -> Any:
    """Return terms in f32, with NaN for those whose sums are exact; None if no others can occur often.

    Sums of multiples of the distance of f32 numbers at the sum of all sizes are exact: zeros, most integers,
    and most numbers of 16 bits.
    """
    xp = arrays.xp
    if int(terms.shape[-1]) <= FEW or 0 in terms.shape:
        return None
    terms = arrays.round_to(terms, "f32")
    total = arrays.reduce("sum", xp.abs(terms), (-1,))[..., None]
    steps = terms / xp.ldexp(xp.ones_like(total), xp.frexp(total)[1] - 24)
    fine = steps != xp.round(steps)
    return xp.where(fine, terms, arrays.full((), math.nan)) if bool(fine.any()) else None


def _alike(arrays: Arrays, terms: Any) -> Any:
    """Return what each term, in order, adds to the count of terms of its row.

    Those of a value that occurs m times add 4 (m² - m) together, if m is above `FEW`. NaN adds nothing.
    """
    xp, terms = arrays.xp, arrays.sorted(terms, -1)
    if not bool((terms[..., FEW:] == terms[..., :-FEW]).any()):
        return xp.zeros_like(terms)
    begins = xp.ones_like(terms) == 1
    begins[..., 1:] = terms[..., 1:] != terms[..., :-1]
    first = xp.where(begins.reshape(-1))[0]
    lengths = xp.zeros_like(first)
    lengths[:-1], lengths[-1] = first[1:] - first[:-1], math.prod(terms.shape) - first[-1]
    places = xp.cumsum(xp.ones_like(terms).reshape(-1), 0) - 1
    before = places - arrays.float64(arrays.repeat(first, lengths, 0))
    more = 4 * xp.where(before == FEW, before * (before + 1), 2 * before)
    return xp.where(before < FEW, xp.zeros_like(more), more).reshape(terms.shape)
