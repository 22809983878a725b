"""Contractions, schedules and the kernels that both make, in plain numbers, without IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple, TypedDict, Unpack

from mucc.kernels.gemm.scheduling.operand import Narrow, Operand
from mucc.kernels.workload import Estimate


@dataclass(frozen=True)
class Epilogue:
    """What an epilogue moves, by bytes per element.

    `source` is C, `destination` is D; either may be None. The tuples list further full matrices
    (`aux_loads`, `aux_stores`), row vectors kept in shared memory (`row_broadcasts`) and column vectors kept
    in registers (`col_broadcasts`). The reductions are counted.
    """

    destination: int | None = 2
    source: int | None = None
    aux_loads: tuple[int, ...] = ()
    aux_stores: tuple[int, ...] = ()
    row_broadcasts: tuple[int, ...] = ()
    row_reductions: int = 0
    col_reductions: int = 0
    scalar_reductions: int = 0
    destination_is_col_major: bool = False
    col_broadcasts: tuple[int, ...] = ()
    scalars: int = 0
    """Numbers that the epilogue reads from memory."""
    source_is_col_major: bool = False
    aux_loads_by_columns: tuple[bool, ...] = ()
    aux_stores_by_columns: tuple[bool, ...] = ()
    """Whether columns are contiguous in each further matrix; rows are in those that a tuple lacks."""
    unordered_sums: int = 0
    """Reductions whose result depends on the order in which blocks add to it: sums, not maxima."""
    ranges: int = 0
    """Into how many matrices the columns of the destination are divided; 0 where it is one."""
    group: int = 0
    """Columns that a tile must have whole multiples of, as groups of them are reduced; 0 where none are."""
    instructions: int = 0
    """How many instructions functions such as gelu count as for an element (`instructions_class`); only of
    these costs are known."""

    @cached_property
    def transposed(self) -> Epilogue:
        """The epilogue of the transposed result."""
        return replace(
            self,
            row_broadcasts=self.col_broadcasts,
            col_broadcasts=self.row_broadcasts,
            row_reductions=self.col_reductions,
            col_reductions=self.row_reductions,
            destination_is_col_major=not self.destination_is_col_major,
            source_is_col_major=not self.source_is_col_major,
            aux_loads_by_columns=_turned(self.aux_loads_by_columns, self.aux_loads),
            aux_stores_by_columns=_turned(self.aux_stores_by_columns, self.aux_stores),
        )


def _turned(by_columns: tuple[bool, ...], matrices: tuple[int, ...]) -> tuple[bool, ...]:
    return tuple(not turned for turned, _ in zip_longest(by_columns, matrices, fillvalue=False))


def operand_bytes(compute: str) -> int:
    """Bytes of an operand's element that multiplies in a format."""
    return {"bf16": 2, "f16": 2, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}.get(compute, 4)


class Problem(NamedTuple):
    """A contraction before its schedule is chosen.

    Extents are those that the program binds, else typical ones where the user gave hints, else None. All is
    as the program states it; `transposed` is what a kernel with exchanged operands sees. If B is grouped,
    `batch` counts the groups, and `m` is the number of rows that a group has on average.
    """

    compute: str
    """The format of products: bf16, f16, tf32, tf32x3, f32, e4m3, e5m2, s8 or u8."""
    a: Operand = Operand()
    b: Operand = Operand()
    epilogue: Epilogue = Epilogue()
    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | None = None
    fast_accumulation: bool = False
    """Whether the sums of 8-bit floats are left to the tensor cores."""
    rights: int = 1
    """How many right operands there are, each with a product of its own in the epilogue."""
    wide: bool = True
    """Whether rows of all matrices are multiples of 16 bytes, or can be promised to be."""
    outer: bool = True
    """Whether those of the matrices that the epilogue reads and writes are known to be."""
    listed: bool = False
    """Whether calls may list problems, which one launch of some kernels computes."""

    @property
    def transposed(self) -> Problem:
        """The problem of computing Dᵀ = Bᵀ Aᵀ."""
        return self._replace(a=self.b, b=self.a, m=self.n, n=self.m, epilogue=self.epilogue.transposed)

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return self.a, self.b

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of an operand as it is multiplied."""
        return operand_bytes(self.compute)

    @property
    def a_bytes(self) -> float:
        """Bytes that an element of A takes in memory."""
        return self.a.form.stored_bytes(self.element_bytes)

    @property
    def b_bytes(self) -> float:
        """Bytes that an element of B takes in memory."""
        return self.b.form.stored_bytes(self.element_bytes)

    @property
    def is_sparse(self) -> bool:
        """Whether an operand has the 2:4 pattern."""
        return self.a.is_sparse or self.b.is_sparse

    @property
    def is_gathered(self) -> bool:
        """Whether rows of an operand are picked by number."""
        return self.a.is_gathered or self.b.is_gathered

    @property
    def is_grouped(self) -> bool:
        """Whether groups of rows have a right operand each."""
        return self.a.is_grouped or self.b.is_grouped

    @property
    def narrow(self) -> Narrow | None:
        """How the operand is converted that has fewer bits than the other; None where none is."""
        return self.a.narrow or self.b.narrow

    @property
    def blocks(self) -> tuple[int, int] | None:
        """How many rows of A and columns of B share a scale, for products with block scales."""
        a, b = self.a.block, self.b.block
        return None if a is None or b is None else (a, b)

    def config(self, schedule: Schedule) -> GemmConfig:
        """Return the kernel that a schedule makes of the problem."""
        return GemmConfig(self.transposed if schedule.exchanged else self, schedule)


class Pinned(TypedDict, total=False):
    """Some fields of a `Schedule`: those that a user pins, or that change.

    A pinned scheduler fixes raster, swizzle and splits too.
    """

    tile: tuple[int, int, int]
    cluster: tuple[int, int]
    mainloop: str
    scheduler: str
    raster: str
    swizzle: int
    splits: int
    stages: int | None
    exchanged: bool
    epilogue_tile: tuple[int, int] | None
    pdl: bool
    reproducible: bool


NOTHING: Pinned = {}


@dataclass(frozen=True)
class Schedule:
    """A chosen schedule. `stages` is None where as many are used as fit, `epilogue_tile` where
    CUTLASS has its own.

    Where it is `exchanged`, tile, cluster and raster are those of the transposed product.
    """

    tile: tuple[int, int, int]
    cluster: tuple[int, int] = (1, 1)
    mainloop: str = "cooperative"
    scheduler: str = "persistent"
    raster: str = "heuristic"
    swizzle: int = 1
    splits: int = 1
    stages: int | None = None
    exchanged: bool = False
    epilogue_tile: tuple[int, int] | None = None
    pdl: bool = False
    reproducible: bool = False

    @property
    def compiled(self) -> Schedule:
        """What of it shapes machine code: schedules that are equal in this share a skeleton."""
        return replace(self, raster="heuristic", swizzle=1, splits=1)

    def having(self, settings: Mapping[str, Any]) -> Schedule:
        """Return the schedule with other settings; the schedule itself if it has them already, as most do."""
        if all(getattr(self, name) == value for name, value in settings.items()):
            return self
        return replace(self, **settings)


@dataclass(frozen=True)
class GemmConfig:
    """One contraction kernel with all choices made.

    The problem is as the kernel sees it: where the schedule exchanges operands the kernel computes
    Dᵀ = Bᵀ Aᵀ, and the problem is transposed. With two right operands (`rights`) the tile's N counts columns
    of the result, each of which has two accumulators. With a sparse operand its K counts zeros too.

    Rules take the number of stages as an argument of their own: the schedule leaves it open until all else is
    chosen.
    """

    problem: Problem
    schedule: Schedule

    @property
    def transposed(self) -> GemmConfig:
        """The same product computed the other way round, by tiles of the same sizes."""
        exchanged = not self.schedule.exchanged
        return GemmConfig(self.problem.transposed, replace(self.schedule, exchanged=exchanged))

    @property
    def columns(self) -> int:
        """Columns of products in a tile: those of the result, times the right operands."""
        return self.schedule.tile[1] * self.problem.rights

    def having(self, **settings: Unpack[Pinned]) -> GemmConfig:
        """Return the kernel of the same problem with other settings; for `exchanged` use `transposed`
        instead.
        """
        return GemmConfig(self.problem, replace(self.schedule, **settings))


class Candidate(NamedTuple):
    """A legal schedule worth trying, with its kernel and the time that the kernel should take."""

    schedule: Schedule
    config: GemmConfig
    estimate: Estimate
