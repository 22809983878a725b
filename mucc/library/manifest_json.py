"""The JSON manifest of a library as types; `mucc.compiler.manifest` writes it, `Manifest.parse` reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

StageJson = dict[str, Any]
"""A device kernel: `name`, `kind`, and what its kind says of it, which only the kind knows."""

TermsJson = Sequence[Sequence[int | float | str]]
"""A sum of products of numbers and dims."""


class DimJson(TypedDict):
    """A dim and its value, null where each call binds it."""

    name: str
    value: int | None


class IndexJson(TypedDict):
    """What the values of an index argument must be."""

    kind: str
    rows: int | str
    once: bool


class ArgJson(TypedDict):
    """An argument in calling order. Scalars have neither shape nor layout nor alignment."""

    name: str
    role: str
    dtype: str
    shape: NotRequired[list[int | str]]
    layout: NotRequired[str | list[int | None]]
    align: NotRequired[int]
    indices: NotRequired[list[IndexJson]]


class PromiseJson(TypedDict):
    """A condition that the caller guarantees, and the reason for it."""

    text: str
    why: str


class EntryJson(TypedDict):
    """One of several schedules of a kernel: which calls take it, what it needs, what it launches.

    `guards` are boxes: by dim, the least and the largest value (null: no end). The last entry has none.
    """

    sizes: list[dict[str, int]]
    guards: list[dict[str, list[int | None]]]
    promises: list[PromiseJson]
    stages: list[StageJson]


class WorkJson(TypedDict):
    """Operations by unit, and compulsory bytes."""

    flops: Mapping[str, TermsJson]
    bytes: TermsJson


class KernelJson(TypedDict):
    """One kernel."""

    name: str
    symbol: str
    ffi: str
    dims: list[DimJson]
    each: NotRequired[bool]
    args: list[ArgJson]
    promises: list[PromiseJson]
    typical: NotRequired[dict[str, int]]
    entries: NotRequired[list[EntryJson]]
    stages: list[StageJson]
    workspace: bool
    sol: WorkJson


class ManifestJson(TypedDict):
    """The whole manifest."""

    abi: int
    mucc: str
    target: str | None
    program_hash: str
    kernels: list[KernelJson]
