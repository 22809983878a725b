"""Kernels and operations that differ from call to call."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, minor, reject
from mucc.agent.audit.observations import Observations
from mucc.agent.audit.repeats import differs, steps


class KernelSet:
    """What runs is the same for inputs of the same shapes."""

    name = "kernel_set"
    looks_at = "names and numbers of kernels, and of operations on a CPU, in several calls"

    def check(self, seen: Observations) -> Iterator[Finding]:
        observed = seen.observed
        sets = {c.case.name: steps(c, seen.device) for c in observed}
        if len(set(sets.values())) < 2:
            return
        common = {item for found in sets.values() for item in found if all(item in s for s in sets.values())}
        facts = {name: sorted(f"{n}x {what}" for what, n in found - common) for name, found in sets.items()}
        stated = {sets[c.case.name] for c in observed if c.case.is_stated}
        message = "what runs differs between calls of the same shapes"
        scaled = [sets[c.case.name] for c in observed if not c.case.is_stated]
        if len(stated) == 1 and scaled and differs(scaled, *stated):
            yield reject(self.name, f"{message}: it depends on the values of inputs", differing=facts)
        else:
            yield minor(self.name, message, differing=facts)
