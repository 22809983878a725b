"""Jobs: steps of a build that run a program, as values, and the function that runs a job.

A job names its tools by placeholders and includes its input files, so any machine with the tools can run it.
`mucc.build.pool` schedules jobs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict, cast

from mucc.build import messages
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.process import reaper
from mucc.process.tree import End, Family

AWAKE = 0.2
"""The most seconds that the main thread waits at a time.

A signal that arrives just before a wait is handled after the wait, so waits must be short.
"""

GRACE = 3.0
"""The seconds to wait for the processes of cancelled jobs to end; they usually take a tenth of a second."""


class Kind(StrEnum):
    """The kind of a job, which determines the memory reserved for it."""

    NVCC = "nvcc"
    """A whole build by nvcc, host and device."""
    DEVICE = "device"
    """The device half of CUTLASS code, by nvcc."""
    HOST = "host"
    """The host half of CUTLASS code, by the host compiler."""
    HEADER = "header"
    """A precompiled header."""
    OBJECT = "object"
    """A small host object that includes no CUTLASS."""
    PTXAS = "ptxas"
    LINK = "link"


PEAK_BYTES: Mapping[Kind, int] = {
    Kind.NVCC: 3_700_000_000,
    Kind.DEVICE: 3_700_000_000,
    Kind.HOST: 500_000_000,
    Kind.HEADER: 600_000_000,
    Kind.OBJECT: 150_000_000,
    Kind.PTXAS: 300_000_000,
    Kind.LINK: 100_000_000,
}
"""Peak main memory in bytes, measured with CUDA 13.0 and g++ 12 for one Hopper GEMM with a visitor tree."""

GIVEN: Mapping[Kind, str] = {
    Kind.PTXAS: "the PTX that mucc made",
    Kind.LINK: "the objects that mucc made",
}
"""The description of a tool's input in messages, for kinds whose input is not C++."""


class Cancelled(Exception):
    """The pool was closed or the job cancelled before it had a result."""


class _JobJson(TypedDict):
    program: str
    stage: str
    kind: str
    command: list[str]
    inputs: dict[str, str]
    outputs: list[str]
    timeout: float | None


class _ResultJson(TypedDict):
    files: dict[str, str]
    log: str
    status: int
    seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """A command with its input files and the names of its output files.

    `program` and `stage` name the program and the step in messages (`gelu.mcu` and `device code of stage
    out`). `command` may have placeholders in lower case, such as `{nvcc}` and `{ptxas}`, for paths on the
    machine that runs it. It runs in a new folder with the files `inputs`; `outputs` are read from there. Both
    have relative paths. `timeout` is in seconds. Raises ValueError for an empty command, or a file outside
    the folder.
    """

    program: str
    stage: str
    kind: Kind
    command: tuple[str, ...]
    inputs: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    outputs: tuple[str, ...] = ()
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("a job needs a command")
        for name in (*self.inputs, *self.outputs):
            if not name or os.path.isabs(name) or ".." in name.split("/"):
                raise ValueError(f"a job's files lie in its folder: {name!r} does not")

    @property
    def place(self) -> str:
        """The program and the step for messages, such as `gelu.mcu: link`."""
        return f"{self.program}: {self.stage}" if self.program else self.stage

    def to_json(self) -> str:
        """All of it as a JSON object; contents of files are base64."""
        import json

        return json.dumps(
            _JobJson(
                program=self.program,
                stage=self.stage,
                kind=self.kind.value,
                command=list(self.command),
                inputs=_encoded(self.inputs),
                outputs=list(self.outputs),
                timeout=self.timeout,
            )
        )

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Parse a job from the text of `to_json`."""
        import json

        data = cast(_JobJson, json.loads(text))
        return cls(
            data["program"],
            data["stage"],
            Kind(data["kind"]),
            tuple(data["command"]),
            _decoded(data["inputs"]),
            tuple(data["outputs"]),
            data["timeout"],
        )


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a job: existing outputs, everything it printed, and its exit status.

    A negative status is the negated number of the signal that ended it. `seconds` is wall time including file
    transfer. `peak_bytes` is the peak resident memory of its largest process; 0 if unknown, as for a short
    job whose peak is below that of mucc itself.
    """

    files: Mapping[str, bytes]
    log: str
    status: int
    seconds: float
    peak_bytes: int

    def to_json(self) -> str:
        """All of it as a JSON object; contents of files are base64."""
        import json

        return json.dumps(
            _ResultJson(
                files=_encoded(self.files),
                log=self.log,
                status=self.status,
                seconds=self.seconds,
                peak_bytes=self.peak_bytes,
            )
        )

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Parse a result from the text of `to_json`."""
        import json

        data = cast(_ResultJson, json.loads(text))
        files = _decoded(data["files"])
        return cls(files, data["log"], data["status"], data["seconds"], data["peak_bytes"])


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    import base64

    return {name: base64.b64encode(data).decode("ascii") for name, data in files.items()}


def _decoded(files: Mapping[str, str]) -> dict[str, bytes]:
    import base64

    return {name: base64.b64decode(text, validate=True) for name, text in files.items()}


_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def resolve(job: Job, tools: Mapping[str, str]) -> list[str]:
    """Replace placeholders in the command by paths. Raises MU5104 for a tool that is not in `tools`."""

    def path(match: re.Match[str]) -> str:
        if found := tools.get(match[1]):
            return found
        raise _error(
            job,
            "MU5104",
            f"this build needs {match[1]}, which was not found",
            helps=("`mucc doctor` shows what was found and what is missing",),
        )

    return [_PLACEHOLDER.sub(path, word) for word in job.command]


def run(
    job: Job,
    tools: Mapping[str, str],
    *,
    keep: str | None = None,
    cancelled: threading.Event | None = None,
) -> Result:
    """Run a job and wait for it.

    With `keep`, a directory that is created if missing, the job runs there and its files stay; otherwise in a
    temporary folder. A failing command gives a Result too (see `check`). Raises DiagnosticError: MU5104 if
    the command cannot be run or makes no output, MU5106 if the system has no memory for a process, MU5107 if
    files cannot be written, MU5108 after `job.timeout` seconds. Raises Cancelled soon after `cancelled` is
    set. When it returns or raises, all processes of the job have ended.
    """
    stop = threading.Event()
    stops = (stop,) if cancelled is None else (stop, cancelled)
    if threading.current_thread() is not threading.main_thread():
        return _run(job, tools, keep, stops)
    # The main thread is where Python raises KeyboardInterrupt and the like, between any two instructions:
    # also between the start of a process and learning its number. Another thread has no such gaps.
    done = threading.Event()
    outcome: list[Result | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_run(job, tools, keep, stops))
        except BaseException as error:
            outcome.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=work, name="mucc-job", daemon=True).start()
        while not done.wait(AWAKE):
            pass
    except BaseException:
        stop.set()
        done.wait(GRACE)
        raise
    if isinstance(result := outcome[0], Result):
        return result
    raise result


def check(
    job: Job,
    result: Result,
    tools: Mapping[str, str],
    *,
    verbose: bool = False,
    log_path: str | None = None,
) -> None:
    """Raise DiagnosticError for a failed job: MU5104, MU5106, MU5107, MU5110 or MU5111.

    With `verbose`, the diagnostic quotes the whole log; `log_path` is the path of the saved log.
    """
    if result.status == 0:
        return
    diagnostic = messages.failure(
        result.log,
        result.status,
        tool=os.path.basename(_shown(job, tools)[0]),
        given=GIVEN.get(job.kind, "the C++ that mucc generated"),
        memory_gb=PEAK_BYTES[job.kind] / 1e9,
        verbose=verbose,
        log_path=log_path,
    )
    raise DiagnosticError(_placed(job, diagnostic))


def save_log(path: str, job: Job, result: Result, tools: Mapping[str, str]) -> None:
    """Write the command line and its output to a file. Raises MU5107."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{' '.join(_shown(job, tools))}\n{result.log}")
    except OSError as error:
        raise _error(job, "MU5107", f"cannot write the log of a build: {error}") from error


def _shown(job: Job, tools: Mapping[str, str]) -> list[str]:
    """Print the command for messages; placeholders without a path on this machine are printed by name."""
    return [_PLACEHOLDER.sub(lambda match: tools.get(match[1]) or match[1], word) for word in job.command]


def _placed(job: Job, diagnostic: Diagnostic) -> Diagnostic:
    """Add a note with the program and the step to a diagnostic."""
    if not job.program:
        return diagnostic
    return dataclasses.replace(diagnostic, notes=(*diagnostic.notes, f"while building {job.place}"))


def _error(job: Job, code: str, message: str, helps: tuple[str, ...] = ()) -> DiagnosticError:
    return DiagnosticError(_placed(job, Diagnostic(code, message, helps=helps)))


def _run(job: Job, tools: Mapping[str, str], keep: str | None, stops: Sequence[threading.Event]) -> Result:
    started = time.monotonic()
    if any(stop.is_set() for stop in stops):
        raise Cancelled(f"{job.place}: called off")
    command = resolve(job, tools)
    with _folder(job, keep) as folder:
        try:
            for name, data in job.inputs.items():
                path = os.path.join(folder, name)
                if "/" in name:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(data)
            status, log, peak = _execute(job, command, folder, stops)
            files: dict[str, bytes] = {}
            for name in job.outputs:
                with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as file:
                    files[name] = file.read()
        except OSError as error:
            raise _error(job, "MU5107", f"cannot use the directory for temporary files: {error}") from error
    if status == 0 and (missing := [name for name in job.outputs if name not in files]):
        raise _error(
            job,
            "MU5104",
            f"{os.path.basename(command[0])} reported success but made no {missing[0]}",
            helps=("`mucc doctor` shows which compilers were found",),
        )
    return Result(files, log, status, time.monotonic() - started, peak)


@contextlib.contextmanager
def _folder(job: Job, keep: str | None) -> Generator[str]:
    """Yield the working folder: `keep`, created if missing, or a temporary one."""
    with contextlib.ExitStack() as stack:
        try:
            if keep is not None:
                os.makedirs(keep, exist_ok=True)
                folder = os.path.abspath(keep)
            else:
                folder = stack.enter_context(reaper.temporary_folder(tempfile.gettempdir()))
        except OSError as error:
            raise _error(
                job,
                "MU5107",
                f"cannot make a directory for temporary files: {error}",
                helps=("set TMPDIR to a directory that can be written",) if keep is None else (),
            ) from error
        yield folder


def _execute(
    job: Job, command: list[str], folder: str, stops: Sequence[threading.Event]
) -> tuple[int, str, int]:
    """Run a command in a new process group; returns its status, its output, and its peak memory in bytes."""
    with _log_file() as log:
        try:
            # vfork is used as long as there is no preexec_fn: half a millisecond, whatever our size.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log.fileno(),
                stderr=log.fileno(),
                env={**os.environ, "TMPDIR": folder, "LC_ALL": "C"},
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            code = "MU5106" if error.errno in (errno.ENOMEM, errno.EAGAIN) else "MU5104"
            message = f"cannot run {command[0]}: {error.strerror or error}"
            raise _error(
                job, code, message, helps=("`mucc doctor` shows what was found and what is missing",)
            ) from error
        family = Family(process.pid)
        try:
            reaper.watch(process.pid)
            end = family.wait(job.timeout, stops)
        finally:
            status, peak = family.end()
            process.returncode = status
        if end is End.CALLED_OFF:
            raise Cancelled(f"{job.place}: called off")
        if end is End.OVERDUE:
            raise _error(
                job,
                "MU5108",
                f"{os.path.basename(command[0])} did not end within {job.timeout:g} s and was stopped",
                helps=("give more time with --timeout, or choose a smaller kernel",),
            )
        log.seek(0)
        return status, log.read().decode("utf-8", errors="replace"), peak


def _log_file():
    """Open an anonymous file in memory for the output of a process.

    A pipe would be kept open by orphaned children, and a file on disk could not be written if the disk is
    full.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return open(os.memfd_create("mucc-log"), "w+b")
    return tempfile.TemporaryFile()
