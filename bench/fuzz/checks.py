"""What must hold of the command for any source: no crash, no hang, honest diagnostics, whole files.

`examine` gives what came of one source. Every check raises `Failure` with what is wrong.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from mucc.compiler.compilation import Compilation
from mucc.compiler.program import check_language, compile_source
from mucc.compiler.source import decode
from mucc.diagnostics.codes import CODES
from mucc.diagnostics.core import Applicability, Diagnostic, DiagnosticError, Severity, Source, Span
from mucc.diagnostics.json_form import DiagnosticJson
from mucc.diagnostics.render import from_json, render_json, render_text
from mucc.frontend import parse
from mucc.frontend.formatter import format_source

LEVELS = ("ast", "mu", "stages", "cutlass", "schedule", "cu", "header", "manifest")
PATIENCE = 30.0
"""Seconds of processor time after which a source counts as hanging."""

DEFECT = "MU9"


class Failure(Exception):
    """Something that must not happen: a word for its kind, and the details."""

    def __init__(self, kind: str, detail: str):
        self.kind = kind
        super().__init__(detail)


@dataclass(frozen=True)
class Outcome:
    """What came of a source: good, refused (with the first error's code), or the kind of a failure."""

    kind: str
    code: str = ""
    detail: str = ""

    @property
    def is_finding(self) -> bool:
        return self.kind not in ("good", "refused")


@contextlib.contextmanager
def limited(seconds: float) -> Generator[None]:
    """Raise Failure in what takes more processor time."""

    def late(_signal: int, _frame: object) -> None:
        raise Failure("hang", f"more than {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def examine(
    data: bytes, target: str, dims: Mapping[str, int], emits: Sequence[str], command: bool
) -> Outcome:
    """Take a source through check, layout, fixes, levels of `emits`, and with `command` the command line."""
    try:
        with limited(PATIENCE):
            return _examined(data, target, dims, emits, command)
    except Failure as failure:
        return Outcome(failure.kind, "", str(failure)[:2000])
    except Exception as error:
        import traceback

        place = "".join(traceback.format_exception(error)[-3:])
        return Outcome("crash", type(error).__name__, place[-2000:])


def _examined(
    data: bytes, target: str, dims: Mapping[str, int], emits: Sequence[str], command: bool
) -> Outcome:
    try:
        source = decode(data, "f.mcu")
    except DiagnosticError as error:
        honest(error.diagnostics, None)
        return Outcome("refused", error.diagnostics[0].code)
    try:
        check_language(source)
        language = ()
    except DiagnosticError as error:
        language = error.diagnostics
        honest(language, source)
    laid_out(source)
    found = verdict(source, target, dims)
    honest(found, source)
    errors = [d for d in found if d.severity is Severity.ERROR]
    if any(d.severity is Severity.ERROR for d in language) and not errors:
        raise Failure("check", "the language refuses what check takes")
    mended(source, target, dims, found)
    if emits:
        emitted(source, target, dims, emits, bool(errors))
    if command:
        written(data, target, bool(errors))
    return Outcome("refused", errors[0].code) if errors else Outcome("good")


def verdict(source: Source, target: str, dims: Mapping[str, int]) -> Sequence[Diagnostic]:
    """What `mucc check` says."""
    try:
        return compile_source(source, target, only_check=True, dims=dims, tuned=False).sink.diagnostics
    except DiagnosticError as error:
        return error.diagnostics


def honest(diagnostics: Sequence[Diagnostic], source: Source | None) -> None:
    """Codes that exist, spans within the text, texts that can be shown, JSON that can be read back."""
    for d in diagnostics:
        if d.code.startswith(DEFECT):
            raise Failure("defect", f"{d.code}: {d.message}")
        if d.code not in CODES:
            raise Failure("code", f"{d.code} is not registered")
        size = len(source.text) if source else 0
        for span in (d.span, *(s for s, _ in d.labels), *(f.span for f in d.fixes)):
            if span is not None and not 0 <= span.start <= span.end <= size:
                raise Failure("span", f"{d.code}: {span} in a text of {size} characters")
        if not render_text(d, source).startswith(f"{d.severity}[{d.code}]"):
            raise Failure("text", f"{d.code} cannot be shown")
        if source is not None:
            named(d, source)
        if len(d.message) > 2000:
            raise Failure("text", f"{d.code}: a message of {len(d.message)} characters")
    rows: list[DiagnosticJson] = json.loads(render_json((d, source) for d in diagnostics))
    for d, row in zip(diagnostics, rows, strict=True):
        back = from_json(row)
        if (back.code, back.message, back.span, back.fixes) != (d.code, d.message, d.span, d.fixes):
            raise Failure("json", f"{d.code} is not what its JSON says")


_MAINLOOP = re.compile(r"\bthe (\w+) mainloop\b")


def named(diagnostic: Diagnostic, source: Source) -> None:
    """A mainloop that the program does not name is said to be somebody's choice."""
    for word in _MAINLOOP.findall(diagnostic.message):
        chosen = f"`mainloop = {word}` is"
        if word not in source.text and not any(note.startswith(chosen) for note in diagnostic.notes):
            raise Failure("unwritten", f"{diagnostic.code}: {diagnostic.message}")


def laid_out(source: Source) -> None:
    """The layout of what parses says the same, and is its own layout."""
    program, sink = parse(source)
    if sink.has_errors:
        return
    text = format_source(source)
    if not text.strip():
        return
    again = Source("f.mcu", text)
    if parse(again)[0] != program:
        raise Failure("fmt", "the layout says something else")
    if format_source(again) != text:
        raise Failure("fmt", "the layout of the layout is another")


MOST_MENDED = 3
"""Diagnostics whose fixes are applied, of one source."""


def mended(source: Source, target: str, dims: Mapping[str, int], found: Sequence[Diagnostic]) -> None:
    """Applying a fix does not lead to the same diagnostic, in schedules not to the same code."""
    errors = [d for d in found if d.severity is Severity.ERROR]
    for d in [d for d in found if d.fixes][:MOST_MENDED]:
        for fix in d.fixes:
            text = source.text[: fix.span.start] + fix.replacement + source.text[fix.span.end :]
            if not text.strip():
                continue
            after = verdict(Source("f.mcu", text), target, dims)
            honest(after, Source("f.mcu", text))
            edited = Span(fix.span.start, fix.span.start + len(fix.replacement))
            again = [a for a in after if a.code == d.code and a.span and _meet(a.span, edited)]
            if any(a.message == d.message for a in again):
                raise Failure("fix", f"{d.code}: {d.message}: '{fix.replacement}' leads to it again")
            is_sure = fix.applicability is Applicability.MACHINE_APPLICABLE
            if (
                is_sure
                and len(errors) == 1
                and d.code.startswith("MU3")
                and any(a.code == d.code for a in again)
            ):
                raise Failure("fix", f"{d.code}: '{fix.replacement}' is not legal either")


def _meet(a: Span, b: Span) -> bool:
    return a.start <= b.end and b.start <= a.end


def emitted(
    source: Source, target: str, dims: Mapping[str, int], emits: Sequence[str], is_refused: bool
) -> Compilation | None:
    """A build refuses what check refuses and nothing else; every level of what it takes can be printed."""
    try:
        compilation = compile_source(source, target, dims=dims, tuned=False)
    except DiagnosticError as error:
        honest(error.diagnostics, source)
        if not is_refused:
            raise Failure("check", f"a build refuses what check takes: {error}") from error
        return None
    if is_refused:
        raise Failure("check", "check refuses what a build takes")
    for level in emits:
        if not compilation.emit(level).strip() and level != "schedule":
            raise Failure("emit", f"{level} is empty")
    return compilation


def written(data: bytes, target: str, is_refused: bool) -> None:
    """By the command line: the exit status says what check says, and a file is whole or is not there."""
    from mucc.cli.main import main

    with tempfile.TemporaryDirectory(prefix="mucc-fuzz-") as folder:
        path, output = os.path.join(folder, "f.mcu"), os.path.join(folder, "f.cu")
        with open(path, "wb") as file:
            file.write(data)
        said = io.StringIO()
        words = [path, "-o", output, "--target", target, "--no-tuned", "--diagnostics=json"]
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            status = main(words)
        json.loads(said.getvalue() or "[]")
        exists = os.path.exists(output)
        if status not in (0, 1, 2) or (status == 0) != exists or (status == 0 and is_refused):
            raise Failure("command", f"exit status {status}, output {'there' if exists else 'absent'}")
        if set(os.listdir(folder)) - {"f.mcu", "f.cu"}:
            raise Failure("command", f"left behind: {os.listdir(folder)}")
