"""Time between kernels, and what it takes to launch them."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.profile.evidence import TIME, Evidence
from mucc.agent.profile.tools import EVERY

SHARE, MOST = 0.2, 0.5
"""Of the measured time: KernelPro (arXiv 2606.26453) warns above 20 %; at half, half is lost."""


class Launches:
    """A call that spends its time on launching kernels rather than in them."""

    name = "launches"
    looks_at = "the share of a call's time outside its kernels"
    limits = EVERY
    sources = ("ncu", "schedule")
    metrics = (TIME,)

    def check(self, seen: Evidence) -> Iterator[Advice]:
        if not seen.measured_us:
            return
        count = seen.launches
        lost = count * seen.launch_us
        share = lost / seen.measured_us
        if share <= SHARE:
            return
        advice: list[str] = []
        levers: list[str] = []
        if count > 1:
            advice.append(f"fewer kernels: {count} are launched in a call; fuse stages")
            levers.append("fusion")
        if any(s.choice is not None and not s.choice.pdl for s in seen.stages):
            advice.append("pdl = on lets a kernel start while the one before it still runs")
            levers.append("pdl")
        if not levers:
            return
        yield Advice(
            self.name,
            Severity.CRITICAL if share > MOST and count > 1 else Severity.WARNING,
            f"launching {count} kernel{'s' * (count > 1)} takes about {min(share, 1.0):.0%} of a call",
            advice,
            "",
            levers,
            {"launches": count, "launch_us": seen.launch_us, "measured_us": seen.measured_us},
        )
