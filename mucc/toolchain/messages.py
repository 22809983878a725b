"""What nvcc, ptxas and the host compiler said, as diagnostics and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mucc.diagnostics.core import Diagnostic, Severity

MAX_LINES = 6
"""Compiler lines quoted in a diagnostic; the whole log is kept with --save-temps."""

MAX_WIDTH = 240
"""Characters of a quoted line: template names can be thousands long."""

BUILD_MEMORY_GB = 4.0
"""Main memory that one CUTLASS kernel takes to compile (measured 3.7 GB with nvcc 13.0)."""


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What ptxas -v says of one device function. Bytes, and registers per thread."""

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
    """The resources of every entry function in a ptxas -v log, in order."""
    found: list[KernelResources] = []
    entry, spill = "", (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, spill = match[1], (0, 0, 0)
        elif entry and (match := _SPILL.search(line)):
            spill = (int(match[1]), int(match[2]), int(match[3]))
        elif entry and (match := _USED.search(line)):
            found.append(KernelResources(entry, int(match[1]), *spill))
            entry = ""
    return found


def warnings(log: str) -> list[Diagnostic]:
    """What costs speed in a successful build: spills (MU5201), and wgmma or setmaxnreg undone (MU5202)."""
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
        # The function's mangled name tells nobody anything.
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
    r"cannot open source file|error: .*: No such file or directory|cannot find -lcuda|"
    r"Failed to preprocess host compiler properties|unsupported GNU version|Unsupported gpu architecture|"
    r"unsupported clang version|: not found|cannot execute 'cc1plus'"
)
_ERROR = re.compile(r"\b(?:error|fatal)\b", re.IGNORECASE)


def failure(log: str, status: int, *, verbose: bool = False, log_path: str | None = None) -> Diagnostic:
    """The diagnostic for a build that ended with `status`: MU5104, MU5106, MU5107 or MU5110."""
    if status == -9 or _KILLED.search(log):
        return Diagnostic(
            "MU5106",
            "the compiler ran out of memory and was killed",
            notes=(f"a kernel takes about {BUILD_MEMORY_GB:.0f} GB to compile{_available()}",),
            helps=("compile fewer kernels at a time, or on a machine (or container) with more memory",),
        )
    if line := _first(_DISK, log):
        return Diagnostic(
            "MU5107",
            "the disk is full: the compiler could not write its temporary files",
            notes=(line,),
            helps=("free some space, or set TMPDIR to a directory with about 1 GB free",),
        )
    quoted = log.splitlines() if verbose else _quote(log, _ERROR)
    notes = tuple(quoted) or (f"it ended with status {status} and no message",)
    if _INCOMPLETE.search(log):
        return Diagnostic(
            "MU5104",
            "the compilers found on this machine cannot build the kernel",
            notes=tuple(_quote(log, _INCOMPLETE)) if not verbose else notes,
            helps=("`mucc doctor` shows what was found and what is missing",),
        )
    where = (
        f"the whole log: {log_path}" if log_path else "--save-temps keeps the generated .cu and the whole log"
    )
    return Diagnostic(
        "MU5110",
        "nvcc rejected the C++ that mucc generated",
        notes=notes,
        helps=(where, "this is a defect of mucc: please report it with the .mcu file"),
    )


def _first(pattern: re.Pattern[str], log: str) -> str | None:
    return next((_short(line) for line in log.splitlines() if pattern.search(line)), None)


def _quote(log: str, pattern: re.Pattern[str]) -> list[str]:
    """The first lines that match, shortened, each once; notes of a template trace are left out."""
    lines = dict.fromkeys(_short(line) for line in log.splitlines() if pattern.search(line))
    return list(lines)[:MAX_LINES]


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= MAX_WIDTH else f"{line[: MAX_WIDTH - 1]}…"


def _available() -> str:
    available = available_memory_gb()
    return "" if available is None else f"; {available:.1f} GB are available here now"


def available_memory_gb() -> float | None:
    """Main memory that a new process could have, in GB; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            text = file.read()
    except OSError:
        return None
    found = re.search(r"MemAvailable:\s*(\d+) kB", text)
    return int(found[1]) / 1e6 if found else None
