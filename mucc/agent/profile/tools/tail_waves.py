"""Multiprocessors without work: fewer tiles than places, or a last wave that is mostly empty."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import Choice, Evidence, Stage
from mucc.agent.profile.tools import EVERY

WAVES = "launch__waves_per_multiprocessor"

IDLE, MOSTLY_IDLE = 0.15, 0.5
"""The share of places in all waves that has no work: a seventh is worth another tile, which loses
less than that; at half, half of the card stands still (own choice)."""


WITHOUT_STREAM_K = ("skinny",)
"""Mainloops that have no stream-K scheduler, and cannot be left for one that has."""


class TailWaves:
    """Places without work, in the only wave or in the last."""

    name = "tail_waves"
    looks_at = "multiprocessors without work, in the only or in the last wave of tiles"
    limits = EVERY
    sources = ("schedule", "ncu")
    metrics = (WAVES,)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        for stage in seen.notable:
            if stage.choice is not None:
                yield from self._product(stage, stage.choice)
            elif (waves := stage.counters.get(WAVES)) is not None and waves < 1 - MOSTLY_IDLE:
                yield Advice(
                    self.name,
                    Severity.INFO,
                    f"the kernel fills {waves:.0%} of the places for its blocks",
                    ["let a kernel with more work do it: fuse it with the stage before or after"],
                    stage.name,
                    ["fusion"],
                    {WAVES: waves},
                )

    def _product(self, stage: Stage, choice: Choice) -> Iterator[Advice]:
        waves, idle = choice.estimate.get("waves"), choice.estimate.get("tail")
        if waves is None or idle is None or idle < IDLE:
            return
        places = choice.estimate.get("blocks", 0)
        evidence = {"waves": waves, "idle": idle, "tile": list(choice.tile), "cluster": list(choice.cluster)}
        severity = Severity.CRITICAL if idle >= MOSTLY_IDLE else Severity.WARNING
        even = choice.scheduler != "stream_k" and choice.mainloop not in WITHOUT_STREAM_K
        if waves < 1:
            cause = f"only {waves * places:.0f} of {places} blocks have work: {idle:.0%} of the card is idle"
            advice = ["a smaller tile makes more of them", "split_k divides K over several blocks"]
            levers = ["tile", "split_k"]
        else:
            rounds = -(-waves // 1)
            cause = f"{waves:.2f} waves take the time of {rounds:.0f}: {idle:.0%} of the places are idle"
            advice = ["a tile of another size or width, with which the tiles just fill whole waves"]
            levers = ["tile"]
        if even:
            other = ", by mainloop = cooperative" if choice.mainloop == "pingpong" else ""
            advice.append(f"stream_k divides K as it takes to give every block the same{other}")
            levers.append("stream_k")
        if choice.cluster != (1, 1):
            advice.append("a smaller cluster, which leaves fewer places out")
            levers.append("cluster")
        yield Advice(self.name, severity, cause, advice, stage.name, levers, evidence)
