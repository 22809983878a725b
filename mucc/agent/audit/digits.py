"""Which digits of its operands a candidate uses: by pairs of calls whose inputs differ in the last ones, and
by the error that rounding makes. Imports torch.
"""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from mucc.agent.audit.cases import KINDS, Case
from mucc.agent.audit.inputs import sampled, tensors
from mucc.agent.audit.rounding import NEAREST, OF_INPUTS, TRUNCATED, round_weights
from mucc.api.measure import rms

torch: Any = importlib.import_module("torch")

SMALLEST_STEP = 2.0**-22
"""Relative changes of results (rms) that are smaller say nothing of how operands were rounded."""

DEVIATIONS = 4.0
"""How many standard deviations a share may be off by chance: of a change, or of the error of rounding."""

MANY = 64
"""The fewest elements whose scatter tells by how much chance may have changed a share."""


class Answered(Protocol):
    """A call with its results, what was to come in float64, and PyTorch's own; each is flat."""

    case: Case
    got: list[Any]
    want: list[Any]
    own: list[Any]


def probes(judged: Sequence[Answered]) -> dict[str, dict[str, float]]:
    """Return for each probed format how far digits that it drops move the candidate's, PyTorch's and exact
    results (rms), for the pair of calls where the candidate's move least; `follows` is the share of the exact
    change that is in the candidate's at the most, for the pair where it is least, if there are many elements.
    `scatter` is by how much the candidate's change differs from the exact one (rms), for the pair where it is
    most, and `usual` by how much PyTorch's does there.

    Noise moves results too, but not as the exact ones are moved.
    """
    found: dict[str, dict[str, float]] = {}
    pairs: dict[tuple[str, bool, int], dict[str, Answered]] = {}
    for one in judged:
        name, _, kind = one.case.probe.partition(" ")
        if name:
            pairs.setdefault((name, one.case.is_timed, one.case.seed), {})[kind] = one
    for (name, *_), pair in pairs.items():
        one, other = (pair.get(kind) for kind in KINDS)
        if one is None or other is None or not one.got or len(one.got) != len(other.got):
            continue
        if any(w.dtype != torch.float32 for w in one.own):
            continue
        moved = {
            "candidate": _moved(one.got, other.got),
            "pytorch": _moved(one.own, other.own),
            "exact": _moved(one.want, other.want),
        }
        before = found.get(name, {})
        least = min(follows(one, other), before.get("follows", math.inf))
        noise = {"scatter": _scatter(one, other, "got"), "usual": _scatter(one, other, "own")}
        if before.get("scatter", 0.0) > noise["scatter"]:
            noise = {key: before[key] for key in noise}
        if name not in found or _share(moved) < _share(found[name]):
            found[name] = moved
        found[name] |= {"follows": least, **noise}
    return found


def follows(one: Answered, other: Answered) -> float:
    """Return the share of the exact change between two calls that is in the candidate's results, at the most;
    infinite where nothing is known."""
    columns = zip(one.want, other.want, one.got, other.got, strict=True)
    parts = [(_size(w), w, v, g, h) for w, v, g, h in columns]
    parts = [part for part in parts if part[0] > 0 and math.isfinite(part[0])]
    if sum(part[1].numel() for part in parts) < MANY:
        return math.inf
    due = torch.cat([(v.double() - w.double()) / size for size, w, v, _, _ in parts])
    came = torch.cat([(h.double() - g.double()) / size for size, _, _, g, h in parts])
    share, doubt = part_of(came, due)
    return share + doubt if math.isfinite(share + doubt) else math.inf


def part_of(error: Any, step: Any) -> tuple[float, float]:
    """Return how much of a step is in an error, and by how much chance may have changed that share."""
    length = float((step * step).sum())
    if length <= 0:
        return math.inf, 0.0
    gone = float((error * step).sum())
    rest = error - gone / length * step
    return gone / length, DEVIATIONS * math.sqrt(float((rest * rest).sum()) / rest.numel() / length)


def rounded(
    cases: Sequence[Answered],
    model: Any,
    exact: Any,
    run: Callable[[Case, Any, Callable[[Any], Any]], Any],
) -> dict[str, dict[str, float]]:
    """Return how much of the error that comes of rounding weights or inputs is in the candidate's results at
    the least, and in PyTorch's, by formats: all of it is 1. Of all cases the one with least, in the rounding
    with most.

    `exact` is the model in float64, and `run` returns what a model gives for a case whose f32 inputs are
    changed by a function. Probes change inputs alone, as weights are the candidate's from its start, and need
    two calls that may be told from others by what they share.
    """
    found: dict[str, dict[str, float]] = {}
    for name, other, way in _roundings(model, exact):
        parts = [p for c in cases if (p := _part(c, run(c.case, other, way))) is not None]
        if len(parts) == len(cases):
            least = {k: min(p[k] for p in parts) for k in parts[0]}
            if name not in found or least["candidate"] > found[name]["candidate"]:
                found[name] = least
    return found


def _roundings(model: Any, exact: Any) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Yield formats by name, with a model in float64 and what is to be done to its inputs: its weights are
    rounded, or these."""
    for ways in (NEAREST, TRUNCATED):
        for name, way in ways.items():
            other = copy.deepcopy(model)
            if round_weights(other, way):
                yield name, other.double(), _as_it_is
        for name in OF_INPUTS:
            yield name, exact, ways[name]


def _part(one: Answered, result: Any) -> dict[str, float] | None:
    """Return how far results moved from the exact ones towards those of a model, as shares of the way: of the
    candidate at the least, and of PyTorch in f32. None if these two differ in last digits only."""
    others = [sampled(v.reshape(-1), one.case.sample, one.case.most) for v in tensors(result)]
    steps, errors, own = list[Any](), list[Any](), list[Any]()
    size = 0.0
    for want, other, got, near in zip(one.want, others, one.got, one.own, strict=True):
        if near.dtype == torch.float32:
            steps.append(other - want)
            errors.append(got.double() - want)
            own.append(near.double() - want)
            size += float((want * want).sum())
    if not steps:
        return None
    step, error, mine = map(torch.cat, (steps, errors, own))
    length = float((step * step).sum())
    if not math.isfinite(length) or length <= size * SMALLEST_STEP**2:
        return None
    (share, doubt), (theirs, _) = part_of(error, step), part_of(mine, step)
    if not math.isfinite(share + doubt + theirs):
        return None
    return {"candidate": max(share - doubt, 0.0), "pytorch": theirs}


def _as_it_is(value: Any) -> Any:
    return value


def _scatter(one: Answered, other: Answered, which: str) -> float:
    """Return by how much results of two calls change more or less than exact ones do."""
    pairs = [(getattr(a, which), a.want) for a in (one, other)]
    off = [[g.double() - w for g, w in zip(*pair, strict=True)] for pair in pairs]
    sizes = [_size(w) for w in one.want]
    parts = [float(rms(b - a)) / size for a, b, size in zip(*off, sizes, strict=True) if size > 0]
    found = max(parts, default=0.0)
    return found if math.isfinite(found) else 0.0


def _share(moved: Mapping[str, float]) -> float:
    """Return how much of a change that is due a candidate shows."""
    return moved["candidate"] / moved["exact"] if moved["exact"] else math.inf


def _size(value: Any) -> float:
    return float(rms(value.double()))


def _moved(before: Sequence[Any], after: Sequence[Any]) -> float:
    """Return the root mean square of differences, each result relative to its own size."""
    total = 0.0
    for a, b in zip(before, after, strict=True):
        size = _size(a)
        total += float(rms(b.double() - a.double())) / size if size and math.isfinite(size) else 0.0
    return total if math.isfinite(total) else 0.0
