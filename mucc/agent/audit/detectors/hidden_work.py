"""Work of PyTorch's that the candidate's process does not tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mucc.agent.audit.findings import Finding, Label, reject, unsure
from mucc.agent.audit.hidden import RISK, UNSURE, surprise
from mucc.agent.audit.observations import Observations
from mucc.agent.audit.places import Look


class HiddenWork:
    """What threads do when timed calls are stopped, against what the profiler tells of observed ones."""

    name = "hidden_work"
    looks_at = "where threads are in timed calls that are stopped at random moments, as the system tells"

    def check(self, seen: Observations) -> Iterator[Finding]:
        if hidden := sorted({look.case for look in seen.looks if look.hidden}):
            said = (
                "the system tells no longer what the process runs, as it did before the solution was loaded"
            )
            yield reject(self.name, said, cases=hidden)
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


def _most(looks: Sequence[Look]) -> str:
    """Return the function that most looks have seen."""
    return Counter(name for look in looks for name in look.functions).most_common(1)[0][0][:80]
