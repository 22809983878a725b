"""The forms of programs: every kind of kernel that the compiler has, each as a function that drafts one.

A new kind of kernel joins by a function and a line at the end of `FORMS`: then recorded choices still replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bench.gpu_fuzz import (
    contractions,
    convolutions,
    maps,
    measures,
    mixtures,
    operands,
    orders,
    pages,
    parts,
)
from bench.gpu_fuzz.drafts import Draft


class Form(NamedTuple):
    """A form, how often it is drawn, and what schedules its kernels have.

    `hopper_only` forms have kernels for sm_90a alone; `mainloops` are all that a form has, without exchanged
    operands and other extras, where they are fewer than the target's. Kernels of forms without `has_schedule`
    take none: it would be an error.
    """

    draft: Callable[[Draft], None]
    weight: int
    hopper_only: bool = False
    mainloops: tuple[str, ...] = ()
    has_schedule: bool = True


FORMS = {
    "product": Form(contractions.product, 16),
    "batched": Form(contractions.batched, 6),
    "vector": Form(contractions.vector, 3),
    "pair": Form(contractions.pair, 4),
    "mixed": Form(contractions.mixed, 4),
    "sparse": Form(contractions.sparse, 4, True, ("cooperative", "pingpong", "warpspecialized")),
    "blocks": Form(contractions.blocks, 2, True, ("cooperative", "pingpong")),
    "grouped": Form(contractions.grouped, 5, True, ("cooperative", "pingpong", "cpasync")),
    "picked": Form(contractions.picked, 3),
    "lists": Form(contractions.lists, 3),
    "stages": Form(contractions.stages, 5),
    "attention": Form(contractions.attention, 3),
    "convolutions": Form(convolutions.convolutions, 8, has_schedule=False),
    "pointwise": Form(maps.pointwise, 9, has_schedule=False),
    "reductions": Form(maps.reductions, 8, has_schedule=False),
    "scans": Form(maps.scans, 6, has_schedule=False),
    "sorts": Form(maps.sorts, 4, has_schedule=False),
    "pools": Form(maps.pools, 5, has_schedule=False),
    "norms": Form(maps.norms, 7, has_schedule=False),
    "rows": Form(maps.rows, 5, has_schedule=False),
    "views": Form(maps.views, 5, has_schedule=False),
    "parts": Form(parts.parts, 8, has_schedule=False),
    "integers": Form(maps.integers, 6, has_schedule=False),
    "widened": Form(contractions.widened, 2),
    "broadcast": Form(contractions.broadcast, 3),
    "measures": Form(measures.measures, 6, has_schedule=False),
    "grouped norms": Form(measures.grouped_norms, 4, has_schedule=False),
    "losses": Form(measures.losses, 4, has_schedule=False),
    "operands": Form(operands.operands, 6, has_schedule=False),
    "pages": Form(pages.paged, 2),
    "orders": Form(orders.orders, 6, has_schedule=False),
    "mixtures": Form(mixtures.mixtures, 12, has_schedule=False),
}

ON_HOST = tuple(
    name
    for name in FORMS
    if name
    not in (
        "sparse",
        "blocks",
        "grouped",
        "mixed",
        "pair",
        "picked",
        "lists",
        "widened",
        "product",
        "batched",
    )
)
"""The forms whose kernels run on the host: those of the others are CUTLASS's."""
