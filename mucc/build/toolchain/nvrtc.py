"""NVRTC: nvcc's device compiler as a library, which makes PTX of a small source in milliseconds.

It runs within this process, so a crash of it ends that, and it cannot be given a time limit: that is what
`nvrtc_worker` is for. `nvcc -ptx` makes the same PTX in about half a second, and is what to fall back to
where `why_unusable` names a reason.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from mucc.build import messages
from mucc.build.toolchain.flags import COMMON, ambient_flags
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Severity

if TYPE_CHECKING:
    from types import ModuleType

MEMORY_GB = 0.2
"""Main memory that NVRTC takes for a source of a few bodies."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """PTX, and what NVRTC said of the source."""

    ptx: str
    log: str


@dataclass(frozen=True, slots=True)
class _Missing:
    """Why there is no NVRTC."""

    reason: str


@cache
def _load() -> ModuleType | _Missing:
    """cuda-python's binding, with the library behind it loaded."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    except ModuleNotFoundError:
        return _Missing("the Python package cuda-bindings is not installed")
    except Exception as error:  # a package that is broken in any way is as good as none
        return _Missing(f"the Python package cuda-bindings cannot be imported: {error}")
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:
        return _Missing(f"the library libnvrtc cannot be loaded: {str(error).partition(chr(10))[0]}")
    return nvrtc


def version() -> tuple[int, int] | None:
    """The release of NVRTC, such as `(13, 0)`; None where there is none."""
    if isinstance(binding := _load(), _Missing):
        return None
    result, major, minor = binding.nvrtcVersion()
    return (major, minor) if result == 0 else None


def why_unusable(nvcc: str) -> str | None:
    """Why NVRTC cannot stand in for nvcc, whose version (`13.0.88`) is given; None where it can.

    The PTX is the same only if the releases are, and if nvcc takes no flags from the environment.
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
    """The note that bodies are compiled by nvcc, for a reason of `why_unusable`."""
    return Diagnostic(
        "MU5207",
        "new bodies are compiled by nvcc instead of NVRTC, which takes longer",
        severity=Severity.NOTE,
        notes=(reason,),
        helps=("pip install 'mucc[nvcc]' brings both in one release",),
    )


def compile_ptx(
    source: str, *, target: str, include: Sequence[str] = (), name: str = "bodies.cu"
) -> Compiled:
    """The PTX of a source for `target`, an architecture such as `sm_90a`, as nvcc would make it.

    `include` are directories of headers, and `name` is what messages call the source. CUDA's device functions
    need no header, but those for textures and the run-time library are not there. Threads may compile at the
    same time; the GIL is released meanwhile.

    Raises DiagnosticError: MU5110 where NVRTC rejects the source; MU5104 where it lacks a part of its own,
    or does not know the target; MU5106 out of memory; MU5111 for other failures; MU5207 without NVRTC.
    """
    if isinstance(binding := _load(), _Missing):
        raise DiagnosticError(Diagnostic("MU5207", "there is no NVRTC", notes=(binding.reason,)))
    result, program = binding.nvrtcCreateProgram(source.encode(), name.encode(), 0, None, None)
    _check(result.name, "")
    try:
        options = [option.encode() for option in _options(target, include)]
        (result,) = binding.nvrtcCompileProgram(program, len(options), options)
        log = _text(binding.nvrtcGetProgramLogSize, binding.nvrtcGetProgramLog, program)
        _check(result.name, log)
        return Compiled(_text(binding.nvrtcGetPTXSize, binding.nvrtcGetPTX, program), log)
    finally:
        binding.nvrtcDestroyProgram(program)


def warm_up() -> None:
    """Load NVRTC, so that the first `compile_ptx` need not.

    For a thread, while something else is waited for: most of it is importing cuda-python, which holds the
    GIL. Raises nothing; where NVRTC is missing, `why_unusable` says so.
    """
    _load()


def _options(target: str, include: Sequence[str]) -> list[str]:
    """The flags of nvcc that mean something to NVRTC."""
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
    """A text that NVRTC gives out by its size and then into a buffer."""
    _, length = size(program)
    buffer = bytearray(length)
    read(program, buffer)
    return buffer.rstrip(b"\0").decode(errors="replace")


def _check(result: str, log: str) -> None:
    """Raises DiagnosticError for a result that is none of success."""
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
