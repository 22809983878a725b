"""A compiler driver that compiles nothing, for tests of the command line around it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import IO

from mucc.diagnostics import Diagnostic, DiagnosticSink, Severity, Source, Span

PROGRAM = "kernel k\n"


@dataclass
class Options:
    target: str = "sm_90a"
    print_ir_after_all: IO[str] | None = None
    print_ir_after: tuple[str, ...] = ()
    verify: bool = True
    keep_levels: bool = True
    dims: dict[str, int] = field(default_factory=dict[str, int])
    tuned: bool = True
    sizes: tuple[object, ...] = ()
    frontend_warnings: bool = True


@dataclass
class Compilation:
    source: Source
    options: Options
    sink: DiagnosticSink = field(default_factory=DiagnosticSink)

    def emit(self, kind: str) -> str:
        return f"{kind} of {self.source.text.split()[1]} for {self.options.target}"

    def parts(self) -> Parts:
        return Parts(self.source.text.split()[1])

    @property
    def cache_text(self) -> str:
        return self.source.text.split()[1]


class Parts:
    """Of one image."""

    def __init__(self, name: str):
        self.text = f"parts of {name}"
        self.images = (name,)


class Compiler(ModuleType):
    """A stand-in for mucc.compiler.driver: `error`, `warn` and `crash` are words of a program."""

    Options = Options
    runs = 0

    def front_text(self, source: Source, kind: str, sizes: Sequence[object] = ()) -> str:
        return self.compile_text(source, Options()).emit(kind)

    def compile_text(self, source: Source, options: Options) -> Compilation:
        type(self).runs += 1
        compilation = Compilation(source, options)
        if options.print_ir_after_all:
            which = ", ".join(options.print_ir_after) or "every pass"
            options.print_ir_after_all.write(f"IR after {which}\n")
        if "crash" in source.text:
            raise KeyError("no such thing")
        if "interrupt" in source.text:
            raise KeyboardInterrupt
        if "warn" in source.text:
            warning = Diagnostic("MU2001", "beware", Span(0, 6), Severity.WARNING)
            compilation.sink.emit(warning)
        for start in (i for i in range(len(source.text)) if source.text.startswith("error", i)):
            compilation.sink.emit(Diagnostic("MU0001", "unexpected word", Span(start, start + 5)))
        compilation.sink.raise_if_errors()
        return compilation


def write(name: str, text: str = PROGRAM) -> str:
    Path(name).write_text(text)
    return name


def left() -> set[str]:
    return set(os.listdir())
