"""Legality rules of the `cpasync` mainloop of sm_90a: A by cp.async, B by TMA, products by wgmma.

Its kernels are those of the cooperative mainloop, or of pingpong where a tile's rows are no multiple of 128,
with two warps that copy A (`mucc/copied.cuh`). So rules and shared memory are theirs; what differs is here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mucc.kernels.gemm.scheduling import rules, sm90_rules
from mucc.kernels.gemm.scheduling import sm90_memory as memory
from mucc.kernels.gemm.scheduling.config import GemmConfig, Problem
from mucc.kernels.gemm.scheduling.rules import Broken, Fix, nearest_tiles
from mucc.kernels.violation import Violation
from mucc.target.facts import WIDEST_ACCESS, Limits

MAINLOOP = "cpasync"
MAINLOOPS = (MAINLOOP,)
COMPUTES = ("bf16", "f16", "s8", "u8")

LEAST = 4
"""Bytes that cp.async copies at least."""

SPAN = 128
"""Bytes of a row of A that are copied together, and swizzled."""

CLUSTERS = rules.CLUSTERS
TILE_M = sm90_rules.TILE_M
TILE_N = sm90_rules.TILE_N
TILE_K = (64, 128)


def kernel(tile: tuple[int, ...]) -> str:
    """Return the mainloop whose kernel multiplies tiles of a size."""
    return "pingpong" if tile[0] % 128 else "cooperative"


def as_tma(config: GemmConfig) -> GemmConfig:
    """Return the configuration of the kernel that loads A by TMA; other mainloops stay as they are."""
    schedule = config.schedule
    return config.having(mainloop=kernel(schedule.tile)) if schedule.mainloop == MAINLOOP else config


def granule(problem: Problem) -> int:
    """Bytes that A is copied by at a time; 0 where its rows suit no copy."""
    if problem.wide:
        return WIDEST_ACCESS
    return problem.a.granule if problem.a.granule >= LEAST else 0


def violations(limits: Limits, config: GemmConfig, stages: int | None) -> list[Violation]:
    """Every broken rule, each with a value that is legal with the other settings where there is one."""
    return rules.violations(partial(broken, limits), _mended, config, stages)


def broken(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    """Yield the broken rules; those of the kernel only if it multiplies in the format."""
    if config.schedule.mainloop != MAINLOOP:
        yield from sm90_rules.broken(limits, config, stages)
        return
    own = list(_own(config))
    yield from own
    if config.problem.compute in COMPUTES:
        known = {rule.setting for rule in own}
        theirs = sm90_rules.broken(limits, as_tma(config), stages)
        yield from (_named(rule, config) for rule in theirs if rule.setting not in known)


def _named(rule: Broken, config: GemmConfig) -> Broken:
    """Return a rule of another mainloop's kernel as a rule of this one, with the reason."""
    if rule.code == "MU3010":
        rule = rule._replace(notes=("only tiles with a multiple of 128 rows are added up from parts",))
    theirs = f"the {kernel(config.schedule.tile)} mainloop"
    return rule._replace(message=rule.message.replace(theirs, f"the {MAINLOOP} mainloop"))


def _own(config: GemmConfig) -> Iterator[Broken]:
    problem = config.problem
    if problem.compute not in COMPUTES:
        yield rules.no_format("wgmma multiplies what cp.async has copied in", config, COMPUTES, _others)
        return
    if problem.b.is_gathered:
        note = "only rows of the kernel's first operand are copied one by one"
        message = "the operand whose rows are picked must be the first one of the kernel"
        yield Broken("MU3028", "exchange", message, (note,), _exchanges)
    elif not problem.a.k_major or problem.rights == 2:
        message = f"the {MAINLOOP} mainloop takes no second right operand"
        note = "its kernels multiply one left operand with one right operand"
        if not problem.a.k_major:
            message = f"the {MAINLOOP} mainloop copies rows of A, but A is not contiguous along K"
            note = "the other mainloops take 16-bit operands of either order"
        yield Broken("MU3026", "mainloop", message, (note,), _others)
    step = SPAN // problem.element_bytes
    if (k := config.schedule.tile[2]) < 1 or k % step:
        message = f"tile K = {k} is not a multiple of {step}, as the {MAINLOOP} mainloop needs"
        note = f"rows of A are copied {SPAN} bytes at a time"
        yield Broken("MU3027", "tile", message, (note,), _tiles)


def _mended(config: GemmConfig, stages: int | None, settings: set[str]) -> tuple[GemmConfig, int | None]:
    """Return the configuration with harmless values for some settings."""
    if "mainloop" in settings:
        config = config.having(mainloop="cooperative")
    return rules.mended(config, stages, settings, (128, 128, 64))


def _tiles(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    return nearest_tiles(config, stages, rows=TILE_M, columns=TILE_N, depths=TILE_K)


def _others(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    for mainloop in (*sm90_rules.MAINLOOPS, "multistage"):
        yield Fix(mainloop, config.having(mainloop=mainloop), stages)


def _exchanges(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    yield Fix("off" if config.schedule.exchanged else "on", config.transposed, stages)


# Shared memory


def kernel_storage(config: GemmConfig, stages: int) -> int:
    """Bytes of the kernel's shared memory."""
    return memory.kernel_storage(as_tma(config), stages)


def max_stages(config: GemmConfig, capacity: int) -> int:
    """Return the most stages that fit into `capacity` bytes."""
    return memory.max_stages(as_tma(config), capacity)
