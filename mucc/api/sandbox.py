"""Confine processes that run untrusted code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.process.sandbox.layers import QUOTA, available, enter, prepare
    from mucc.process.sandbox.modes import GUARDS, Isolation, Layer
    from mucc.process.sandbox.namespaces import Begun, leave_namespaces
    from mucc.process.sandbox.places import Common, Places, common, places

__all__ = [
    "GUARDS",
    "QUOTA",
    "Begun",
    "Common",
    "Isolation",
    "Layer",
    "Places",
    "available",
    "common",
    "enter",
    "leave_namespaces",
    "places",
    "prepare",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.process.sandbox.layers": ("QUOTA", "available", "enter", "prepare"),
        "mucc.process.sandbox.modes": ("GUARDS", "Isolation", "Layer"),
        "mucc.process.sandbox.namespaces": ("Begun", "leave_namespaces"),
        "mucc.process.sandbox.places": ("Common", "Places", "common", "places"),
    },
)
