"""The base of families that load by TMA: modules with their rules and their shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Protocol

from mucc.kernels.gemm.scheduling.base import Family
from mucc.kernels.gemm.scheduling.config import GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.rules import Broken
from mucc.kernels.violation import Violation
from mucc.target.facts import Facts, Limits


class Rules(Protocol):
    """What a module of rules offers."""

    @property
    def MAINLOOPS(self) -> tuple[str, ...]: ...

    @property
    def COMPUTES(self) -> tuple[str, ...]: ...

    @property
    def CLUSTERS(self) -> tuple[tuple[int, int], ...]: ...

    @property
    def TILE_M(self) -> tuple[int, ...]: ...

    @property
    def TILE_N(self) -> tuple[int, ...]: ...

    @property
    def TILE_K(self) -> tuple[int, ...]: ...

    def violations(self, limits: Limits, config: GemmConfig, stages: int | None) -> list[Violation]: ...

    def broken(self, limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]: ...


class Memory(Protocol):
    """What a module about shared memory offers."""

    def kernel_storage(self, config: GemmConfig, stages: int) -> int: ...

    def max_stages(self, config: GemmConfig, capacity: int) -> int: ...


class TmaFamily(Family):
    """Kernels that load by TMA: clusters, pipelines as deep as shared memory allows."""

    def __init__(self, rules: Rules, memory: Memory):
        self.rules = rules
        self.memory = memory
        self.mainloops = rules.MAINLOOPS
        self.computes = rules.COMPUTES

    def everything(self, facts: Facts, problem: Problem) -> Iterator[Schedule]:
        rules = self.rules
        tiles = product(rules.TILE_M, rules.TILE_N, rules.TILE_K)
        for tile, cluster, mainloop in product(tiles, rules.CLUSTERS, rules.MAINLOOPS):
            yield Schedule(tile, cluster, mainloop)

    def smem_bytes(self, config: GemmConfig, stages: int) -> int:
        return self.memory.kernel_storage(config, stages)

    def max_stages(self, facts: Facts, config: GemmConfig) -> int:
        return self.memory.max_stages(config, facts.limits.shared_memory)

    def violations(self, facts: Facts, config: GemmConfig, stages: int | None) -> list[Violation]:
        return self.rules.violations(facts.limits, config, stages)

    def is_legal(self, facts: Facts, config: GemmConfig, stages: int | None) -> bool:
        return next(self.rules.broken(facts.limits, config, stages), None) is None
