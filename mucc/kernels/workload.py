"""What the choice of schedules asks of a kernel: its legal schedules in order, with what they should cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from xdsl.ir import Attribute

from mucc.dialects.mu.settings import Chosen
from mucc.target.facts import Device, Target

S = TypeVar("S", bound=Hashable)
"""A kind's own form of a schedule."""

OPEN: Chosen = MappingProxyType({})
"""No setting is pinned."""


class Estimate(NamedTuple):
    """How long a schedule is expected to take for a problem, and why."""

    seconds: float
    parts: Mapping[str, float]
    """Seconds by what takes them: they add up to `seconds`."""
    limit: str
    """What binds: the part that most of the time goes to, in a word."""
    waves: float
    """Rounds in which the blocks work; a part of one where fewer tiles than places are there."""
    blocks: int
    """Thread blocks that work at the same time in a full wave."""
    tail: float
    """The share of the places in all waves that has no work, 0 to 1."""
    flops: float
    """Operations of the problem, of padded tiles none; a multiply-add is two."""
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
        """That of parts which add up, where `waves` full rounds of work take `rounds` of them."""
        return Estimate(sum(parts.values()), parts, limit, waves, blocks, 1 - waves / rounds, flops, moved)


class Ranked(NamedTuple, Generic[S]):
    """A legal schedule, and the time that it should take."""

    schedule: S
    estimate: Estimate


@dataclass(frozen=True)
class Workload(ABC, Generic[S]):
    """A kernel at known, typical or open sizes on a target, for which a schedule is chosen.

    Workloads that are equal have the same schedules. What tunes, explains and remembers schedules knows
    these only as values of `S`, and as settings.
    """

    target: Target
    """What the kernel is compiled for."""

    # What it is

    @property
    @abstractmethod
    def signature(self) -> str:
        """A text that tells workloads apart, whatever their target: a key of the database of measurements."""

    @property
    @abstractmethod
    def form(self) -> str:
        """The signature without extents, which machine code does not know."""

    @property
    @abstractmethod
    def compute(self) -> str:
        """The format in which it computes, such as `bf16`."""

    @property
    @abstractmethod
    def extents(self) -> Mapping[str, int | None]:
        """The sizes by what they are called; None where one is known at run time only."""

    @property
    def is_sized(self) -> bool:
        """Whether all extents are known."""
        return None not in self.extents.values()

    @property
    @abstractmethod
    def text(self) -> str:
        """Format and extents in a line, with `?` for an extent that is not known."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Operations in the kind's own unit, to order workloads of one kind by; open extents count as 1."""

    # Schedules

    @abstractmethod
    def candidates(self, fixed: Chosen = OPEN, device: Device | None = None) -> Iterator[Ranked[S]]:
        """Legal schedules worth trying that have what is fixed, each once, the fastest first.

        Estimates are for a card, by default the first of the target's.
        """

    @abstractmethod
    def unproposed(self, proposed: Iterable[S], device: Device, count: int) -> Iterator[S]:
        """The best `count` schedules of each family of kernels of which none is proposed."""

    @abstractmethod
    def default(self, fixed: Chosen = OPEN) -> S:
        """The best candidate; where none is legal, the schedule that breaks the fewest rules."""

    @abstractmethod
    def completed(self, fixed: Chosen) -> S:
        """The schedule that settings say; `default` where they leave something to the target."""

    @abstractmethod
    def is_legal(self, schedule: S) -> bool:
        """Whether the target has a kernel with the schedule."""

    @abstractmethod
    def estimate(self, schedule: S, device: Device | None = None) -> Estimate:
        """What a schedule should cost on a card, whether it is legal or not."""

    @abstractmethod
    def least_seconds(self, schedule: S, device: Device) -> float:
        """Seconds below which an estimate of the schedule is not believed; mostly 0."""

    # Related schedules

    @abstractmethod
    def compiled(self, schedule: S) -> S:
        """What of a schedule machine code knows: schedules that are equal in this share a build."""

    @abstractmethod
    def division(self, schedule: S) -> Hashable:
        """What tells schedules of one build apart that are worth measuring each."""

    @abstractmethod
    def shape(self, schedule: S) -> Hashable:
        """What schedules share whose times are alike."""

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
        """The schedule with counts that the compiler finds by itself left open."""

    @abstractmethod
    def counted(self, schedule: S, like: S) -> S:
        """The schedule with counts that it leaves open taken from another."""

    # As settings

    @staticmethod
    @abstractmethod
    def settings(schedule: S) -> dict[str, Attribute]:
        """The settings that make the schedule, in the order in which they are told."""

    @abstractmethod
    def brief(self, schedule: S) -> str:
        """A schedule in a line of a table: what differs from the usual only."""
