"""The settings of schedules, and every legal schedule of a program with its estimated time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.dialects.mu.settings import (
        CLUSTER,
        EXCHANGE,
        MAINLOOP,
        PDL,
        REPRODUCIBLE,
        SCHEDULER,
        SETTINGS,
        STAGES,
        TILE,
        parse_settings,
        texts_of,
    )
    from mucc.measure.tune.ranking import Contraction, Move, Survey, survey

__all__ = [
    "CLUSTER",
    "EXCHANGE",
    "MAINLOOP",
    "PDL",
    "REPRODUCIBLE",
    "SCHEDULER",
    "SETTINGS",
    "STAGES",
    "TILE",
    "Contraction",
    "Move",
    "Survey",
    "parse_settings",
    "survey",
    "texts_of",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.dialects.mu.settings": (
            "CLUSTER",
            "EXCHANGE",
            "MAINLOOP",
            "PDL",
            "REPRODUCIBLE",
            "SCHEDULER",
            "SETTINGS",
            "STAGES",
            "TILE",
            "parse_settings",
            "texts_of",
        ),
        "mucc.measure.tune.ranking": ("Contraction", "Move", "Survey", "survey"),
    },
)
