"""Evidence for tools of the profile: stages, counters and kernels made up from a few numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from mucc.agent.core.analysis import Advice, Limit
from mucc.agent.profile.code import Code
from mucc.agent.profile.evidence import Choice, Evidence, Extents, Kernel, Stage
from mucc.agent.profile.tools.stalls import REASONS
from mucc.build.toolchain.machine_code import Resources

PRODUCT = Choice(
    "bf16", (128, 128, 64), (1, 1), "cooperative", 6, "persistent", extents=Extents(4096, 4096, 4096, 1)
)
OLD = replace(PRODUCT, mainloop="multistage")


def stage(choice: Choice | None = PRODUCT, **more: Any) -> Stage:
    return Stage("k.out", "gemm" if choice else "map", choice, **more)


def seen(*stages: Stage, limit: Limit = Limit.MIXED, **more: Any) -> Evidence:
    return Evidence(limit, stages, **more)


def only(tool: Any, evidence: Evidence) -> Advice | None:
    """The one finding of a tool; None where it has none."""
    found = list(tool.check(evidence))
    assert len(found) <= 1, found
    return found[0] if found else None


def estimated(choice: Choice = PRODUCT, **estimate: Any) -> Choice:
    return replace(choice, estimate=estimate)


def stalls(**parts: float) -> dict[str, float]:
    """Counters in which these reasons have these parts, and `wait` the rest."""
    rest = max(0.0, 1 - sum(parts.values()))
    return {REASONS[name]: value * 7 for name, value in {**parts, "wait": rest}.items()}


def kernel(name: str, *instructions: str, registers: int = 32, stack: int = 0) -> Kernel:
    return Kernel(name, Resources(name, registers, stack, 0, 256), Code.of(instructions))


percents = st.floats(0, 100)
shares_of_time = st.floats(0.01, 0.99)

WIDE = kernel("mu_k_out_map_vector", "LDG.E.128 R4, desc[UR4][R2.64]", "STG.E.128 desc[UR4][R2.64], R4")
NARROW = kernel("mu_k_out_map", "LDG.E.U16 R4, desc[UR4][R2.64]", "STG.E.U16 desc[UR4][R2.64], R4")
