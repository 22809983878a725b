"""Runs nvcc: `.cu` text to a `.so`, PTX or a cubin."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.toolchain import messages
from mucc.toolchain.discover import SUPPORT_INCLUDE, Toolchain, library_directory
from mucc.toolchain.flags import Kind, flags


@dataclass(frozen=True, slots=True)
class Built:
    """The outcome of a build: the file's bytes, warnings, the compilers' log and the seconds it took."""

    data: bytes
    warnings: tuple[Diagnostic, ...]
    log: str
    seconds: float


def command(kind: Kind, target: str, toolchain: Toolchain, source: str, output: str) -> list[str]:
    """The whole nvcc command line."""
    paths = ["-ccbin", toolchain.host.path, f"-I{SUPPORT_INCLUDE}", f"-I{toolchain.cutlass.path}"]
    if kind == "so":
        if (libraries := library_directory(toolchain.nvcc)) is None:
            raise DiagnosticError(
                Diagnostic(
                    "MU5104",
                    "the CUDA toolchain lacks libcudart_static.a",
                    notes=(f"looked below {toolchain.root}",),
                    helps=("pip install 'mucc[nvcc]', or install the toolkit's cudart development files",),
                )
            )
        paths.append(f"-L{libraries}")
    return [toolchain.nvcc.path, *flags(kind, target), *paths, source, "-o", output]


def build(
    text: str,
    kind: Kind,
    toolchain: Toolchain,
    *,
    target: str = "sm_90a",
    name: str = "kernel",
    timeout: float | None = None,
    verbose: bool = False,
    save_temps: str | None = None,
) -> Built:
    """Compile the text of a `.cu` file.

    `name` is the stem of the temporary files; with `save_temps` (a directory) they stay there, with
    the log. Raises DiagnosticError: MU5104 for a toolchain that cannot build, MU5106 out of memory,
    MU5107 out of disk, MU5108 after `timeout` seconds, MU5110 where the code is rejected. On any
    exception, Ctrl-C included, nvcc and its children have ended and the temporary files are gone.
    """
    started = time.monotonic()
    with _directory(save_temps) as directory:
        source = os.path.join(directory, f"{name}.cu")
        output = os.path.join(directory, f"{name}.{kind}")
        arguments = command(kind, target, toolchain, os.path.basename(source), output)
        log_path = None
        if save_temps is not None:
            arguments += ["--keep", "--keep-dir", directory]
            log_path = os.path.join(directory, f"{name}.log")
        try:
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            status, log = _run(arguments, directory, timeout)
            if log_path is not None:
                with open(log_path, "w", encoding="utf-8") as file:
                    file.write(f"{' '.join(arguments)}\n{log}")
            if status != 0:
                raise DiagnosticError(messages.failure(log, status, verbose=verbose, log_path=log_path))
            with open(output, "rb") as file:
                data = file.read()
        except OSError as error:
            raise DiagnosticError(
                Diagnostic("MU5107", f"cannot use the directory for temporary files: {error}")
            ) from error
    return Built(data, tuple(messages.warnings(log)), log, time.monotonic() - started)


@contextlib.contextmanager
def _directory(keep: str | None):
    """The directory to work in: `keep`, made if need be, or a temporary one that goes away."""
    try:
        if keep is not None:
            os.makedirs(keep, exist_ok=True)
            directory = os.path.abspath(keep)
        else:
            directory = tempfile.mkdtemp(prefix="mucc-")
    except OSError as error:
        raise DiagnosticError(
            Diagnostic(
                "MU5107",
                f"cannot make a directory for temporary files: {error}",
                helps=("set TMPDIR to a directory that can be written",) if keep is None else (),
            )
        ) from error
    try:
        yield directory
    finally:
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)


def _run(arguments: list[str], directory: str, timeout: float | None) -> tuple[int, str]:
    """Run a command in its own process group; its status and all that it printed.

    The group is killed when anything interrupts the wait, so that no cicc is left behind.
    """
    environment = {**os.environ, "TMPDIR": directory, "LC_ALL": "C"}
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=directory,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise DiagnosticError(
            Diagnostic(
                "MU5108",
                f"nvcc did not end within {timeout:g} s and was stopped",
                helps=("give more time with --timeout, or choose a smaller kernel",),
            )
        ) from None
    except BaseException:
        _kill(process)
        raise
    return process.returncode, output.decode("utf-8", errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
