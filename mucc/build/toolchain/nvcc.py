"""Compile a whole program by nvcc: `.cu` text to a `.so`, PTX or a cubin."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from mucc.build import jobs, messages
from mucc.build.jobs import Job
from mucc.build.pool import Pool
from mucc.build.toolchain.discover import INCLUDE_FLAGS, Toolchain
from mucc.build.toolchain.flags import Kind, flags
from mucc.diagnostics.core import Diagnostic
from mucc.target import DEFAULT_TARGET


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build: the file's bytes, the warnings of the compilers, and their log."""

    data: bytes
    warnings: tuple[Diagnostic, ...]
    log: str = ""


def build(
    text: str,
    kind: Kind,
    toolchain: Toolchain,
    pool: Pool | None = None,
    *,
    target: str = DEFAULT_TARGET,
    program: str = "",
    name: str = "kernel",
    timeout: float | None = None,
    save_temps: str | None = None,
    lines: bool = False,
) -> Built:
    """Compile the text of a `.cu` file, in `pool` or in a new pool.

    `program` is the program's name in messages, and `name` the stem of temporary files, which `save_temps`, a
    directory, keeps together with the log. With `lines`, machine code has the lines that it comes from.
    Raises DiagnosticError: MU5104 for a toolchain that cannot build,
    MU5106 out of memory, MU5107 out of disk, MU5108 after `timeout` seconds, MU5110 for rejected code, MU5111
    for a crash of a compiler. When it raises, Ctrl-C included, nvcc and its children have ended, and
    temporary files are removed.
    """
    libraries = ("-L{cudart}",) if kind == "so" else ()
    paths = ("-ccbin", "{cxx}", *INCLUDE_FLAGS, "-I{cutlass}", *libraries)
    extra = () if save_temps is None else ("--keep", "--keep-dir", os.path.abspath(save_temps))
    source, output = f"{name}.cu", f"{name}.{kind}"
    job = Job(
        program=program,
        stage="the whole program",
        kind=jobs.Kind.NVCC if kind == "so" else jobs.Kind.DEVICE,
        command=("{nvcc}", *flags(kind, target, lines=lines), *paths, source, "-o", output, *extra),
        inputs={source: text.encode()},
        outputs=(output,),
        timeout=timeout,
    )
    with contextlib.nullcontext(pool) if pool else Pool(cores=1) as running:
        result = running.run(job, tools=toolchain.tools(), keep=save_temps)
    return Built(result.files[output], tuple(messages.warnings(result.log)), result.log)
