"""MU55: several GPUs, and clusters of machines."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU5501": CodeInfo(
        "Ray is not installed",
        """
`--ray` and MUCC_RAY send work to the machines of a Ray cluster. Ray is an optional package of this machine
and of all others.

```
$ mucc a.mcu b.mcu --ray auto
error[MU5501]: --ray needs the package ray, which is not installed
  = help: pip install 'mucc[ray]'
```

One machine needs no Ray: `-j N` and `--gpus 0,1` use all of it.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5502": CodeInfo(
        "there is no such cluster",
        """
No Ray cluster answers at the address. `auto` looks for one that was started on this machine, `local` starts
one for this command, anything else is HOST:PORT of the head, by default with port 6379.

```
$ mucc tune kernel.mcu --dims M=4096,N=4096,K=4096 --ray head:6379
error[MU5502]: there is no Ray cluster at 'head:6379': connection refused
  = help: start one: `ray start --head` here, `ray start --address=HEAD:6379` on the other machines
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5503": CodeInfo(
        "a machine of the cluster is not used",
        """
Its mucc, compilers, card or driver differ from those that the others have: a library or a time from there
could not be told from the others, so nothing is run on it. The warning names each difference.

```
warning[MU5503]: the machine 10.0.0.7 is not used: nvcc is 13.2.86 there and 13.0.88 here
```

Install the same versions on all machines. Where the cards differ, `--card NAME` chooses those to measure on.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5504": CodeInfo(
        "no machine of the cluster fits",
        """
Every machine was refused (MU5503), or none has what the work needs, such as a GPU that is free.

```
$ mucc tune kernel.mcu --dims M=4096,N=4096,K=4096 --ray auto
error[MU5504]: no machine of the cluster can measure: 2 machines have no GPU
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5505": CodeInfo(
        "no GPU is left to measure on",
        """
All processes or machines that measured are gone. What was measured before is in the database, and the same
command goes on from there.

```
error[MU5505]: no GPU is left to measure on: all processes or machines that measured were lost
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5506": CodeInfo(
        "GPUs of several kinds were named",
        """
A search compares times, and those of different cards cannot be compared. Name GPUs of one kind, or tune for
each kind in a command of its own.

```
$ mucc tune kernel.mcu --dims M=4096,N=4096,K=4096 --gpus 0,1
error[MU5506]: the GPUs are of several kinds, whose times cannot be compared: GPU 0 is NVIDIA H100; …
  = help: name GPUs of one kind
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
}
