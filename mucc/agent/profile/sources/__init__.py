"""The sources of what tools look at. A source is one file here, with a class, and a line in `SOURCES`.

Each reads what it can and says what it cannot: none of them raises, and an analysis goes on with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from mucc.api.build import Function, Resources
from mucc.api.json_types import ExplanationJson, SolReport


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be read: a program, and the library that was built of it, None where there is none.

    `sizes` has the values of all dims of each kernel, `given` those that were given for open dims. `metrics`
    are the counters of ncu that tools want; `device` is cuda, or cpu where nothing may run. `time_limit` is
    in seconds for each process.
    """

    program: str
    library: str | None
    target: str
    card: str
    sizes: Mapping[str, Mapping[str, int]]
    given: Mapping[str, int]
    metrics: Sequence[str]
    device: str = "cuda"
    time_limit: float = 60.0


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that ncu has seen: the kernel, its grid and block, and counters in base units (ns, bytes)."""

    kernel: str
    grid: str
    block: str
    counters: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of one source; fields that the source does not read are empty.

    `explained` and `sol` are the JSON of `mucc --explain-schedule` and `mucc sol`. `missing` says what could
    not be read, why, and what to do. `waited` are seconds spent on waiting for a turn on the GPU.
    """

    launches: Sequence[Launch] = ()
    functions: Sequence[Function] = ()
    resources: Sequence[Resources] = ()
    explained: Sequence[ExplanationJson] = ()
    sol: Sequence[SolReport] = ()
    missing: Sequence[str] = field(default_factory=tuple[str, ...])
    waited: float = 0.0


class Source(Protocol):
    """A reader of one kind of facts."""

    name: str

    def read(self, asked: Request) -> Reading:
        """Read what is available. Does not raise."""
        ...


SOURCES: tuple[str, ...] = ("schedule:Schedule", "ptxas:Ptxas", "sass:Sass", "ncu:Ncu")
"""Every source, as module and class."""


def sources() -> Iterator[Source]:
    """Instances of all sources."""
    for entry in SOURCES:
        module, _, name = entry.partition(":")
        yield getattr(import_module(f"{__name__}.{module}"), name)()
