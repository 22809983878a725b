"""Load all lowerings into the registry."""

from __future__ import annotations

from importlib import import_module

AREAS = (
    "pointwise",
    "integral",
    "contraction",
    "reduction",
    "views",
    "convolution",
    "convolution_backward",
    "normalisation",
    "attention",
    "indexed",
)


def load() -> None:
    """Register what every area lowers."""
    for area in AREAS:
        import_module(f"mucc.torch.importer.aten_{area}")
