"""Compile small sources to PTX by NVRTC, nvcc's device compiler as a library, in milliseconds.

NVRTC runs inside this process, so a crash ends the process, and there is no time limit; `nvrtc_worker` runs
it in another process for this reason. `nvcc -ptx` compiles the same PTX in about half a second, and is the
fallback where `why_unusable` gives a reason.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from mucc.build import messages
from mucc.build.toolchain.flags import COMMON, SPLIT, ambient_flags
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity

if TYPE_CHECKING:
    from types import ModuleType

MEMORY_GB = 0.2
"""The main memory in GB of NVRTC for a source of a few bodies."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """The PTX of a source, and the log of NVRTC."""

    ptx: str
    log: str


@dataclass(frozen=True, slots=True)
class _Missing:
    """NVRTC cannot be loaded, for the given reason."""

    reason: str


@cache
def _load() -> ModuleType | _Missing:
    """Import cuda-python's binding, and load its library."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    except ModuleNotFoundError:
        return _Missing("the Python package cuda-bindings is not installed")
    except Exception as error:  # a broken package counts as missing
        return _Missing(f"the Python package cuda-bindings cannot be imported: {error}")
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:
        return _Missing(f"the library libnvrtc cannot be loaded: {str(error).partition(chr(10))[0]}")
    return nvrtc


def version() -> tuple[int, int] | None:
    """Return the release of NVRTC, such as `(13, 0)`; None without NVRTC."""
    if isinstance(binding := _load(), _Missing):
        return None
    result, major, minor = binding.nvrtcVersion()
    return (major, minor) if result == 0 else None


def why_unusable(nvcc: str) -> str | None:
    """Return the reason why NVRTC cannot replace an nvcc of the given version (`13.0.88`); None if it can.

    The PTX is the same only for equal releases and without flags of nvcc in the environment.
    """
    if any(ambient_flags()):
        return "NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS is set, and only nvcc knows what they mean"
    if isinstance(binding := _load(), _Missing):
        return binding.reason
    if (release := version()) is None:
        return "NVRTC does not say its version"
    if nvcc.split(".")[:2] != [str(number) for number in release]:
        return f"NVRTC is of release {release[0]}.{release[1]}, but nvcc is version {nvcc}"
    return None


def fallback(reason: str) -> Diagnostic:
    """Build the note MU5207: bodies are compiled by nvcc, for a reason of `why_unusable`."""
    return Diagnostic(
        "MU5207",
        "new bodies are compiled by nvcc instead of NVRTC, which takes longer",
        severity=Severity.NOTE,
        notes=(reason,),
        helps=("pip install 'mucc[nvcc]' brings both in one release",),
    )


def compile_ptx(
    source: str,
    *,
    target: str,
    include: Sequence[str] = (),
    name: str = "bodies.cu",
    has_kernels: bool = False,
) -> Compiled:
    """Compile a source to the PTX that nvcc would emit for `target`, an architecture such as `sm_90a`.

    `include` are directories of headers, and `name` is the name of the source in messages. With `has_kernels`
    several threads optimise kernels of the source at the same time. CUDA's device functions need no header;
    functions for textures and the run-time library are missing. Thread-safe; the GIL is released during
    compilation.

    Raises DiagnosticError: MU5110 where NVRTC rejects the source; MU5104 where it lacks a part of its own, or
    does not know the target; MU5106 out of memory; MU5111 for other failures; MU5207 without NVRTC.
    """
    if isinstance(binding := _load(), _Missing):
        raise DiagnosticError(Diagnostic("MU5207", "there is no NVRTC", notes=(binding.reason,)))
    result, program = binding.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None)
    _check(result.name, "")
    try:
        split = (SPLIT,) if has_kernels else ()
        options = [option.encode() for option in (*_options(target, include), *split)]
        (result,) = binding.nvrtcCompileProgram(program, len(options), options)
        log = _text(binding.nvrtcGetProgramLogSize, binding.nvrtcGetProgramLog, program)
        _check(result.name, log)
        return Compiled(_text(binding.nvrtcGetPTXSize, binding.nvrtcGetPTX, program), log)
    finally:
        binding.nvrtcDestroyProgram(program)


def warm_up() -> None:
    """Load NVRTC ahead of the first `compile_ptx`.

    Most of the time goes to importing cuda-python, which holds the GIL. Raises nothing; if NVRTC is missing,
    `why_unusable` returns the reason.
    """
    _load()


def _options(target: str, include: Sequence[str]) -> list[str]:
    """Return the flags of NVRTC that correspond to those of nvcc."""
    shared = [flag for flag in COMMON if flag.startswith(("-std", "-D"))]
    # --minimal leaves out what is declared for textures and the run-time library: a third of the time of a
    # short source, and no difference in its PTX.
    return [
        f"--gpu-architecture={target.replace('sm_', 'compute_')}",
        "--minimal",
        *shared,
        *(f"--include-path={os.path.abspath(directory)}" for directory in include),
    ]


def _text(size: Callable[..., Any], read: Callable[..., Any], program: object) -> str:
    """Read a text of NVRTC by a pair of functions for its size and its contents."""
    _, length = size(program)
    buffer = bytearray(length)
    read(program, buffer)
    return buffer.rstrip(b"\0").decode(errors="replace")


def _check(result: str, log: str) -> None:
    """Raise DiagnosticError for a result other than success."""
    match result.removeprefix("NVRTC_").removeprefix("ERROR_"):
        case "SUCCESS":
            return
        case "COMPILATION":
            found = messages.failure(log, 1, tool="NVRTC")
        case "OUT_OF_MEMORY":
            found = messages.failure("out of memory", 1, tool="NVRTC", memory_gb=MEMORY_GB)
        case "INVALID_OPTION" | "BUILTIN_OPERATION_FAILURE" as word:
            found = Diagnostic(
                "MU5104",
                "NVRTC on this machine cannot compile a body",
                notes=(log.strip() or word.lower().replace("_", " "),),
                helps=("`mucc doctor` shows what was found and what is missing",),
            )
        case word:
            found = Diagnostic(
                "MU5111", f"NVRTC failed ({word.lower().replace('_', ' ')})", notes=(log,) if log else ()
            )
    raise DiagnosticError(found)
