"""Work that PyTorch and its libraries did."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, Label, minor, reject, unless_crowded
from mucc.agent.audit.observations import Observations
from mucc.agent.audit.shares import compute_ops, kinds, own_share, runs_reference

LITTLE, MUCH = 0.1, 0.5
"""Of the time: less than the first of its own makes a solution PyTorch's. Less than the second does on a GPU
where PyTorch also runs all of the reference: kernels beside that replace nothing, and where they take more,
the whole takes twice as long as PyTorch. Otherwise it is told only: a solution may replace some of the
operations and leave others to PyTorch, as in KernelBench, and may check its results."""


class PyTorchOnly:
    """Who the kernels belong to."""

    name = "pytorch_only"
    looks_at = "kernels and ATen operations of observed calls"

    def check(self, seen: Observations) -> Iterator[Finding]:
        share = own_share(seen)
        if share is None:
            return
        theirs, ours = compute_ops(seen.reference.work), compute_ops(w for c in seen.calls for w in c.work)
        if share < LITTLE:
            found = reject(
                self.name, f"{share:.0%} of the time is not PyTorch's", Label.PYTORCH_ONLY, own_share=share
            )
            # Calls without any kernel of the solution's own have a share of zero, whatever times are.
            yield unless_crowded(found, seen.timing.crowded if share else "")
        elif seen.device == "cpu" and kinds(theirs) and kinds(theirs) <= kinds(ours):
            names = ", ".join(sorted(theirs)[:6])
            yield reject(self.name, f"calls all operations of the reference: {names}", Label.PYTORCH_ONLY)
        elif share < MUCH and seen.device == "cuda" and runs_reference(seen):
            found = reject(
                self.name,
                f"PyTorch runs all kernels of the reference, which take {1 - share:.0%} of the time",
                Label.PYTORCH_ONLY,
                own_share=share,
            )
            yield unless_crowded(found, seen.timing.crowded)
        elif share < MUCH:
            yield minor(self.name, f"{1 - share:.0%} of the time is PyTorch's", own_share=share)
