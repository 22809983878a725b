"""Read the answers of models: tool calls, JSON in fenced blocks, or programs in fenced blocks.

A model's JSON has no fixed form before it is checked here."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.propose.llm.endpoint import Answer, Tool
from mucc.api.json_types import Json

KINDS = (
    "tile",
    "stages",
    "scheduler",
    "cluster",
    "mainloop",
    "fusion",
    "precision",
    "split",
    "algebra",
    "other",
)
"""Kinds of hypotheses, as agent/core/hypotheses.py names them."""

LONGEST = 200
"""Characters of a title, or of what changed."""

RISKIEST = 10.0
FASTEST = 100.0
"""The largest risk, and the largest speedup, that a model may believe in."""

HYPOTHESES = Tool(
    "nominate",
    "Name hypotheses on how to make the program faster.",
    {
        "type": "object",
        "properties": {
            "hypotheses": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "title": {"type": "string", "description": "the change, in one line"},
                        "rationale": {"type": "string", "description": "why it should help, with numbers"},
                        "kind": {"type": "string", "enum": list(KINDS)},
                        "speedup": {"type": "number", "description": "expected: old time over new, e.g. 1.3"},
                        "implementation_risk": {"type": "number", "description": "1 (easy) to 10"},
                        "performance_risk": {"type": "number", "description": "1 (certain to help) to 10"},
                    },
                    "required": ["title", "rationale", "kind", "speedup"],
                },
            }
        },
        "required": ["hypotheses"],
    },
)

PROGRAMS = Tool(
    "implement",
    "Give whole .mcu programs to be compiled and timed.",
    {
        "type": "object",
        "properties": {
            "candidates": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "change": {"type": "string", "description": "what differs, in one line"},
                        "program": {"type": "string", "description": "the whole .mcu file"},
                    },
                    "required": ["change", "program"],
                },
            }
        },
        "required": ["candidates"],
    },
)

T = TypeVar("T")

_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_CHANGE = re.compile(r"^[ \t*#>\-]{0,20}change[ \t*]{0,9}:(.+)$", re.MULTILINE | re.IGNORECASE)
_KERNEL = re.compile(r"^[ \t]*(?:each[ \t]+)?kernel\b", re.MULTILINE)


class Malformed(ValueError):
    """An answer that cannot be read. The message tells the model what is wrong."""


def hypotheses(answer: Answer, parent: int, most: int) -> list[Hypothesis]:
    """Up to `most` hypotheses on an attempt. Raises Malformed."""
    found = _items(answer, HYPOTHESES.name, "hypotheses", ("title",))
    if found is None:
        raise Malformed(
            'there is neither a call of the tool "nominate" nor a ```json block with {"hypotheses": [...]}'
        )
    return _each(found, "hypotheses", lambda item: _hypothesis(item, parent))[:most]


def programs(answer: Answer, most: int) -> list[tuple[str, str]]:
    """Up to `most` pairs of what changed and a whole program. Raises Malformed."""
    found = _items(answer, PROGRAMS.name, "candidates", ("program",))
    if found is not None:
        return _each(found, "candidates", _candidate)[:most]
    pairs = list(_fenced_programs(answer.text))
    if not pairs:
        raise Malformed(
            'there is neither a call of the tool "implement" nor a ```mcu block with a whole program'
        )
    return pairs[:most]


def _items(answer: Answer, tool: str, field: str, needed: Sequence[str]) -> list[Any] | None:
    """Return the list in a tool call, or in JSON within a text; None where there is no such thing."""
    if answer.arguments:
        data = _load(answer.arguments, f'the arguments of the tool "{tool}"')
        items = _list_in(data, field, needed)
        if items is None:
            raise Malformed(f'the arguments of the tool "{tool}" have no list "{field}"')
        return items
    fault: Malformed | None = None
    for text in _json_texts(answer.text):
        try:
            items = _list_in(_load(text, "the JSON of the answer"), field, needed)
        except Malformed as error:
            fault = error
            continue
        if items is not None:
            return items
    if fault is not None and not _KERNEL.search(answer.text):
        raise fault
    return None


def _load(text: str, what: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except ValueError as error:
        raise Malformed(f"{what} are not JSON: {error}") from None
    except RecursionError:
        raise Malformed(f"{what} are nested too deeply") from None


def _list_in(data: Any, field: str, needed: Sequence[str]) -> list[Any] | None:
    """Return the list called `field`, or what can only be meant as such; None if there is none."""
    if isinstance(data, dict):
        found = cast("Json", data)
        inner = found.get(field)
        if isinstance(inner, str):  # some models put JSON into a string once more
            inner = _load(inner, f'"{field}"')
        if isinstance(inner, list):
            return cast("list[Any]", inner)
        if all(name in found for name in needed):
            return [found]
        return None
    if isinstance(data, list):
        items = cast("list[Any]", data)
        if items and all(isinstance(i, dict) and all(n in i for n in needed) for i in items):
            return items
    return None


def _json_texts(text: str) -> Iterator[str]:
    """Texts that may be JSON: fenced blocks, then the text itself, from its first brace."""
    for fence in _FENCE.finditer(text):
        if fence[2].lower() in ("", "json", "json5", "jsonc") and fence[3].lstrip()[:1] in ("{", "["):
            yield fence[3]
    stripped = text.strip()
    if stripped[:1] in ("{", "["):
        yield stripped
    elif "```" not in text and (start := text.find("{")) >= 0 and (end := text.rfind("}")) > start:
        yield text[start : end + 1]


def _each(items: list[Any], field: str, read: Callable[[Json], T]) -> list[T]:
    """Every item that can be read. Raises Malformed, with the first fault, where none can."""
    found: list[T] = []
    fault = ""
    for number, item in enumerate(items):
        try:
            if not isinstance(item, dict):
                raise Malformed("is no object")
            found.append(read(cast("Json", item)))
        except Malformed as error:
            fault = fault or f"{field}[{number}] {error}"
    if fault and not found:
        raise Malformed(fault)
    return found


def _hypothesis(item: Json, parent: int) -> Hypothesis:
    kind = str(item.get("kind") or "other").strip().lower()
    return Hypothesis(
        title=_line(item, "title"),
        rationale=str(item.get("rationale") or "").strip(),
        kind=kind if kind in KINDS else "other",
        speedup=_number(item, "speedup", 1.1, 0.01, FASTEST),
        implementation_risk=_number(item, "implementation_risk", 1.0, 1.0, RISKIEST),
        performance_risk=_number(item, "performance_risk", 1.0, 1.0, RISKIEST),
        parent=parent,
    )


def _candidate(item: Json) -> tuple[str, str]:
    program = item.get("program")
    if not isinstance(program, str) or not program.strip():
        raise Malformed('has no text "program"')
    change = str(item.get("change") or "").strip() or "not said"
    return _short(change), _unfenced(program)


def _unfenced(program: str) -> str:
    """Return a program without the fence that some models put around it even in JSON."""
    fence = _FENCE.search(program)
    text = fence[3] if fence is not None and _KERNEL.search(fence[3]) else program
    return text.strip("\n").rstrip() + "\n"


def _fenced_programs(text: str) -> Iterator[tuple[str, str]]:
    """Fenced blocks that hold kernels, each with the line `CHANGE: …` before it."""
    after = 0
    for fence in _FENCE.finditer(text):
        if _KERNEL.search(fence[3]):
            said = _CHANGE.findall(text, after, fence.start())
            yield _short(said[-1].strip(" \t*")) if said else "not said", _unfenced(fence[3])
        after = fence.end()


def _line(item: Json, name: str) -> str:
    text = item.get(name)
    if not isinstance(text, str) or not text.strip():
        raise Malformed(f'has no text "{name}"')
    return _short(text)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _number(item: Json, name: str, default: float, least: float, most: float) -> float:
    """Return a number within bounds; models write 1.3, "1.3x" or "1.2-1.5"."""
    value = item.get(name)
    if isinstance(value, str):
        found = re.search(r"\d+(?:\.\d+)?", value)
        value = float(found[0]) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return default
    return min(max(float(value), least), most)
