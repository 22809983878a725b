"""MU71: auditing solutions."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU7101": CodeInfo(
        "an audit has no GPU",
        """
`mucc-agent audit --device cuda`, and any audit of a library, runs kernels on an NVIDIA GPU. The message says
what is missing. `--device cpu` audits solutions that run on a CPU; of libraries there are none.

```
$ mucc-agent audit problem.py kernel.so        # on a machine without a GPU
error[MU7101]: kernel.so needs a GPU: there is no usable NVIDIA GPU
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7110": CodeInfo(
        "a program that is a solution does not compile",
        """
A `.mcu` file as a solution is compiled first. The note has what the compiler said.

```
$ mucc-agent audit problem.py kernel.mcu
error[MU7110]: 'kernel.mcu' does not compile
  = note: error[MU0101]: ...
```

Mend the program: `mucc check kernel.mcu` shows the errors with their places.
""",
    ),
    "MU7111": CodeInfo(
        "a library is not made for the problem",
        """
A library is called as `mucc import` would call it: with the kernels that an import of the problem has, by
their names and arguments. The notes list them.

```
$ mucc-agent audit mlp.py gemm.so
error[MU7111]: the kernels of 'gemm.so' are not those of 'mlp.py': gemm(a, b)
  = note: an import of the problem has gemm(x, up_weight, down_weight)
```

Start from what `mucc import problem.py -o kernel.mcu` writes, and change what is inside the kernels and their
schedules. A library with other kernels needs a Python file with a `ModelNew` that calls them.
""",
    ),
}
