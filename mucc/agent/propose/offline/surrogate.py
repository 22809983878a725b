"""Predict the times of programs: the model's times, corrected by measured ones.

Errors of the model, as logarithms of measured over expected times, are a Gaussian process whose covariance
counts what programs have in common (`features`). Exact for tens of observations, without NumPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from mucc.agent.propose.offline.features import Terms, dot

NOISE = 0.008
"""The deviation of a measured time from run to run, as a part of it: what rounds of bench.gemm
show."""


class Belief(NamedTuple):
    """A logarithm of a time as a normal distribution."""

    mean: float
    deviation: float

    def gain(self, best: float) -> float:
        """By how much it is expected to lie below `best`, where lying above costs nothing."""
        z = (best - self.mean) / self.deviation
        return (best - self.mean) * _below(z) + self.deviation * _density(z)

    def chance(self, best: float) -> float:
        """Return the probability that the time lies below `best`."""
        return _below((best - self.mean) / self.deviation)


@dataclass
class Point:
    """A program that may be measured: the logarithm of its expected time, its terms, and what observations
    say of it."""

    expected: float
    terms: Terms
    variance: float = 0.0
    mean: float = 0.0
    solved: list[float] = field(default_factory=list[float])

    @property
    def belief(self) -> Belief:
        return Belief(self.expected + self.mean, math.sqrt(max(self.variance, 0.0) + NOISE**2))


class Surrogate:
    """Updates predictions by observations, one after the other."""

    def __init__(self) -> None:
        self._seen: list[Point] = []
        self._scale: list[float] = []
        self._residue: list[float] = []

    def observe(self, point: Point, time: float, noise: float = NOISE) -> None:
        """Add a measured time, as a logarithm. The caller no longer uses the point."""
        self.tell(point)
        scale = math.sqrt(max(point.variance, 0.0) + noise**2)
        self._residue.append((time - point.expected - point.mean) / scale)
        self._scale.append(scale)
        self._seen.append(point)

    def copy(self) -> Surrogate:
        """Return an independent copy."""
        made = Surrogate()
        made._seen, made._scale, made._residue = list(self._seen), list(self._scale), list(self._residue)
        return made

    def suppose(self, point: Point) -> None:
        """Assume that a point will be measured, which removes its uncertainty."""
        self.observe(point, point.expected + point.mean)

    def tell(self, point: Point) -> Belief:
        """Update a point by the observations that it does not have yet."""
        if not point.solved:
            point.variance, point.mean = dot(point.terms, point.terms), 0.0
        for i in range(len(point.solved), len(self._seen)):
            seen = self._seen[i]
            covariance = dot(point.terms, seen.terms)
            covariance -= sum(a * b for a, b in zip(point.solved, seen.solved, strict=False))
            value = covariance / self._scale[i]
            point.solved.append(value)
            point.variance -= value * value
            point.mean += value * self._residue[i]
        return point.belief


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _below(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
