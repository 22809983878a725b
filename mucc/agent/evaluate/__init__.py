"""Evaluate candidates: build them in parallel, run and time each in its own process, audit the fastest.

evaluator = make(device="cuda", jobs=16)
for place, outcome in evaluator.evaluate(task, candidates, best_ms):
    …
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.agent.evaluate.settings import Settings

if TYPE_CHECKING:
    from mucc.agent.core.evaluator import Evaluator
    from mucc.agent.isolation.zygote import Zygote
    from mucc.api.sandbox import Isolation

__all__ = ["Settings", "make", "make_zygote"]


def make(
    *,
    device: str = "auto",
    jobs: int | None = None,
    folder: str | None = None,
    settings: Settings | None = None,
    zygote: Zygote | None = None,
) -> Evaluator:
    """Make an evaluator on a device: "cuda", "cpu" or "auto". It begins to load torch at once, in another
    process: the `zygote`, which is closed with it.

    `jobs` are builds at a time, by default as many as there are cores; `folder` keeps libraries and what
    torch.compile has made, by default for as long as the evaluator lasts.
    """
    from mucc.agent.evaluate.evaluator import LocalEvaluator

    return LocalEvaluator(device, jobs, folder, settings or Settings(), zygote or make_zygote())


def make_zygote(*modules: str, isolation: Isolation | None = None) -> Zygote:
    """Make the zygote of evaluations, which also loads `modules`; `isolation` says which layers confine its
    children, by default those that the machine allows."""
    from mucc.agent.evaluate.evaluator import PRELOADED
    from mucc.agent.isolation.zygote import Zygote
    from mucc.api.sandbox import Isolation

    threads = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    return Zygote((*modules, *PRELOADED), threads, isolation or Isolation.BEST)
