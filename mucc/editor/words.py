"""The words of the language, as `python -m mucc.editor.grammars` collects them from the compiler."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TypedDict, cast


class Words(TypedDict):
    """The words of the language, by what they are."""

    declaring: list[str]
    logical: list[str]
    constants: list[str]
    keywords: list[str]
    types: list[str]
    layouts: list[str]
    functions: list[str]
    settings: list[str]
    arguments: list[str]
    values: list[str]
    targets: list[str]


def load() -> Words:
    """Read the words without loading the compiler."""
    text = (files("mucc.editor") / "words.json").read_text(encoding="utf-8")
    return cast("Words", json.loads(text))
