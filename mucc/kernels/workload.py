"""The interface by which schedules of a kernel are chosen, tuned and explained."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Generic, NamedTuple, TypeVar

from xdsl.ir import Attribute

from mucc.dialects.mu.settings import Chosen
from mucc.target.facts import Device, Target

S = TypeVar("S", bound=Hashable)
"""A kind's own form of a schedule."""

EXTENTS = ("M", "N", "K", "batch")
"""Names of a workload's sizes: rows, columns, what is summed over, and how many of these are computed."""

OPEN: Chosen = MappingProxyType({})
"""No setting is pinned."""


class Estimate(NamedTuple):
    """The expected time of a schedule for a problem, and its causes."""

    seconds: float
    parts: Mapping[str, float]
    """Seconds by what takes them: they add up to `seconds`."""
    limit: str
    """The bottleneck, in a word: the part that takes most of the time."""
    waves: float
    """Waves of thread blocks; below 1 if there are fewer tiles than resident blocks."""
    blocks: int
    """Thread blocks that work at the same time in a full wave."""
    tail: float
    """The share of resident blocks, over all waves, that have no work: 0 to 1."""
    flops: float
    """Operations of the problem, without those of padded tiles; a multiply-add is two."""
    bytes: float
    """Bytes that the kernel is expected to move between DRAM and L2."""

    @staticmethod
    def of(
        parts: Mapping[str, float],
        limit: str,
        waves: float,
        rounds: float,
        blocks: int,
        flops: float,
        moved: float,
    ) -> Estimate:
        """Build an estimate from parts that add up; `waves` waves of work take `rounds` waves of time."""
        return Estimate(sum(parts.values()), parts, limit, waves, blocks, 1 - waves / rounds, flops, moved)


class Ranked(NamedTuple, Generic[S]):
    """A legal schedule and its estimated time."""

    schedule: S
    estimate: Estimate


@dataclass(frozen=True)
class Workload(ABC, Generic[S]):
    """A kernel at known, typical or open sizes on a target, for which a schedule is chosen.

    Equal workloads have the same schedules. Tuning, explanations and the database of measurements handle
    schedules only as values of `S` and as settings.
    """

    NAME: ClassVar[tuple[str, ...]] = ()
    """The word before the format in `text`; contractions have none."""

    target: Target
    """What the kernel is compiled for."""

    # What it is

    @property
    @abstractmethod
    def signature(self) -> str:
        """The key of the workload in the database of measurements; it does not depend on the target."""

    @property
    @abstractmethod
    def form(self) -> str:
        """The signature without extents: workloads of equal form can share machine code."""

    @property
    @abstractmethod
    def compute(self) -> str:
        """The format in which it computes, such as `bf16`."""

    @property
    @abstractmethod
    def sizes(self) -> tuple[int | None, int | None, int | None, int | None]:
        """The sizes in the order of `EXTENTS`; None for a size that is known at run time only."""

    @property
    def extents(self) -> Mapping[str, int | None]:
        """The sizes by name."""
        return dict(zip(EXTENTS, self.sizes, strict=True))

    @property
    def is_sized(self) -> bool:
        """Whether all extents are known."""
        return None not in self.extents.values()

    @property
    def text(self) -> str:
        """Format and extents in a line, with `?` for an extent that is not known; no batch of one."""
        extents = {name: extent for name, extent in self.extents.items() if (name, extent) != ("batch", 1)}
        sizes = (f"{name}={'?' if extent is None else extent}" for name, extent in extents.items())
        return " ".join([*self.NAME, self.compute, *sizes])

    @property
    @abstractmethod
    def work(self) -> int:
        """Operations in the kind's own unit, to order workloads of one kind by; open extents count as 1."""

    # Schedules

    @abstractmethod
    def candidates(self, fixed: Chosen = OPEN, device: Device | None = None) -> Iterator[Ranked[S]]:
        """Yield legal schedules worth trying that have the fixed settings, each once, the fastest first.

        Estimates are for a card, by default the first of the target's.
        """

    @abstractmethod
    def unproposed(self, proposed: Iterable[S], device: Device, count: int) -> Iterator[S]:
        """Return the best `count` schedules of each family of kernels of which none is proposed."""

    @abstractmethod
    def default(self, fixed: Chosen = OPEN) -> S:
        """Return the best candidate; if no schedule is legal, the one that breaks the fewest rules."""

    @abstractmethod
    def completed(self, fixed: Chosen) -> S:
        """Return the schedule of given settings, with the target's choice for those that are missing."""

    @abstractmethod
    def is_legal(self, schedule: S) -> bool:
        """Whether the target has a kernel with the schedule."""

    @abstractmethod
    def estimate(self, schedule: S, device: Device | None = None) -> Estimate:
        """Estimate the time of a schedule on a card, whether the schedule is legal or not."""

    @abstractmethod
    def least_seconds(self, schedule: S, device: Device) -> float:
        """Seconds below which an estimate of the schedule is not believed; mostly 0."""

    # Related schedules

    @abstractmethod
    def compiled(self, schedule: S) -> S:
        """Return the schedule without its run-time settings: equal results share a build."""

    @abstractmethod
    def division(self, schedule: S) -> Hashable:
        """Return the run-time settings by which schedules of one build differ enough to measure each."""

    @abstractmethod
    def shape(self, schedule: S) -> Hashable:
        """Return a key that schedules with similar times share."""

    @abstractmethod
    def reordered(self, schedule: S) -> Sequence[S]:
        """Legal schedules of the same machine code that walk the work in other orders."""

    @abstractmethod
    def neighbours(self, schedule: S) -> Sequence[S]:
        """Legal schedules that differ a little in what is compiled."""

    @abstractmethod
    def variants(self, schedule: S, *, is_first: bool) -> Sequence[S]:
        """Legal schedules in all orders of work, with and without overlap of launches.

        `is_first` says that no kernel comes before it.
        """

    @abstractmethod
    def opened(self, schedule: S) -> S:
        """Return the schedule with counts that the compiler can choose left open."""

    @abstractmethod
    def counted(self, schedule: S, like: S) -> S:
        """Return the schedule with its open counts taken from `like`."""

    # As settings

    @staticmethod
    @abstractmethod
    def settings(schedule: S) -> dict[str, Attribute]:
        """Return the settings of a schedule, in the order in which they are printed."""

    @abstractmethod
    def brief(self, schedule: S) -> str:
        """Describe a schedule in a line of a table: only settings that differ from the usual ones."""
