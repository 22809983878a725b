"""Requests and answers of imports, exchanged between processes as JSON."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
from dataclasses import dataclass, field
from typing import Any, TypedDict

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.diagnostics.json_form import DiagnosticJson
from mucc.files.json_data import Json, from_json
from mucc.frontend.lexer import KEYWORDS
from mucc.target import DEFAULT_TARGET


@dataclass(frozen=True)
class Tracing:
    """How torch.compile is to be traced: for which card, in which mode, and with `trains` backward too."""

    card: str
    mode: str = "default"
    trains: bool = False


@dataclass(frozen=True)
class KernelProgram:
    """A kernel that torch.compile asks mucc for: its program, its target, sizes or ranges of open dims."""

    text: str
    target: str
    dims: dict[str, int | str]


@dataclass(frozen=True)
class Request:
    """One import of a problem file, which messages call `shown`.

    `whole` keeps everything that `mu` says in kernels, compiled or not. `scale_down` imports the file at
    small sizes. `structure` looks at values of inputs. `dynamic` has `auto`, or open axes such as `x:0=M`.
    `memory` is in bytes, beyond what torch itself takes. With `tracing`, the kernels that torch.compile asks
    for are the answer, in the place of a program.
    """

    path: str
    shown: str
    text: str
    name: str
    kernels: str
    driver: str
    target: str = DEFAULT_TARGET
    whole: bool = False
    compute: str | None = None
    round: str = "fused"
    verify: bool = False
    scale_down: bool = False
    structure: bool = False
    dynamic: tuple[str, ...] = ()
    memory: int = 8 << 30
    seed: int = 42
    tracing: Tracing | None = None

    @staticmethod
    def of(
        path: str,
        text: str,
        *,
        output: str | None = None,
        driver: str | None = None,
        name: str | None = None,
        **options: Any,
    ) -> Request:
        """Request the import of a file. Outputs that are not named get its name, in the working directory."""
        kernels = output or f"{os.path.splitext(os.path.basename(path))[0]}.mcu"
        return Request(
            path=os.path.abspath(path),
            shown=path,
            text=text,
            name=name or kernel_name(path),
            kernels=os.path.abspath(kernels),
            driver=os.path.abspath(driver or driver_name(kernels)),
            **options,
        )

    def to_json(self) -> Json:
        """Return the request as JSON data, which `from_json` takes."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: Any) -> Request:
        """Parse a request from JSON data. Raises ValueError."""
        return from_json(Request, data)


def driver_name(kernels: str) -> str:
    """Return the path of the driver of a program."""
    return f"{os.path.splitext(kernels)[0]}_driver.py"


def kernel_name(path: str) -> str:
    """Name the kernel of a problem file: `76_Gemm_Add_ReLU.py` gives `gemm_add_relu`."""
    stem = os.path.splitext(os.path.basename(path))[0]
    name = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", stem.lower())).strip("_")
    name = re.sub(r"^[0-9]+_", "", name)
    name = f"{name}_" if name in KEYWORDS else name
    return name if name and not name[0].isdigit() else f"model_{name}".rstrip("_")


BEARABLE = 0.05
"""Of the rms of a result: the largest error of PyTorch's own that still lets right be told from wrong."""


@dataclass(frozen=True)
class Check:
    """How far one result, buffer or input is from PyTorch's; `excess` is over what is tolerated.

    `noise` is PyTorch's own error over the rms of the result, where something differs.
    """

    name: str
    largest: float
    excess: float
    noise: float = 0.0


@dataclass(frozen=True)
class OperationRow:
    """One operation of a module: its kernel, or the reason why PyTorch runs it, and its work.

    Of an operation that PyTorch runs, `units` is what it computes at the least by unit of the card, with
    products of f32 as declared, in tf32 and in f32, None where that is not known; `moved` are the bytes that
    it moves to and from the module's arguments and results.
    """

    name: str
    operation: str
    kernel: str | None
    reason: str | None
    operations: int
    bytes: int
    units: dict[str, dict[str, int]] | None = None
    moved: int = 0


@dataclass(frozen=True)
class InputStructure:
    """What an argument's values have in common: the name of a `Pattern` of `mucc.analysis.structure`, and the
    number that all of them equal."""

    pattern: str
    constant: float | None


@dataclass
class Answer:
    """The answer to an import request.

    `seconds` holds the time of each step. `checked` says at which shapes `checks` were made. `inner` has, by
    kernel, the parameters and results that the module as a whole need not move through memory; `structure`,
    by argument, what its values have in common, and `kernels` what torch.compile asks for, where the request
    asks for it.
    """

    text: str = ""
    driver: str = ""
    rows: list[OperationRow] = field(default_factory=list[OperationRow])
    inner: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    structure: dict[str, InputStructure] = field(default_factory=dict[str, InputStructure])
    inputs: list[str] = field(default_factory=list[str])
    checks: list[Check] = field(default_factory=list[Check])
    checked: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    """Open extents that were fixed, and why."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    kernels: list[KernelProgram] = field(default_factory=list[KernelProgram])

    def to_json(self) -> Json:
        """Return the answer as JSON data, which `from_json` takes."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: Any) -> Answer:
        """Parse an answer from JSON data. Raises ValueError."""
        return from_json(Answer, data)

    @property
    def agrees(self) -> bool:
        """Whether everything that was compared is within what is tolerated."""
        return all(c.excess <= 1 for c in self.checks)


def parse_problem(path: str, text: str) -> ast.Module:
    """Parse a problem file. Raises MU7010."""
    try:
        return ast.parse(text, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        place = f" (line {line})" if line else ""
        reason = str(getattr(error, "msg", error)) or "it is nested too deeply"
        message = f"{path} is no Python file: {reason}{place}"
        raise DiagnosticError(Diagnostic("MU7010", message)) from None


class Result(TypedDict, total=False):
    """The result of work on a problem file, as JSON: its `answer`, or `errors`."""

    answer: Any
    errors: list[DiagnosticJson]


def error_to_json(error: DiagnosticError) -> list[DiagnosticJson]:
    """Convert the diagnostics of an error to JSON."""
    return [
        {"code": d.code, "message": d.message, "notes": list(d.notes), "helps": list(d.helps)}
        for d in error.diagnostics
    ]


def error_from_json(data: Any) -> DiagnosticError:
    """Parse the error that `error_to_json` wrote. Raises ValueError."""
    found = [
        Diagnostic(d["code"], d["message"], notes=tuple(d.get("notes", ())), helps=tuple(d.get("helps", ())))
        for d in from_json(list[DiagnosticJson], data)
    ]
    return DiagnosticError(tuple(found))
