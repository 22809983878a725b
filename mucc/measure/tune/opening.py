"""Open the GPUs that a search measures on: one of this machine, several, or those of a cluster."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

from mucc.build.pool import awaited
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.measure.tune.gpus import Alone, Gpus, Together
from mucc.measure.tune.measuring import TIMEOUT, Session, check_card
from mucc.measure.tune.where import Where
from mucc.measure.tune.worker import Worker


@contextlib.contextmanager
def opened(
    where: Where,
    target: str,
    timeout: float = TIMEOUT,
    support: str | None = None,
    worker: Worker | None = None,
) -> Generator[Gpus]:
    """Yield the GPUs to measure on, ready; ends their processes.

    Raises DiagnosticError: MU5301 without a GPU, MU5312 for another than the target's, MU5506 for GPUs of
    several kinds, and for clusters MU5501 to MU5504.
    """
    if where.ray is not None:
        from mucc.measure.tune import cluster

        with cluster.opened(where, target, timeout, support) as gpus:
            yield gpus
    elif len(where.gpus) > 1:
        with _several(where, target, timeout, support) as gpus:
            yield gpus
    else:
        device = device_of(where.gpus[0]) if where.gpus else None
        with worker or Worker(where.command, device) as child:
            said = child.hello()
            check_card(target, said["arch"])
            yield Alone(Session(child, said["card"], timeout, support=support))


@contextlib.contextmanager
def _several(where: Where, target: str, timeout: float, support: str | None) -> Generator[Gpus]:
    """Yield GPUs of this machine, each with a process of its own."""
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(where.command, device_of(i))) for i in where.gpus]
        with ThreadPoolExecutor(len(workers)) as threads:  # each imports torch
            said = [awaited(future) for future in [threads.submit(w.hello) for w in workers]]
        for answer in said:
            check_card(target, answer["arch"])
        check_alike(dict(zip((f"GPU {i}" for i in where.gpus), (a["card"] for a in said), strict=True)))
        sessions = [Session(w, said[0]["card"], timeout, support=support) for w in workers]
        yield stack.enter_context(Together(sessions))


def device_of(number: int) -> str:
    """Return the value of CUDA_VISIBLE_DEVICES for a GPU by its number among those that are visible here."""
    visible = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    return visible[number] if number < len(visible) else str(number)


def check_alike(cards: dict[str, str]) -> None:
    """Raise MU5506 for GPUs, by name, that are of several kinds: their times must not be compared."""
    kinds: dict[str, list[str]] = {}
    for name, card in cards.items():
        kinds.setdefault(card, []).append(name)
    if len(kinds) > 1:
        parts = [
            f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {card}" for card, names in kinds.items()
        ]
        message = f"the GPUs are of several kinds, whose times cannot be compared: {'; '.join(parts)}"
        raise DiagnosticError(Diagnostic("MU5506", message, helps=("name GPUs of one kind",)))
