"""Contractions as workloads, whose schedules are chosen, tuned and explained."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import product

from xdsl.ir import Attribute

from mucc.dialects.mu.settings import EXCHANGE, SETTINGS, STAGES, Chosen
from mucc.files.json_text import canonical
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.gemm.scheduling.config import Epilogue, Problem, Schedule
from mucc.kernels.gemm.scheduling.cost import Extents
from mucc.kernels.gemm.settings import NEEDED, pinned_fields, schedule_from, settings_of
from mucc.kernels.workload import OPEN, Estimate, Ranked, Workload
from mucc.target.facts import WIDEST_ACCESS, Device

RASTERS = ("heuristic", "along_m", "along_n")
"""Orders of tiles; with swizzles they are arguments at run time, so another one costs no nvcc."""

ORDERS = (("along_m", 1), ("along_n", 1), ("along_m", 4), ("along_n", 4))
"""Rasters and swizzles that are tried of schedules that should be fast."""

PLAIN = ("cooperative", "pingpong", "warpspecialized", "multistage")
"""Mainloops that take any product of their formats, where their rules allow it."""

OPTIMISTIC = ("multistage", "warpspecialized")
"""Mainloops whose models were not fitted to problems that DRAM binds, and say less there than it takes."""

TILES = ((64, 0), (-64, 0), (0, -32), (0, -16), (0, 16), (0, 32))
CLUSTERS = ((1, 1), (2, 1), (1, 2))
"""By how much neighbours' tiles differ, in rows and columns, and the clusters that they have."""


@dataclass(frozen=True)
class GemmWorkload(Workload[Schedule]):
    """A contraction at some sizes on a target."""

    target: GemmTarget
    problem: Problem

    @property
    def signature(self) -> str:
        """See `Workload.signature`.

        Properties of a problem that are as usual are left out, so that its text stays when mucc gains others.
        """
        return canonical(_key(self.problem))

    @property
    def form(self) -> str:
        return canonical(_key(self.problem._replace(m=None, n=None, k=None, batch=None)))

    @property
    def compute(self) -> str:
        return self.problem.compute

    @property
    def sizes(self) -> tuple[int | None, int | None, int | None, int | None]:
        p = self.problem
        return p.m, p.n, p.k, p.batch

    @property
    def work(self) -> int:
        """Multiply-adds."""
        p = self.problem
        return (p.m or 1) * (p.n or 1) * (p.k or 1) * (p.batch or 1)

    # Schedules

    def candidates(self, fixed: Chosen = OPEN, device: Device | None = None) -> Iterator[Ranked[Schedule]]:
        for candidate in self.target.candidates(self.problem, pinned_fields(fixed), device):
            yield Ranked(candidate.schedule, candidate.estimate)

    def unproposed(self, proposed: Iterable[Schedule], device: Device, count: int) -> Iterator[Schedule]:
        known = {schedule.mainloop for schedule in proposed}
        loops = [m for f in self.target.families for m in f.mainloops if m in PLAIN and m not in known]
        for mainloop in dict.fromkeys(loops):
            best: dict[Schedule, Schedule] = {}
            for candidate in self.target.candidates(self.problem, {"mainloop": mainloop}, device):
                best.setdefault(candidate.schedule.compiled, candidate.schedule)
                if len(best) == count:
                    break
            yield from best.values()

    def default(self, fixed: Chosen = OPEN) -> Schedule:
        return self.target.default_schedule(self.problem, pinned_fields(fixed))

    def completed(self, fixed: Chosen) -> Schedule:
        return schedule_from(fixed) if all(s.name in fixed for s in NEEDED) else self.default(fixed)

    def is_legal(self, schedule: Schedule) -> bool:
        return self.target.is_legal(self.problem.config(schedule), schedule.stages)

    def estimate(self, schedule: Schedule, device: Device | None = None) -> Estimate:
        return self.target.estimate(self.problem, schedule, device)

    def least_seconds(self, schedule: Schedule, device: Device) -> float:
        """Return the time of a kernel that DRAM binds, by the cost model of other kernels."""
        problem, cost = self.problem, self.target.facts.cost
        extents = Extents.of(problem)
        is_special = problem.narrow or problem.is_sparse or problem.is_grouped
        if schedule.mainloop not in OPTIMISTIC or is_special or not extents.exact:
            return 0.0
        moved = extents.moved(problem.element_bytes, problem.epilogue)
        bandwidth = cost.get("dram_share", 1.0) * device.datasheet["dram_bandwidth"]
        return moved / bandwidth + cost.get("launch", 0.0) + cost.get("fill", 0.0)

    # Related schedules

    def compiled(self, schedule: Schedule) -> Schedule:
        return schedule.compiled

    def division(self, schedule: Schedule) -> int:
        """Into how many parts K is split, which costs no nvcc."""
        return schedule.splits

    def shape(self, schedule: Schedule) -> Hashable:
        """Mainloop and tile, as the program counts rows and columns."""
        m, n, _ = schedule.tile
        return (schedule.mainloop, schedule.scheduler, *((n, m) if schedule.exchanged else (m, n)))

    def reordered(self, schedule: Schedule) -> list[Schedule]:
        if schedule.mainloop not in ("cooperative", "pingpong") or schedule.scheduler != "persistent":
            return []
        found = (replace(schedule, raster=raster, swizzle=swizzle) for raster, swizzle in ORDERS)
        return [s for s in found if self.is_legal(s)]

    def neighbours(self, schedule: Schedule) -> list[Schedule]:
        """Yield a schedule with somewhat larger and smaller tiles, and with other clusters, where legal."""
        m, n, k = schedule.tile
        tiles = [(m + dm, n + dn, k) for dm, dn in TILES if min(m + dm, n + dn) > 0]
        tiles.append((m, n, 2 * k))
        found = [replace(schedule, tile=tile, stages=None) for tile in tiles]
        found += [replace(schedule, cluster=cluster, stages=None) for cluster in CLUSTERS]
        return [s for s in dict.fromkeys(found) if s != schedule and self.is_legal(s)]

    def variants(self, schedule: Schedule, *, is_first: bool) -> list[Schedule]:
        """Yield a schedule with its tiles walked in other orders, and with `pdl` either way, where legal."""
        walks = [(schedule.raster, schedule.swizzle)]
        if schedule.scheduler == "persistent":
            walks = list(product(RASTERS, self.target.facts.limits.swizzles))
        found = [
            replace(schedule, raster=raster, swizzle=swizzle, pdl=pdl)
            for (raster, swizzle), pdl in product(walks, (False,) if is_first else (False, True))
        ]
        return [s for s in found if s != schedule and self.is_legal(s)]

    def opened(self, schedule: Schedule) -> Schedule:
        return replace(schedule, stages=None)

    def counted(self, schedule: Schedule, like: Schedule) -> Schedule:
        return replace(schedule, stages=schedule.stages or like.stages)

    # As settings

    @staticmethod
    def settings(schedule: Schedule) -> dict[str, Attribute]:
        return settings_of(schedule)

    def brief(self, schedule: Schedule) -> str:
        held = settings_of(schedule)
        named = (EXCHANGE.name, STAGES.name)
        words = [SETTINGS[name].brief(value) for name, value in held.items() if name not in named]
        extra = [f"{name}={SETTINGS[name].text(held[name])}" for name in named if name in held]
        return " ".join([*words, *extra])


def _key(problem: Problem) -> dict[str, object]:
    """Return the key of a problem in the database of measurements, by the field names that the database uses.

    A database outlives the classes that describe problems, so a change of theirs keeps these names.
    """
    a, b = problem.operands
    extents = {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
    granules = (a.granule, b.granule, problem.wide, problem.outer)
    narrow = problem.narrow
    usual: dict[str, object] = {
        "epilogue": _changed(problem.epilogue),
        "fast_accumulation": problem.fast_accumulation,
        "rights": problem.rights if problem.rights > 1 else 0,
        "blocks": problem.blocks,
        "granules": granules if granules != (WIDEST_ACCESS, WIDEST_ACCESS, True, True) else (),
        "grouped": problem.is_grouped,
        "sparse": "a" * a.is_sparse + "b" * b.is_sparse,
        "mixed": narrow and (narrow.bits, a.narrow is not None, narrow.group, narrow.zeros),
        "listed": problem.listed,
        "gathered": "a" * a.is_gathered + "b" * b.is_gathered,
    }
    return {
        "compute": problem.compute,
        "a_k_major": a.k_major,
        "b_k_major": b.k_major,
        **{name: extent for name, extent in extents.items() if extent is not None},
        **{name: value for name, value in usual.items() if value},
    }


def _changed(epilogue: Epilogue) -> dict[str, object]:
    """Return the fields of an epilogue that differ from their defaults.

    Measurements are shared by epilogues that move the same, whatever functions they compute.
    """
    found = {f.name: (getattr(epilogue, f.name), f.default) for f in fields(epilogue)}
    return {n: value for n, (value, default) in found.items() if value != default and n != "instructions"}
