"""Stalls of warps with one dominant reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import Evidence
from mucc.agent.profile.tools import EVERY
from mucc.agent.profile.tools.stalls import REASONS, shares

MUCH, MOST = 0.4, 0.6
"""The share of warps' time: KernelPro (arXiv 2606.26453) warns above 40 %, and calls 60 % critical."""


MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"

HALF_BUSY, BUSY = 40.0, 60.0
"""Percent of the peak of memory or a cache from which loads take long because there are many: an elementwise
kernel at 91 % of it waits 93 % of the time for loads, as it should (test/data/profile). Between the
two they are one cause of several."""


class Cure(NamedTuple):
    """What a reason means and what helps."""

    meaning: str
    advice: str
    levers: tuple[str, ...]


CURES: Mapping[str, Cure] = {
    "long_scoreboard": Cure(
        "loads from global or local memory",
        "fewer or wider loads: fuse stages, keep rows at multiples of 16 bytes; more warps hide the rest",
        ("layout", "fusion", "stages"),
    ),
    "short_scoreboard": Cure(
        "shared memory or special functions",
        "cheaper functions, or another tile with fewer accesses to shared memory",
        ("tile", "precision"),
    ),
    "lg_throttle": Cure(
        "a queue of loads and stores that is full",
        "wider accesses: rows at multiples of 16 bytes",
        ("layout",),
    ),
    "mio_throttle": Cure(
        "the queue of shared memory and special functions",
        "a larger tile, or fewer special functions",
        ("tile",),
    ),
    "math_pipe_throttle": Cure(
        "an arithmetic unit that is busy: this is what one wants of a compute-bound kernel",
        "products in a narrower format, if the policy of precision permits it",
        ("precision",),
    ),
    "membar": Cure("memory fences between blocks", "fewer pieces of K, or none", ("split_k", "stream_k")),
    "drain": Cure("stores at the end of a block", "larger pieces of work for a block", ("tile",)),
    "sleeping": Cure("threads that sleep until others are done", "fewer pieces of K", ("split_k",)),
    "no_instruction": Cure("instructions: the code is longer than its cache", "a smaller tile", ("tile",)),
}

OTHER = Cure("", "another tile or mainloop, or another division into stages", ("tile", "mainloop"))

OF_KERNELS = ("layout", "fusion", "precision")
"""The levers of stages that are no contractions."""

FOR_TMA = frozenset({"no_instruction", "lg_throttle", "membar", "drain"})
"""Reasons that matter where warps that load feed warps that multiply: for all others they wait by design."""

BY_DESIGN = frozenset({"selected", "not_selected", "barrier", "wait"})
"""Reasons that are no stalls, or that other tools report."""


class WarpStalls:
    """One reason to wait that prevails. Kernels whose warps feed each other wait by design: see pipeline."""

    name = "warp_stalls"
    looks_at = "what warps wait for, where one reason prevails"
    limits = EVERY
    sources = ("ncu",)
    metrics = (*REASONS.values(), MEMORY)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            tma = stage.choice is not None and stage.choice.by_tma
            found = {
                name: share
                for name, share in shares(stage.counters).items()
                if (name in FOR_TMA if tma else name not in BY_DESIGN)
            }
            reason = max(found, key=lambda name: found[name], default="")
            if not reason or (share := found[reason]) <= MUCH:
                continue
            busy = stage.counters.get(MEMORY, 0.0) if reason == "long_scoreboard" else 0.0
            if busy >= BUSY:
                continue
            cure = CURES.get(reason, OTHER)
            levers = [x for x in cure.levers if stage.choice is not None or x in OF_KERNELS]
            yield Advice(
                self.name,
                Severity.CRITICAL if share > MOST and busy < HALF_BUSY else Severity.WARNING,
                f"warps wait {share:.0%} of the time for {cure.meaning or reason.replace('_', ' ')}",
                [cure.advice],
                stage.name,
                levers or ["fusion"],
                {"reason": reason, "share": share},
            )
