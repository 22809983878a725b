"""Libraries as solutions: called by the driver that `mucc import` writes for the problem.

A library has the kernels that an import of the problem has, by name and arguments: those of `mucc import`, or
of `mucc import --whole`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mucc.agent.audit.imports import imported
from mucc.agent.isolation.zygote import Zygote
from mucc.api import files
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import Answer, Request
from mucc.api.library import KernelInfo, MuccError, read_manifest
from mucc.api.machine import gpu


def driver_of(path: str, problem: str, folder: str, zygote: Zygote, device: str) -> str:
    """Return the Python file that runs a library, or a program, as `ModelNew` of a problem, in `folder`. The
    problem is imported in a child of the zygote.

    Raises DiagnosticError: MU5010, MU5011, MU603x for a file that is no library, MU7110 for a program that
    does not compile, MU7101 before it is compiled for nothing, MU7111 for kernels that are not the problem's,
    and those of importing the problem.
    """
    library = os.path.join(folder, "kernels.so")
    if path.endswith(".mcu"):
        files.read_source(path)
        _mucc(path, "check", path)
        _check_gpu(path, device)
        _mucc(path, path, "-o", library)
    else:
        files.read_bytes(path)
        shutil.copyfile(path, library)
    kernels = _kernels(library, path)
    there = [f"{k.name}({', '.join(a.name for a in k.inputs)})" for k in kernels]
    text = files.read_source(problem).text
    expected: list[str] = []
    for whole in (False, True):
        name, output = _name([k.name for k in kernels]), os.path.join(folder, "kernels.mcu")
        request = Request.of(problem, text, output=output, name=name, whole=whole)
        answer = imported(zygote, request)
        if wanted := _wanted(answer):
            expected.append(", ".join(wanted))
        if wanted and set(wanted) <= set(there):
            return _written(request, answer, library)
    raise DiagnosticError(
        Diagnostic(
            "MU7111",
            f"the kernels of '{path}' are not those of '{problem}': {', '.join(there)}",
            notes=tuple(f"an import of the problem has {names}" for names in dict.fromkeys(expected)),
            helps=("keep names and arguments of `mucc import`, or write a ModelNew that calls the kernels",),
        )
    )


def _written(request: Request, answer: Answer, library: str) -> str:
    """Write the driver's file beside the program and the library, newer than both, and return its path."""
    Path(request.kernels).write_text(answer.text, encoding="utf-8")
    Path(request.driver).write_text(answer.driver, encoding="utf-8")
    os.utime(library, (newest := os.stat(request.kernels).st_mtime + 1, newest))
    return request.driver


def _check_gpu(path: str, device: str) -> None:
    """Raise MU7101 where a program cannot run, as far as the driver says."""
    found = gpu()
    if device == "cpu" or not found.found:
        reason = "--device cpu" if device == "cpu" else found.detail
        raise DiagnosticError(Diagnostic("MU7101", f"{path} needs a GPU: {reason}"))


def _mucc(path: str, *words: str) -> None:
    """Have mucc do something with a program. Raises MU7110."""
    made = subprocess.run([sys.executable, "-m", "mucc", *words], capture_output=True, text=True, check=False)
    if made.returncode:
        said = made.stderr.strip().splitlines()
        raise DiagnosticError(
            Diagnostic("MU7110", f"'{path}' does not compile", notes=("\n".join(said[:12]),) if said else ())
        )


def _kernels(library: str, shown: str) -> Sequence[KernelInfo]:
    try:
        return read_manifest(Path(library)).kernels
    except MuccError as error:
        message = str(error).replace(library, shown)
        raise DiagnosticError(Diagnostic(error.code, message)) from None


def _name(kernels: Sequence[str]) -> str:
    """Return the name that an import has to be given for its kernels to be called so, one or several."""
    return kernels[0] if len(kernels) == 1 else re.sub(r"_\d+$", "", kernels[0])


def _wanted(answer: Answer) -> list[str]:
    """Return the kernels of an imported program, with the names of their arguments."""
    found = re.findall(r"^kernel (\w+)(?:\[.*?\])?\((.*?)\)\s*->", answer.text, re.MULTILINE | re.DOTALL)
    arguments = re.compile(r"(\w+):")
    return [f"{name}({', '.join(arguments.findall(between))})" for name, between in found]
