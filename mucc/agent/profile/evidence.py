"""The evidence on a program by its stages: the input of tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mucc.agent.core.analysis import Limit
from mucc.agent.profile.code import Code
from mucc.api.build import Resources
from mucc.api.json_types import EstimateJson, SolReport

NOTABLE = 0.1
"""The share of a program's time from which a stage is worth advice."""

TIME = "gpu__time_duration.sum"
"""ncu's time of a launch, in ns."""


class Extents(NamedTuple):
    """The sizes of a contraction, as its kernel sees them."""

    m: int
    n: int
    k: int
    batch: int


@dataclass(frozen=True, slots=True)
class Choice:
    """How a contraction runs: what the program pins, and what the compiler chose for the rest.

    All is as the kernel sees it: of an `exchanged` one the rows are the program's columns. `estimate` is that
    of the compiler's cost model (`mucc --explain-schedule --json`): seconds, parts, waves, tail, limit; empty
    where there is none.
    """

    compute: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int]
    mainloop: str
    stages: int
    scheduler: str
    splits: int = 1
    raster: str = "heuristic"
    swizzle: int = 1
    exchanged: bool = False
    pdl: bool = False
    extents: Extents | None = None
    estimate: EstimateJson = field(default_factory=EstimateJson)

    @property
    def by_tma(self) -> bool:
        """Whether warps that only load feed warps that multiply: such kernels want one or two blocks a
        multiprocessor, many registers, and wait by design."""
        return self.mainloop in ("cooperative", "pingpong", "warpspecialized", "cpasync")

    def part(self, name: str) -> float:
        """Return the share of the estimated time that one part takes, 0 to 1."""
        parts = self.estimate.get("parts", {})
        whole = sum(parts.values())
        return parts.get(name, 0.0) / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A built device kernel."""

    name: str
    resources: Resources | None = None
    code: Code | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the program: `name` as schedules call it (`mlp.h`).

    `counters` are ncu's over all launches of one call: sums where the name says so, else means weighted by
    time; `ran` are the kernels that were launched. `share` is the part of the program's time, measured or
    else estimated; `bytes` is what the stage has to move at the least, None where that is not known.
    """

    name: str
    kind: str
    choice: Choice | None = None
    kernels: Sequence[Kernel] = ()
    counters: Mapping[str, float] = field(default_factory=dict[str, float])
    ran: Sequence[str] = ()
    share: float = 1.0
    bytes: int | None = None

    @property
    def at_work(self) -> Sequence[Kernel]:
        """The kernels that ran, or all where that is not known."""
        return [k for k in self.kernels if k.name in self.ran] or self.kernels

    @property
    def us(self) -> float | None:
        """Measured microseconds."""
        return self.counters[TIME] / 1e3 if TIME in self.counters else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence on a program and its problem.

    Times in microseconds; `launch_us` is what a launch costs beside its work. `warnings` are the codes and
    messages of the build's diagnostics; `sol` is the report of `mucc sol --json` for each kernel of the
    program.
    """

    limit: Limit
    stages: Sequence[Stage]
    measured_us: float | None = None
    launch_us: float = 0.0
    warnings: Sequence[tuple[str, str]] = ()
    sol: Sequence[SolReport] = ()

    @property
    def launches(self) -> int:
        """Kernels that a call launches: those that were seen, else one for each stage."""
        return sum(max(len(s.ran), 1) for s in self.stages)

    @property
    def notable(self) -> Iterator[Stage]:
        """The stages with a notable share of the time, the longest first."""
        yield from sorted((s for s in self.stages if s.share >= NOTABLE), key=lambda s: -s.share)

    @property
    def products(self) -> Iterator[tuple[Stage, Choice]]:
        """The notable contractions, with how they run."""
        for stage in self.notable:
            if stage.choice is not None:
                yield stage, stage.choice
