"""Work of PyTorch's that the candidate's process does not tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mucc.agent.audit.findings import Finding, Label, reject, unless_crowded, unsure
from mucc.agent.audit.hidden import RISK, UNSURE, surprise
from mucc.agent.audit.observations import Observations
from mucc.agent.audit.places import Look
from mucc.agent.audit.shares import busy_us, untold

NAME = "hidden_work"

OFTEN = 0.5
"""The share of timed calls from which on an operation belongs to all of them."""

FASTER, MORE_US, FEWEST = 2.0, 10.0, 2
"""Kernels of observed calls that run for so many times as long as timed calls take, and so many us more, are
others than those of timed calls; and how many calls have to be observed for that. Caches are warm in observed
calls, but not in timed ones."""


class HiddenWork:
    """What threads do when timed calls are stopped, against what the profiler tells of observed ones."""

    name = NAME
    looks_at = "where threads are in timed calls that are stopped at random moments, as the system tells"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if hidden := sorted({look.case for look in seen.looks if look.hidden}):
            said = (
                "the system tells no longer what the process runs, as it did before the solution was loaded"
            )
            yield reject(self.name, said, cases=hidden)
        if seen.device == "cuda":
            yield from _other_work(seen)
        looks = [look for look in seen.looks if not look.hidden]
        found = surprise(looks, seen.observed, gpu=seen.device == "cuda")
        if found.chance >= UNSURE:
            return
        said = (
            f"PyTorch {found.did} in {len(found.looks)} of {len(looks)} looks at timed calls, for one in"
            f" {_most(found.looks)}; its profiler tells of {found.told:.0%} of the time"
        )
        if found.chance < RISK:
            cases = sorted({look.case for look in found.looks})
            yield reject(self.name, said, Label.PYTORCH_ONLY, cases=cases, chance=found.chance)
        else:
            yield unsure(self.name, f"{said}; too few to tell, audit again when the machine does less")


def _other_work(seen: Observations) -> Iterator[Finding]:
    """Yield findings where timed calls on a GPU do something else than those that the profiler looks at."""
    what, cases = untold(seen)
    if len(cases) > OFTEN * len(seen.operations):
        yield reject(
            NAME,
            f"PyTorch computes '{what}' in {len(cases)} of {len(seen.operations)} timed calls, and in none of"
            " those that its profiler looks at",
            Label.PYTORCH_ONLY,
            cases=cases,
        )
    busy, interval, crowded = [busy_us(call) for call in seen.amid], seen.timing.interval, seen.timing.crowded
    if len(busy) < FEWEST or interval is None:
        return
    # Beside other processes timed calls take longer than they do alone, the fastest of them least so.
    least, most = min(busy), (min(seen.timing.calls) if crowded else interval[1]) * 1e3
    if least > FASTER * most + MORE_US:
        found = reject(
            NAME,
            f"kernels run for {least:.4g} us or more in calls that the profiler looks at, and timed calls"
            f" between these take {most:.4g} us: they do other work",
            observed_us=least,
            timed_us=most,
        )
        yield unless_crowded(found, crowded)


def _most(looks: Sequence[Look]) -> str:
    """Return the function that most looks have seen."""
    return Counter(name for look in looks for name in look.functions).most_common(1)[0][0][:80]
