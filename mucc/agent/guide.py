"""The guide for agents that shell out."""

from __future__ import annotations

from importlib import resources


def text() -> str:
    """Return the page, in Markdown."""
    return resources.files("mucc.agent").joinpath("guide.md").read_text(encoding="utf-8")
