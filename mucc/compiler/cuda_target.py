"""`mucc-opt -t cuda`: print a module of programs as CUDA C++."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.target import Target

from mucc.codegen.memory import EmissionError
from mucc.compiler.emit import emit
from mucc.version import __version__


@dataclass(frozen=True)
class CudaTarget(Target):
    """The target of xDSL's tools that prints `.cu` text, with a manifest of the version alone."""

    name: ClassVar[str] = "cuda"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        try:
            output.write(emit(module, {"mucc": __version__, "source": "-"}))
        except EmissionError as error:
            raise DiagnosticException(str(error)) from error
