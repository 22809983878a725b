"""CUDA graphs, and calls that run nothing."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, note, reject
from mucc.agent.audit.observations import Observations


class GraphReplay:
    """Calls without a kernel, and graphs that do less when they are replayed."""

    name = "graph_replay"
    looks_at = "kernels of observed calls"

    def check(self, seen: Observations) -> Iterator[Finding]:
        observed = seen.observed
        if seen.device != "cuda" or not _kernels(seen):
            return
        idle = [c.case.name for c in observed if not any(w.kind == "kernel" for w in c.work)]
        if idle:
            yield reject(self.name, f"no kernel ran in {', '.join(idle)}", cases=idle)
        if any("GraphLaunch" in w.name for c in observed for w in c.work):
            wrong = [c.case.name for c in seen.compared if not c.comparison.correct]
            if wrong:
                yield reject(
                    self.name, f"replays a CUDA graph that does not do the work of {', '.join(wrong)}"
                )
            else:
                yield note(self.name, "replays a CUDA graph")


def _kernels(seen: Observations) -> bool:
    """Whether the reference runs kernels at all, as far as the profiler can tell."""
    return any(w.kind == "kernel" for w in seen.reference.work)
