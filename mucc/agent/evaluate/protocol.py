"""The answers of `execution_child` and `comparison_child` to their parents, as JSON. Times in ms."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Loaded(TypedDict):
    """The answer to `load`."""


class Opened(TypedDict):
    """The answer to `open`: the device and its card; `reason` says why it is no GPU."""

    device: str
    card: str
    reason: str


class Checked(TypedDict):
    """The answer to `check`. `noise` is PyTorch's own error over the size of results."""

    correct: bool
    why: str
    excess: float
    noise: float
    exact_seconds: float | None


class Timed(TypedDict):
    """The answer to `time` of an execution."""

    times: list[float]


class Failed(TypedDict):
    """The answer of a candidate that raised: the exception, the kind of failure, and paths that it tried to
    write outside of its folder."""

    failed: str
    kind: str
    outside: NotRequired[list[str]]


class Compiled(TypedDict):
    """The answer to `compile`: the baselines that failed, with their reasons."""

    failed: dict[str, str]


class Compared(TypedDict):
    """The answer to `time` of a comparison: the median of each contender."""

    ms: dict[str, float]
