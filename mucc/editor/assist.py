"""Completions and hover texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mucc.diagnostics.core import Span
from mucc.dialects.mu.schedule_attributes import Raster, SchedulerKind
from mucc.dialects.mu.setting_kinds import SchedulerSetting, Setting
from mucc.dialects.mu.settings import SETTINGS
from mucc.dialects.mu.types import DTYPES
from mucc.editor.analysis import Analysis
from mucc.editor.expressions import Expression, all_device_kernels, device_kernel, expression_at
from mucc.editor.symbols import Kind, Symbol, symbol_at
from mucc.frontend.functions import FUNCTIONS
from mucc.frontend.lexer import KEYWORDS
from mucc.frontend.parser import LAYOUTS
from mucc.target import TARGETS

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"\bschedule\s+[\w.]*\s+for\s+\w*$")
_NAMED = re.compile(r"\bschedule\s+[\w.]*$")
_SETTING = re.compile(r"^\s*(\w+)\s*=\s*([^\n]*)$")
_OPEN_CALL = re.compile(r"(\w+)\(([^)]*)$")
_TYPE = re.compile(r"(?::|->)\s*\w*$")


@dataclass(frozen=True)
class Completion:
    """A word that could come next; `kind` is that of a symbol, or function, keyword, type, setting, word."""

    text: str
    kind: str
    detail: str = ""
    doc: str = ""


@dataclass(frozen=True)
class Hover:
    """What is shown of the text at a place, in Markdown."""

    text: str
    span: Span


def completions(analysis: Analysis, offset: int) -> list[Completion]:
    """Return what could stand at an offset, whatever of it is written already. The text may be unfinished."""
    before = analysis.source.text[:offset]
    line = before.rpartition("\n")[2]
    if "//" in line:
        return []
    block = _open_block(before)
    if block == "schedule":
        if found := _SETTING.search(line):
            return [*_values_of(SETTINGS.get(found[1]), found[2])]
        return [Completion(s.name, "setting", doc=s.meaning) for s in SETTINGS.values()]
    if _HEADER.search(before):
        return [Completion(target, "word") for target in TARGETS]
    if _NAMED.search(before):
        kernels = [s for s in analysis.symbols if s.kind is Kind.KERNEL]
        stages = [s for s in analysis.symbols if s.kind is Kind.STAGE]
        return [Completion(s.name, s.kind.value) for s in kernels] + [
            Completion(f"{s.owner}.{s.name}", s.kind.value) for s in stages
        ]
    if _TYPE.search(line):
        return [*(Completion(name, "type") for name in DTYPES), *(Completion(n, "word") for n in LAYOUTS)]
    if not block:
        return [Completion(word, "keyword") for word in ("kernel", "fn", "schedule", "where", "for")]
    return [*_in_body(analysis, before, offset)]


def _in_body(analysis: Analysis, before: str, offset: int) -> Iterator[Completion]:
    """Yield names that can be used at an offset, then functions and keywords."""
    owner = _owner(before)
    for symbol in analysis.symbols:
        if symbol.owner == owner and symbol.kind is not Kind.RESULT and symbol.visible <= offset:
            value = analysis.last_known(symbol)
            yield Completion(symbol.name, symbol.kind.value, value.type if value else "")
        elif symbol.kind is Kind.FUNCTION and symbol.name != owner:
            yield Completion(symbol.name, "function")
    for name, overloads in FUNCTIONS.items():
        first = next(iter(overloads))
        yield Completion(name, "function", first.signature, first.doc)
    for word in sorted(KEYWORDS - {"kernel", "fn", "schedule", "for"}):
        yield Completion(word, "keyword")


def _values_of(setting: Setting[Any] | None, written: str) -> Iterator[Completion]:
    """Yield the values that a setting can have, or the arguments of one whose bracket is open."""
    if setting is None:
        return
    if isinstance(setting, SchedulerSetting) and (call := _OPEN_CALL.search(written)):
        if call[2].rpartition(",")[2].strip().startswith("raster"):
            yield from (Completion(word, "word") for word in Raster)
        else:
            names = setting.parameters.get(call[1], ())
            yield from (Completion(f"{name}=", "setting") for name in names if f"{name}=" not in call[2])
        return
    words = tuple(SchedulerKind) if isinstance(setting, SchedulerSetting) else setting.words
    for word in (*words, *((setting.example,) if setting.example else ())):
        yield Completion(word, "word", setting.form, setting.meaning)


def _open_block(before: str) -> str:
    """Return the word that begins the item whose braces are open at the end of a text; empty for none."""
    bare = re.sub(r"//[^\n]*", "", before)
    depth = bare.count("{") - bare.count("}")
    found = [m[0] for m in re.finditer(r"\b(?:kernel|fn|schedule)\b", bare)]
    return found[-1] if depth > 0 and found else ""


def _owner(before: str) -> str:
    """Return the name of the kernel or function that a text ends in."""
    found = re.findall(r"\b(?:kernel(?:\s+each)?|fn)\s+(\w+)", before)
    return found[-1] if found else ""


def hover(analysis: Analysis, offset: int) -> Hover | None:
    """Return what is known of the name, word or operation at an offset; None in comments and elsewhere."""
    line, column = analysis.source.line_col(offset)
    if "//" in analysis.source.line_text(line)[: column - 1]:
        return None
    if (symbol := symbol_at(analysis.symbols, offset)) is not None:
        span = next(s for s in symbol.spans() if s.start <= offset <= s.end)
        return Hover(_of_symbol(analysis, symbol), span)
    word = next((m for m in _WORD.finditer(analysis.source.text) if m.start() <= offset <= m.end()), None)
    if (expression := expression_at(analysis, offset)) is not None:
        if word and word[0] in FUNCTIONS and word[0] != expression.called:
            return Hover(_of_word(word[0]), Span(*word.span()))
        return Hover(_of_expression(analysis, expression), expression.span)
    if word and (said := _of_word(word[0])):
        return Hover(said, Span(*word.span()))
    return None


def _of_symbol(analysis: Analysis, symbol: Symbol) -> str:
    """Say the type and the size of a name; of kernels and stages the device kernels, too."""
    if symbol.kind is Kind.KERNEL:
        launched = map(_text, all_device_kernels(analysis, symbol.name))
        return "\n\n".join((f"kernel `{symbol.name}`", *launched))
    value = analysis.value_of(symbol)
    if value is None:
        return f"{symbol.kind.value} `{symbol.name}`"
    parts = [_code(f"{symbol.name}: {value.type}"), symbol.kind.value]
    if value.bytes:
        parts.append(value.bytes)
    if symbol.kind in (Kind.STAGE, Kind.VALUE) and (start := _defined(analysis, symbol)) is not None:
        parts += filter(None, [_text(device_kernel(analysis, symbol.owner, start))])
    return "\n\n".join(parts)


def _defined(analysis: Analysis, symbol: Symbol) -> int | None:
    """Return where the expression begins that a name stands for."""
    for kernel in analysis.program.kernels:
        for statement in kernel.body:
            if statement.name.span == symbol.declared:
                return statement.value.span.start
    return None


def _of_expression(analysis: Analysis, expression: Expression) -> str:
    """Say the type and the size of an expression, which kernel computes it, and what its function means."""
    parts = [_code(expression.text(analysis.source))]
    if expression.value is not None:
        parts = [_code(f"{expression.text(analysis.source)}: {expression.value.type}")]
        if expression.value.bytes:
            parts.append(f"{expression.value.bytes} if it is stored")
    parts += filter(None, [_text(device_kernel(analysis, expression.kernel, expression.span.start))])
    if expression.called in FUNCTIONS:
        parts.append(_of_word(expression.called))
    return "\n\n".join(parts)


def _of_word(word: str) -> str:
    """Say what a function, a setting or a target is; empty for other words."""
    if word in FUNCTIONS:
        return "\n\n".join(f"{_code(f.signature)}\n{f.doc}" for f in FUNCTIONS[word])
    if word in SETTINGS:
        return f"setting `{word}`: {SETTINGS[word].meaning}"
    if word in TARGETS:
        from mucc.target import get_target

        return f"target `{word}`: {', '.join(d.name for d in get_target(word).facts.devices)}"
    return ""


def _code(text: str) -> str:
    return f"```mcu\n{text}\n```"


def _text(text: str) -> str:
    return f"```text\n{text}\n```" if text else ""
