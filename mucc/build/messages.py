"""Parse the output of nvcc, ptxas and the host compiler to diagnostics and resource usage."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from mucc.diagnostics.core import Diagnostic, Severity
from mucc.process.machine import available_memory

MAX_LINES = 6
"""The most compiler lines quoted in a diagnostic; --save-temps keeps the whole log."""

MAX_WIDTH = 240
"""The most characters of a quoted line; template names can have thousands."""

BUILD_MEMORY_GB = 4.0
"""The main memory in GB for compiling one CUTLASS kernel (measured: 3.7 with nvcc 13.0)."""


@dataclass(frozen=True, slots=True)
class KernelResources:
    """Resource usage of a device function by `ptxas -v`: registers per thread, other values in bytes."""

    entry: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SLOW = re.compile(r"\((C75\d\d)\)\s*(?:Potential Performance Loss:\s*)?(.*)")


def resources(log: str) -> list[KernelResources]:
    """Parse the resources of all entry functions in a `ptxas -v` log, in order."""
    kernels: list[KernelResources] = []
    entry, spill = "", (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, spill = match[1], (0, 0, 0)
        elif entry and (match := _SPILL.search(line)):
            spill = (int(match[1]), int(match[2]), int(match[3]))
        elif entry and (match := _USED.search(line)):
            kernels.append(KernelResources(entry, int(match[1]), *spill))
            entry = ""
    return kernels


def warnings(log: str) -> list[Diagnostic]:
    """Warn of register spills (MU5201), and of wgmma or setmaxnreg that ptxas undid (MU5202)."""
    out: list[Diagnostic] = []
    for kernel in resources(log):
        if kernel.spill_stores or kernel.spill_loads:
            out.append(
                Diagnostic(
                    "MU5201",
                    f"ptxas spills registers: {kernel.spill_stores} bytes stored and {kernel.spill_loads} "
                    f"bytes loaded per thread, at {kernel.registers} registers",
                    severity=Severity.WARNING,
                    helps=("choose a smaller tile in the schedule, or split the epilogue with `stage`",),
                )
            )
    slow = {match[1]: match[2].strip() for line in log.splitlines() if (match := _SLOW.search(line))}
    for code, text in slow.items():
        # The mangled name of the function is of no use to readers.
        text = re.sub(r"\s+in (?:the )?function '[^']*'.*", "", text)
        out.append(
            Diagnostic(
                "MU5202",
                f"ptxas undid an optimisation that Hopper kernels live from ({code}): {text[:MAX_WIDTH]}",
                severity=Severity.WARNING,
                helps=(
                    "the kernel is right but slow: choose another tile or mainloop, and please report it",
                ),
            )
        )
    return out


_KILLED = re.compile(
    r"died due to signal 9|Killed signal terminated|virtual memory exhausted|std::bad_alloc|"
    r"[Cc]annot allocate memory|out of memory"
)
_DISK = re.compile(r"No space left on device|Disk quota exceeded")
_INCOMPLETE = re.compile(
    r"cannot open source file|error: .*: No such file or directory|cannot find -l|ld: cannot find |"
    r"Failed to preprocess host compiler properties|unsupported GNU version|Unsupported gpu architecture|"
    r"unsupported clang version|: not found|cannot execute '|cannot find 'ld'|"
    r"Unsupported \.version|is not defined for option 'gpu-name'|unrecognized command(?:-| )line option|"
    r"error while loading shared libraries|Exec format error"
)
_CRASHED = re.compile(
    r"'?(?P<nvcc>[\w.+-]+)'? died due to signal (?P<number>\d+)|"
    r"(?P<text>[A-Z][\w ]+) signal terminated program (?P<gcc>[\w.+-]+)|"
    r"internal compiler error: (?P<internal>(?!.*signal terminated).+)"
)
_ERROR = re.compile(r"\b(?:error|fatal)\b", re.IGNORECASE)

_CRASHES = (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV)
"""Signals of crashes; shells report 128 plus their numbers."""


def failure(
    log: str,
    status: int,
    *,
    tool: str = "nvcc",
    given: str = "the C++ that mucc generated",
    memory_gb: float = BUILD_MEMORY_GB,
    verbose: bool = False,
    log_path: str | None = None,
) -> Diagnostic:
    """Build the diagnostic for a tool that ended with `status`: MU5104, MU5106, MU5107, MU5110 or MU5111.

    `tool` is the name of the tool, `given` describes its input, and `memory_gb` is its usual memory. A
    negative status is the negated number of the signal that ended the tool.
    """
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL) or _KILLED.search(log):
        return Diagnostic(
            "MU5106",
            f"{tool} ran out of memory and was killed",
            notes=(f"it usually takes about {memory_gb:.1f} GB for this{_available()}",),
            helps=("compile fewer kernels at a time, or on a machine (or container) with more memory",),
        )
    if line := _first(_DISK, log):
        return Diagnostic(
            "MU5107",
            f"the disk is full: {tool} could not write its temporary files",
            notes=(line,),
            helps=("free some space, or set TMPDIR to a directory with about 1 GB free",),
        )
    quoted = log.splitlines() if verbose else _quote(log, _ERROR)
    where = (
        f"the whole log: {log_path}" if log_path else "--save-temps keeps the generated .cu and the whole log"
    )
    if crash := _crash(log, status, tool):
        return Diagnostic(
            "MU5111",
            crash,
            notes=tuple(quoted),
            helps=(where, "this is a defect of that tool: try another version of it (`mucc doctor`)"),
        )
    notes = tuple(quoted) or (f"{tool} ended with status {status} and no message",)
    if _INCOMPLETE.search(log):
        return Diagnostic(
            "MU5104",
            "the compilers found on this machine cannot build the kernel",
            notes=tuple(_quote(log, _INCOMPLETE)) if not verbose else notes,
            helps=("`mucc doctor` shows what was found and what is missing",),
        )
    if not log.strip():  # a compiler that rejects its input says why
        return Diagnostic(
            "MU5104",
            "the compilers found on this machine cannot build the kernel",
            notes=notes,
            helps=(f"find out whether {tool} works at all: `{tool} --version`, `mucc doctor`",),
        )
    return Diagnostic(
        "MU5110",
        f"{tool} rejected {given}",
        notes=notes,
        helps=(where, "this is a defect of mucc: please report it with the .mcu file"),
    )


def _crash(log: str, status: int, tool: str) -> str | None:
    """Describe a crash, such as `ptxas crashed (SIGSEGV)`; None without one.

    A tool named in the log has precedence.
    """
    if match := _CRASHED.search(log):
        if match["gcc"]:
            return f"{match['gcc']} crashed ({match['text']})"
        if match["internal"]:
            return f"{tool} crashed ({_short(match['internal'])})"
        return f"{match['nvcc']} crashed ({_signal_name(int(match['number']))})"
    if status < 0:
        return f"{tool} crashed ({_signal_name(-status)})"
    if status - 128 in _CRASHES:
        return f"{tool} crashed ({_signal_name(status - 128)})"
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first(pattern: re.Pattern[str], log: str) -> str | None:
    return next((_short(line) for line in log.splitlines() if pattern.search(line)), None)


def _quote(log: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the first lines that match, shortened and without duplicates."""
    lines = dict.fromkeys(_short(line) for line in log.splitlines() if pattern.search(line))
    return list(lines)[:MAX_LINES]


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= MAX_WIDTH else f"{line[: MAX_WIDTH - 1]}…"


def _available() -> str:
    available = available_memory_gb()
    return "" if available is None else f"; {available:.1f} GB are available here now"


def available_memory_gb() -> float | None:
    """Return the main memory available to a new process in GB; None if unknown."""
    available = available_memory()
    return None if available is None else available / 1e9
