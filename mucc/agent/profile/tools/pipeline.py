"""Detect mainloops whose loads do not keep ahead of their products."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Choice, Evidence, Stage
from mucc.agent.profile.tools.stalls import REASONS, shares

COMPUTE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"

STARVED, IDLE = 0.15, 50.0
"""KernelPro (arXiv 2606.26453): a share of long-scoreboard stalls above 15 % while compute and memory are
both below 50 % of their peaks is a pipeline that starves."""

HELD = 2
"""Stages that are not on their way: one is multiplied, one waits to be released (`held` of
mucc/target/data/sm_90a.toml). With no more of them nothing is loaded ahead."""


class Pipeline:
    """Too few stages for the latency of loads, or a K too short to fill them."""

    name = "pipeline"
    looks_at = "pipeline stages against the latency of loads and the steps along K"
    limits = frozenset({Limit.COMPUTE, Limit.MIXED, Limit.LATENCY})
    sources = ("schedule", "ncu")
    metrics = (COMPUTE, MEMORY, *REASONS.values())

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage, choice in seen.products:
            steps = ceil(choice.extents.k / choice.tile[2]) if choice.extents else None
            if found := self._shallow(stage, choice, steps) or self._starved(stage, choice):
                yield found
            if choice.by_tma and steps is not None and steps < choice.stages:
                yield self._short(stage, choice, steps)

    def _shallow(self, stage: Stage, choice: Choice, steps: int | None) -> Advice | None:
        if not choice.by_tma:
            return None
        few = choice.stages <= HELD and (steps is None or steps > choice.stages)
        if not few and choice.estimate.get("limit") != "latency":
            return None
        return Advice(
            self.name,
            Severity.CRITICAL if few else Severity.WARNING,
            f"{choice.stages} stages do not cover the latency of loads: products wait for them",
            [
                "leave stages to the compiler (auto): as many as fit into shared memory",
                "a smaller tile leaves room for more stages",
            ],
            stage.name,
            ["stages", "tile"],
            {"stages": choice.stages, "steps": steps, "limit": choice.estimate.get("limit", "")},
        )

    def _starved(self, stage: Stage, choice: Choice) -> Advice | None:
        if choice.estimate.get("waves", 1.0) < 1:
            return None  # what is missing are blocks: see tail_waves
        compute, memory = stage.counters.get(COMPUTE), stage.counters.get(MEMORY)
        waiting = shares(stage.counters).get("long_scoreboard")
        if compute is None or memory is None or waiting is None:
            return None
        if waiting <= STARVED or max(compute, memory) >= IDLE:
            return None
        return Advice(
            self.name,
            Severity.WARNING,
            f"warps wait for loads {waiting:.0%} of the time while neither compute ({compute:.0f} %)"
            f" nor memory ({memory:.0f} %) is busy",
            [
                "more stages, or a smaller tile that leaves room for them",
                "more blocks at work: a smaller tile, split_k or stream_k",
                "a mainloop that loads by TMA, where this one does not",
            ],
            stage.name,
            ["stages", "tile", "split_k", "stream_k"] + ([] if choice.by_tma else ["mainloop"]),
            {"long_scoreboard": waiting, COMPUTE: compute, MEMORY: memory, "stages": choice.stages},
        )

    def _short(self, stage: Stage, choice: Choice, steps: int) -> Advice:
        advice = ["fewer stages leave shared memory to a larger epilogue, or to a second block"]
        levers = ["tile", "stages"]
        if choice.mainloop != "pingpong":
            advice.insert(0, "pingpong overlaps the epilogue of a tile with the products of the next")
            levers.insert(0, "mainloop")
        return Advice(
            self.name,
            Severity.INFO,
            f"K is {steps} steps deep: a pipeline of {choice.stages} stages never fills, so that filling and"
            " the epilogue take much of the time",
            advice,
            stage.name,
            levers,
            {"steps": steps, "stages": choice.stages},
        )
