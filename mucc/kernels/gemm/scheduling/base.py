"""The interface of a target for contractions: families of kernels, their rules, and the cost of schedules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from mucc.kernels.gemm.scheduling.config import NOTHING, Candidate, GemmConfig, Pinned, Problem, Schedule
from mucc.kernels.gemm.scheduling.rules import unreproducible
from mucc.kernels.violation import Violation
from mucc.kernels.workload import Estimate
from mucc.target import TARGETS
from mucc.target.facts import Device, Facts, Target


class Family(ABC):
    """A family of kernels as the choice of schedules sees it: what is worth trying, and what it costs."""

    mainloops: tuple[str, ...]
    """The mainloops that the family's kernels have."""
    computes: tuple[str, ...]
    """The formats in which they multiply, where the target does."""
    schedulers: tuple[str, ...] = ("persistent", "stream_k", "split_k")
    """The schedulers that they take, with some mainloop."""
    takes_sparse: bool = False
    """Whether they multiply sparse operands."""

    @abstractmethod
    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Schedules worth trying, in a fixed order; some may be illegal.

        `pinned` holds fields of `Schedule` that are chosen already: they replace what is proposed, so a
        family has to look at them only where they suggest something else for another field.
        """

    def exchanges(self, problem: Problem) -> tuple[bool, ...]:
        """Whether the product may be computed as Dᵀ = Bᵀ Aᵀ: the kernel's rows are the result's columns.

        The possible answers, the one to take where a tile is pinned first. The family's other methods get the
        problem as a kernel sees it: transposed where it is to be computed so.
        """
        return (False,)

    @abstractmethod
    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        """Estimate the time of a schedule on a card, whether the schedule is legal or not."""

    @abstractmethod
    def smem_bytes(self, config: GemmConfig, stages: int) -> int:
        """Bytes of shared memory that a kernel uses with that many mainloop stages."""

    @abstractmethod
    def max_stages(self, facts: Facts, config: GemmConfig) -> int:
        """Return how many mainloop stages fit in shared memory at most; below 2 there is no kernel."""

    @abstractmethod
    def violations(self, facts: Facts, config: GemmConfig, stages: int | None) -> list[Violation]:
        """Every rule that a configuration breaks; `stages` is None where the count is left open."""

    def is_legal(self, facts: Facts, config: GemmConfig, stages: int | None) -> bool:
        """Whether no setting of a schedule is to blame for anything; no fix is looked for."""
        return not self.violations(facts, config, stages)

    def everything(self, facts: Facts, problem: Problem) -> Iterator[Schedule]:
        """All that may be tried where no proposal is legal together with what is pinned."""
        return iter(())


class GemmTarget(Target, ABC):
    """A target's contraction kernels: which schedules are legal on it, and which are fastest."""

    def __init__(self, name: str):
        super().__init__(name)
        self._chosen: dict[object, Schedule] = {}

    @property
    @abstractmethod
    def families(self) -> tuple[Family, ...]:
        """The families of kernels that schedules are chosen from, the most common first."""

    @cached_property
    def _families(self) -> dict[str, Family]:
        """The families by mainloop."""
        return {mainloop: family for family in self.families for mainloop in family.mainloops}

    def family_of(self, mainloop: str) -> Family:
        """Return the family with this mainloop; the first family if none has it, which a rule reports."""
        return self._families.get(mainloop) or self.families[0]

    def smem_bytes_used(self, config: GemmConfig, stages: int) -> int:
        """Bytes of shared memory that the kernel uses with that many mainloop stages."""
        return self.family_of(config.schedule.mainloop).smem_bytes(config, stages)

    def max_stages(self, config: GemmConfig) -> int:
        """Return how many mainloop stages fit in shared memory at most; below 2 there is no kernel."""
        return self.family_of(config.schedule.mainloop).max_stages(self.facts, config)

    def refusal(self, config: GemmConfig) -> Violation | None:
        """Return the violation of a configuration for which the target has no kernel; mostly None."""
        return None

    def block_refusal(self, config: GemmConfig) -> Violation | None:
        """Return the violation of block scales if no mainloop of the target takes them."""
        if config.problem.blocks is None or self.block_mainloops:
            return None
        note = f"kernels for {_names(lambda target: bool(target.block_mainloops))} do"
        return Violation("MU3034", "mainloop", f"no mainloop of {self.name} takes block scales", (note,))

    def _misses_sparse(self, config: GemmConfig) -> bool:
        """Whether an operand is sparse, and the mainloop takes none that is."""
        return config.problem.is_sparse and not self.family_of(config.schedule.mainloop).takes_sparse

    def _sparse_refusal(self, config: GemmConfig) -> Violation | None:
        """Return the violation of a sparse operand if the mainloop or the target takes none."""
        if not self._misses_sparse(config):
            return None
        able = [mainloop for family in self.families if family.takes_sparse for mainloop in family.mainloops]
        if not able:
            have = _names(lambda target: any(family.takes_sparse for family in target.families))
            note = f"kernels for {have} do; a dense matrix, without `sparse` in its type, suits every target"
            message = f"no mainloop of {self.name} takes sparse operands"
            return Violation("MU3142", "mainloop", message, (note,))
        message = f"the {config.schedule.mainloop} mainloop takes no sparse operands"
        return Violation("MU3142", "mainloop", message, (f"{', '.join(able)} multiply them",), able[0])

    def violations(self, config: GemmConfig, stages: int | None = None) -> list[Violation]:
        """Every rule that a configuration breaks; `stages` is None where the count is left open."""
        if refusal := self.refusal(config) or self.block_refusal(config) or self._sparse_refusal(config):
            return [refusal]
        found = self.family_of(config.schedule.mainloop).violations(self.facts, config, stages)
        return [*found, *unreproducible(config)]

    def is_legal(self, config: GemmConfig, stages: int | None = None) -> bool:
        """Whether a configuration breaks no rule that a setting of a schedule is to blame for."""
        if self.refusal(config) or self.block_refusal(config):
            return False
        if self._misses_sparse(config) or unreproducible(config):
            return False
        return self.family_of(config.schedule.mainloop).is_legal(self.facts, config, stages)

    def candidates(
        self, problem: Problem, pinned: Pinned = NOTHING, device: Device | None = None
    ) -> Iterator[Candidate]:
        """Legal schedules worth trying, each once, the one that should be fastest first.

        Every candidate has what is pinned; where none is legal none comes.
        """
        from mucc.kernels.gemm.scheduling.choice import candidates

        return candidates(self, problem, pinned, device or self.facts.devices[0])

    def estimate(self, problem: Problem, schedule: Schedule, device: Device | None = None) -> Estimate:
        """Estimate the time of a schedule on a card, by default the first of the target's."""
        family = self.family_of(schedule.mainloop)
        if schedule.exchanged:
            problem, schedule = problem.transposed, replace(schedule, exchanged=False)
        return family.estimate(self.facts, device or self.facts.devices[0], problem, schedule)

    def default_schedule(self, problem: Problem, pinned: Pinned = NOTHING) -> Schedule:
        """Return the best candidate; if no schedule is legal, the one that breaks the fewest rules."""
        from mucc.kernels.gemm.scheduling.choice import choose

        # Kernels of one file often pose the same problem.
        key = (problem, tuple(sorted(pinned.items())))
        if key not in self._chosen:
            self._chosen[key] = choose(self, problem, pinned)
        return self._chosen[key]

    def splits(self, config: GemmConfig) -> bool:
        """Whether the kernel multiplies parts of its operands, which others before it have made."""
        return False

    def pads(self, config: GemmConfig) -> bool:
        """Whether matrices whose rows the kernel cannot copy are copied with padded rows for it."""
        return False

    def picks(self, compute: str) -> bool:
        """Whether a kernel that multiplies in a format can pick rows of its left operand by number."""
        return False

    def copies(self, config: GemmConfig) -> Mapping[str, int]:
        """Operands, `a` or `b` of the program, that threads of the kernel copy, with the bytes of a copy."""
        return {}

    @property
    def grouped_mainloops(self) -> tuple[str, ...]:
        """The mainloops of contractions whose rows are grouped; none for most targets."""
        return ()

    @property
    def block_mainloops(self) -> tuple[str, ...]:
        """The mainloops that apply block scales; none for most targets."""
        return ()

    @property
    def list_mainloops(self) -> tuple[str, ...]:
        """The mainloops whose kernels compute a list of problems in one launch; none for most targets."""
        return ()

    def grouped_violations(self, config: GemmConfig) -> list[Violation]:
        """Return the violation of a grouped contraction whose mainloop takes no groups."""
        mainloops = self.grouped_mainloops
        if not config.problem.is_grouped or config.schedule.mainloop in mainloops:
            return []
        if not mainloops:
            message = f"{self.name} has no grouped contractions"
            have = _names(lambda target: bool(target.grouped_mainloops))
            notes = (f"kernels for {have} find the tiles of groups on the device",)
            helps = (f"compile for {have}, or write a product for each group",)
            return [Violation("MU3090", "mainloop", message, notes, helps=helps)]
        message = f"a grouped contraction has no {config.schedule.mainloop} mainloop"
        note = "its tiles are found on the device by blocks that stay: " + " and ".join(mainloops)
        return [Violation("MU3090", "mainloop", message, (note,), mainloops[0])]

    @property
    def mixes(self) -> bool:
        """Whether kernels convert weights of 4 or 8 bits for 16-bit activations."""
        return False

    def mixes_groups(self, group: int) -> bool:
        """Whether they scale groups of so many elements along K."""
        return False

    @property
    def pair_mainloops(self) -> tuple[str, ...]:
        """The mainloops that can multiply with two right operands at once; none for most targets."""
        return ()

    def has_pairs(self, compute: str, a_k_major: bool, b_k_major: bool, result: str) -> bool:
        """Whether one kernel can compute two such products that share their left operand.

        The epilogue of such a kernel stores row-major matrices, of dtype `result` among others.
        """
        return False

    def stores_ranges(self, compute: str, a_k_major: bool, b_k_major: bool, result: str) -> bool:
        """Whether the kernel of a product can store ranges of columns to row-major matrices of their own."""
        return False

    @property
    def reducing_mainloops(self) -> tuple[str, ...]:
        """The mainloops whose epilogue reduces groups of neighbouring columns; none for most targets."""
        return ()

    def reduces_groups(self, compute: str, a_k_major: bool, b_k_major: bool) -> bool:
        """Whether the epilogue of a product can reduce groups of neighbouring columns for work behind it."""
        return False


def _names(holds: Callable[[GemmTarget], bool]) -> str:
    """Return the names of the targets of which something holds, for a note."""
    from mucc.kernels.gemm.scheduling import gemm_target

    return ", ".join(name for name in TARGETS if holds(gemm_target(name)))
