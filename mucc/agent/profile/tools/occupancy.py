"""Too few warps to hide latencies, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import Choice, Evidence, Stage
from mucc.agent.profile.tools import EVERY

ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
WAVES = "launch__waves_per_multiprocessor"

LOW, VERY_LOW = 50.0, 25.0
"""Percent of the warps that a multiprocessor can hold: KernelPro (arXiv 2606.26453) warns below 50."""


FEW = "the number of blocks"


class Occupancy:
    """Detects kernels that need many warps and have few. Kernels that load by TMA need one or two blocks."""

    name = "occupancy"
    looks_at = "warps at work against those that fit, and what limits them"
    limits = EVERY
    sources = ("ncu",)
    metrics = (ACTIVE, WAVES, *LIMITS.values())

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            if stage.choice is not None and stage.choice.by_tma:
                if (found := self._alone(stage, stage.choice)) is not None:
                    yield found
            elif (active := stage.counters.get(ACTIVE)) is not None and active < LOW:
                yield self._low(stage, active)

    def _alone(self, stage: Stage, choice: Choice) -> Advice | None:
        """Return a kernel for several blocks a multiprocessor whose stages leave room for one."""
        room = {name: stage.counters.get(metric, 0.0) for name, metric in LIMITS.items()}
        if choice.mainloop != "warpspecialized" or room["shared memory"] != 1 or room["registers"] < 2:
            return None
        return Advice(
            self.name,
            Severity.WARNING,
            f"{choice.stages} stages take all shared memory, so that a multiprocessor has one block, whose"
            " epilogue nothing hides",
            [
                "half as many stages make room for a second block",
                "mainloop = pingpong, whose two groups of warps take turns within one block",
            ],
            stage.name,
            ["stages", "mainloop", "tile"],
            {"stages": choice.stages, **{LIMITS[name]: count for name, count in room.items()}},
        )

    def _low(self, stage: Stage, active: float) -> Advice:
        blocks = {name: stage.counters[m] for name, m in LIMITS.items() if m in stage.counters}
        limiter = min(blocks, key=lambda name: blocks[name], default="")
        warps = blocks.get("warps", 0.0)
        fits = 100.0 * blocks[limiter] / warps if warps else 0.0
        few = fits >= LOW and stage.counters.get(WAVES, 1.0) < 1
        if few:
            limiter, advice, levers = FEW, ["the stage is too small to fill the card: fuse it"], ["fusion"]
        elif stage.choice is not None:
            advice = ["a smaller tile, or fewer stages, so that more blocks fit a multiprocessor"]
            levers = ["tile", "stages"]
        else:
            advice = ["split the expression with `stage`, so that each kernel holds fewer values"]
            levers = ["fusion"]
        grave = active < VERY_LOW and stage.choice is None and not few
        return Advice(
            self.name,
            Severity.CRITICAL if grave else Severity.WARNING,
            f"{active:.0f} % of the warps that fit are at work"
            + (f", limited by {limiter}" if limiter else ""),
            advice,
            stage.name,
            levers,
            {ACTIVE: active, **{LIMITS[name]: count for name, count in blocks.items()}},
        )
