"""The place of measurements as a value: this machine's GPUs, or those of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mucc.diagnostics.core import Diagnostic


class Where(NamedTuple):
    """The place of measurements: the current GPU, GPUs of this machine by number, or a cluster.

    `ray` is an address of a Ray cluster, `card` the kind of card to take there, and `most` how many of them
    at most. `command` starts the process that launches kernels, another one in tests; `warn` is
    called for GPUs of the cluster that are not used (MU5503).
    """

    gpus: tuple[int, ...] = ()
    ray: str | None = None
    card: str | None = None
    most: int | None = None
    command: tuple[str, ...] | None = None
    warn: Callable[[Diagnostic], None] = lambda _: None
