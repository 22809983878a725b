"""How an audit is made."""

from __future__ import annotations

from dataclasses import dataclass

from mucc.agent.audit.observations import Bound
from mucc.api.sandbox import Isolation

PRECISIONS = ("declared", "tf32", "f16", "bf16")


@dataclass(frozen=True)
class Options:
    """Settings of one audit.

    `device` is "cuda", "cpu", or "auto": a GPU where there is one. `card` names the data that the bound
    comes from; by itself that of the GPU. `precision` is the narrowest format that f32 products may be
    computed in, `seed` makes an audit repeatable. `time_limit` is in seconds for each of the two
    processes, what other work takes from them not counted (`Charge`), `memory_limit` in MiB of main
    memory beside torch. At most `runs` calls are timed. `known` is a bound that is known already; without
    `bound` there is none. `shapes` audits at smaller sizes as well, where the problem has some.
    `isolation` says which layers confine the processes.
    """

    device: str = "auto"
    card: str | None = None
    precision: str = "declared"
    seed: int | None = None
    time_limit: float = 300.0
    memory_limit: int = 8192
    runs: int = 30
    bound: bool = True
    known: Bound | None = None
    shapes: bool = False
    isolation: Isolation = Isolation.BEST
