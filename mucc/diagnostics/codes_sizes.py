"""Codes of kernels with several schedules (MU6089 to MU6091): the sizes that `--dims` names for them."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU6089": CodeInfo(
        "too many sizes",
        """
Several `--dims` and ranges such as `M=1..4096` give a kernel several schedules. The program is compiled for
each size, and which schedule computes which calls is decided for all combinations of the values of dims.

Mend it by naming fewer sizes, or fewer dims that differ between them.
""",
        status=ExitStatus.USAGE,
    ),
    "MU6090": CodeInfo(
        "sizes that name different dims",
        """
Each call takes one of several schedules by its dims, so all sizes have to name the same ones. Values that
hold for all sizes may be given once, in a `--dims` of their own:

```
mucc k.mcu --dims M=16 --dims M=4096 --dims N=4096,K=4096
```

Mend it by adding the dim to each `--dims`.
""",
        status=ExitStatus.USAGE,
    ),
    "MU6091": CodeInfo(
        "a kernel for lists of problems has one schedule",
        """
A `kernel each` computes all problems of a call in one launch, whatever their sizes, so that its schedule
cannot depend on the size of one. Of several sizes it gets the schedule of the largest.

Write a `kernel` for one problem to have a schedule for each size, or name one size.
""",
    ),
}
