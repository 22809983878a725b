"""MU53: tuning, and the database of what was measured."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU5301": CodeInfo(
        "there is no GPU to measure on",
        """
Tuning launches kernels, so it needs an NVIDIA GPU and a torch with CUDA on this machine. The message says
what the process that was to launch them found.

```
$ mucc tune kernel.mcu --dims M=4096,N=4096,K=4096
error[MU5301]: kernels cannot be measured on this machine: the installed torch is built without CUDA
  = help: --build-only FOLDER builds here what another machine can measure with --measure-only FOLDER
```

Where the GPU is on another machine, build a folder here, copy it there, and run `mucc tune --measure-only
FOLDER`, which needs no compiler. `mucc tune --collect FOLDER` takes the results into the database here.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5302": CodeInfo(
        "a folder holds no plan for tuning",
        """
`--measure-only` and `--collect` take a folder that `--build-only` made: it holds plan.json, a library for
each candidate, and results.jsonl once something was measured.

```
$ mucc tune --measure-only /tmp
error[MU5302]: '/tmp' holds no plan for tuning: No such file or directory
```

Where the plan is there but damaged, run `--build-only` again: libraries that are in the folder are kept.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5303": CodeInfo(
        "a plan is of a newer mucc",
        """
The folder was made by a version of mucc whose plans this one does not know. Use the same version on both
machines.

```
$ mucc tune --measure-only candidates
error[MU5303]: 'candidates/plan.json' is of a newer mucc (0.9.0): format 2, not 1
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5304": CodeInfo(
        "there is nothing to tune",
        """
Products and attention have settings. The program has neither, or none that any schedule is legal for together
with the settings that `--keep-pins` holds. How other kernels compute is chosen by a model alone, which
`--explain-schedule` shows.

```
$ mucc tune softmax.mcu --dims M=4096,N=4096
error[MU5304]: softmax: no kernel has settings, so there is no schedule to tune
  = note: products and attention have; the ways to compute others are fixed (`--explain-schedule`)
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5305": CodeInfo(
        "the tuning database is damaged",
        """
The file that MUCC_TUNING_DB names, or tuning.db in the user's data directory, is no database of mucc's. As a
warning it says that a compilation went on without measurements.

```
$ MUCC_TUNING_DB=README.md mucc tune --list
error[MU5305]: the tuning database 'README.md' is damaged, or is no such database: file is not a database
  = help: move it away: mv README.md README.md.damaged
```

Nothing is deleted: move the file away, and the next measurement makes a new one. Folders that were measured
with `--measure-only` still have their results, and `--collect` brings them back.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5306": CodeInfo(
        "a newer mucc made the tuning database",
        """
Its tables have a form that this version does not know. As a warning it says that a compilation went on
without measurements.

```
$ mucc tune --list
error[MU5306]: a newer mucc made the tuning database 'tuning.db' (its schema is 2, this mucc knows 1)
```

Update mucc, or keep a database for each version with MUCC_TUNING_DB.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5307": CodeInfo(
        "the tuning database is locked",
        """
Another process has been writing to it for longer than mucc waits. Measurements take milliseconds to store, so
that process hangs, or is another program. End it (`fuser FILE` shows its number), or set MUCC_TUNING_DB to
another file.

```
$ mucc tune --import results.json
error[MU5307]: the tuning database 'tuning.db' is locked by another process
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5308": CodeInfo(
        "the tuning database or a folder cannot be used",
        """
A file cannot be made, read or written, for the reason that the message gives.

```
$ MUCC_TUNING_DB=/proc/tuning.db mucc tune --import results.json
error[MU5308]: the tuning database '/proc/tuning.db' cannot be used: unable to open database file
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5309": CodeInfo(
        "no candidate could be measured",
        """
Every schedule that was tried failed: it could not be built, its kernel faulted, or its result was wrong. The
notes count the reasons.

```
$ mucc tune kernel.mcu --dims M=64,N=64,K=64
error[MU5309]: no schedule of 'kernel' was measured at M=64,N=64,K=64
  = note: 6 of 6 candidates: MU5106: nvcc ran out of memory and was killed
```

Wrong results or faults are defects of mucc: please report them with the program. Build failures for lack of
memory or time are tried again by the next run.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5310": CodeInfo(
        "a file holds no measurements",
        """
`mucc tune --import FILE` reads what `mucc tune --export` wrote: JSON with a list of measurements.

```
$ mucc tune --import package.json
error[MU5310]: 'package.json' holds no measurements: it is no JSON object with 'measurements'
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5311": CodeInfo(
        "inputs or the reference for measuring could not be made",
        """
Before candidates are measured, random inputs are made on the GPU, and the float64 interpreter computes what
they must give. That failed, most often because the GPU's memory does not hold the float64 values of so
large a problem, or because another process has most of it.

```
$ mucc tune kernel.mcu --dims M=200000,N=200000,K=64
error[MU5311]: kernel cannot be measured at M=200000,N=200000,K=64: no inputs or no reference: …
```

Other sizes are measured all the same. Give smaller dims: schedules for large problems are alike.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5312": CodeInfo(
        "the GPU is another than the libraries are for",
        """
A plan's libraries hold machine code for one architecture. Measure the folder on such a GPU, or make another
folder for this one: `mucc tune FILE --target ARCH --build-only FOLDER`.

```
$ mucc tune --measure-only candidates
error[MU5312]: the GPU of this machine is sm_80, the libraries are for sm_90a
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5313": CodeInfo(
        "the file's own schedule keeps a result from being used",
        """
Settings in a `schedule` of the source always hold. The kernel was tuned without them, and the best schedule
differs, so compilations of this file will not take it.

```
$ mucc tune kernel.mcu --dims M=4096,N=4096,K=4096
warning[MU5313]: the schedule in kernel.mcu pins other settings than those found, and pinned settings hold
  = help: `--write` puts the best schedule into the file
```

Write the printed schedule into the file (`--write` does), take the old one out, or tune with `--keep-pins`,
which searches only what the file leaves open.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
}
