"""Confine processes that run untrusted code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.process.sandbox.layers import QUOTA, available, enter
    from mucc.process.sandbox.modes import GUARDS, Isolation, Layer
    from mucc.process.sandbox.namespaces import leave_namespaces
    from mucc.process.sandbox.places import Places, places

__all__ = [
    "GUARDS",
    "QUOTA",
    "Isolation",
    "Layer",
    "Places",
    "available",
    "enter",
    "leave_namespaces",
    "places",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.process.sandbox.layers": ("QUOTA", "available", "enter"),
        "mucc.process.sandbox.modes": ("GUARDS", "Isolation", "Layer"),
        "mucc.process.sandbox.namespaces": ("leave_namespaces",),
        "mucc.process.sandbox.places": ("Places", "places"),
    },
)
