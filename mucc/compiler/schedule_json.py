"""The JSON of `mucc --explain-schedule --json` as types. Times in seconds."""

from __future__ import annotations

from typing import TypedDict


class EstimateJson(TypedDict, total=False):
    """An `Estimate` of the cost model, `mucc.kernels.workload`; empty where there is none."""

    seconds: float
    parts: dict[str, float]
    limit: str
    waves: float
    blocks: int
    tail: float
    flops: int | float
    bytes: int | float


class OtherJson(TypedDict):
    """A legal schedule that was not chosen."""

    schedule: dict[str, str]
    seconds: float


class ExplanationJson(TypedDict):
    """The schedule of one kernel; extents that are not known are null.

    `calls` are those that take it, such as `M <= 32`, of a kernel with several schedules.
    """

    kernel: str
    stage: str
    device: str
    compute: str
    extents: dict[str, int | None]
    pinned: list[str]
    schedule: dict[str, str]
    measured: str | None
    calls: str | None
    estimate: EstimateJson
    others: list[OtherJson]
