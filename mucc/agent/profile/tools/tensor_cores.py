"""Detect contractions that leave tensor cores idle or use instructions older than Hopper's."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Choice, Evidence, Stage

BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"

GOOD, LOW, VERY_LOW = 85.0, 60.0, 30.0
"""Percent of the time in which tensor cores work. On an H200 large products in bf16 and tf32 keep them busy
for 89 to 94 %; with a fifth of the places idle it is 54, with two stages, spills or tiny tiles 20 to 28
(test/data/profile)."""

WAITS = {
    "shared memory": (
        "the mainloop waits for shared memory: a larger tile does more for each byte",
        ["tile"],
    ),
    "L2": (
        "operands come from L2 too slowly: share loads in a cluster, or take a larger tile",
        ["cluster", "tile"],
    ),
    "DRAM": (
        "operands come from DRAM more than once: another order of tiles keeps them in L2",
        ["swizzle", "raster", "tile"],
    ),
    "latency": ("too few steps are on their way: more stages, or a smaller tile", ["stages", "tile"]),
    "conversion": ("narrow operands are converted in registers: store them wider", ["precision"]),
}
"""What to do where the cost model says that the mainloop waits (docs/schedules.md)."""


class TensorCores:
    """Tensor cores that are idle, missing, or used by the instructions of older GPUs."""

    name = "tensor_cores"
    looks_at = "how busy tensor cores are, and by which instructions"
    limits = frozenset({Limit.COMPUTE, Limit.MIXED})
    sources = ("ncu", "sass", "schedule")
    metrics = (BUSY,)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage, choice in seen.products:
            if (found := self._instructions(stage, choice)) is not None:
                yield found
            elif (busy := stage.counters.get(BUSY)) is not None and busy < GOOD:
                yield self._idle(stage, choice, busy)

    def _instructions(self, stage: Stage, choice: Choice) -> Advice | None:
        codes = [k.code for k in stage.at_work if k.code]
        if not codes or choice.mainloop == "skinny" or any(c.wgmma for c in codes):
            return None
        if any(c.mma for c in codes):
            return Advice(
                self.name,
                Severity.WARNING,
                "the products are made by mma.sync, which reaches 62 % of the rate of wgmma on Hopper",
                [
                    "choose a mainloop that multiplies by wgmma: cooperative or pingpong",
                    "where rows are no multiple of 16 bytes, let the compiler pad them",
                ],
                stage.name,
                ["mainloop", "layout"],
                {"mainloop": choice.mainloop, "mma": sum(c.mma for c in codes)},
            )
        return Advice(
            self.name,
            Severity.CRITICAL,
            f"products in {choice.compute} do not use the tensor cores at all",
            [
                "multiply in tf32 if the policy of precision permits it, else in tf32x3",
                "choose mainloop cooperative or pingpong",
            ],
            stage.name,
            ["precision", "mainloop"],
            {"compute": choice.compute, "mainloop": choice.mainloop},
        )

    def _idle(self, stage: Stage, choice: Choice, busy: float) -> Advice:
        limit = str(choice.estimate.get("limit", ""))
        advice, levers = WAITS.get(
            limit, ("a larger tile or another mainloop may feed them better", ["tile"])
        )
        return Advice(
            self.name,
            _severity(busy),
            f"tensor cores work {busy:.0f} % of the time" + (f", bound by {limit}" if limit else ""),
            [advice, "compare mainloops: pingpong hides epilogues, cooperative takes larger tiles"],
            stage.name,
            [*levers, "mainloop"],
            {BUSY: busy, "tile": list(choice.tile), "limit": limit},
        )


def _severity(busy: float) -> Severity:
    if busy < LOW:
        return Severity.CRITICAL if busy < VERY_LOW else Severity.WARNING
    return Severity.INFO
