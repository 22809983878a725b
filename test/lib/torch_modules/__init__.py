"""Odd PyTorch modules, by theme, for the importer and the backend: `ODD` has all of them by name."""

from __future__ import annotations

from importlib import import_module

from torch_modules.registry import ODD, Odd

THEMES = (
    "views",
    "in_place",
    "dtypes",
    "values",
    "shapes",
    "indexed",
    "products",
    "layers",
    "losses",
    "programs",
    "generated",
)

for _theme in THEMES:
    import_module(f"torch_modules.{_theme}")

__all__ = ["ODD", "Odd"]
