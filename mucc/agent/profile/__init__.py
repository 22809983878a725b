"""Profile programs: classify the problem by its roofline, then run the tools of that class.

    from mucc.agent.profile import analyze

    analysis = analyze(task, program, library, device="cuda", ms=0.12)

Nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.agent.profile.profiler import analyze

__all__ = ["analyze"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mucc.agent.profile import profiler

    return getattr(profiler, name)
