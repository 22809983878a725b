"""MU54: speed-of-light analysis, and the cards that it knows."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU5401": CodeInfo(
        "no such card",
        """
`mucc sol --device` and `mucc device show` take a card by its short name or by the name that the driver gives
it; `mucc device` lists them.

```
$ mucc sol kernel.mcu --device h20
error[MU5401]: no card is called 'h20'
  = help: did you mean 'h200'?
```

A card that is missing needs a file in `mucc/target/data/devices` with the maker's figures, and its name in
the file of its target.
""",
        status=ExitStatus.USAGE,
    ),
    "MU5402": CodeInfo(
        "a calibration cannot be read",
        """
`mucc device calibrate` keeps what it measured in the user's data folder. The file is there and is no such
calibration. Delete it, or calibrate again.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5403": CodeInfo(
        "a dim has no value",
        """
A bound holds for given sizes, so every dim that the program leaves open needs a value: add
it to `--dims`.

```
$ mucc sol kernel.mcu --dims M=4096
error[MU5403]: f: no value for N, K
  = help: add --dims N=4096,K=4096
```
""",
        status=ExitStatus.USAGE,
    ),
    "MU5404": CodeInfo(
        "a plot needs matplotlib",
        """
`mucc sol --plot` draws with matplotlib, which mucc does not install by itself: `pip install matplotlib`.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5405": CodeInfo(
        "a plot cannot be drawn",
        """
The name of the file that `--plot` names ends in no format that matplotlib writes: png, pdf and svg are some
that it does.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5406": CodeInfo(
        "no such kernel in the file",
        """
`--kernel` names one kernel of the file.

```
$ mucc sol mlp.mcu --kernel mpl --dims M=4096
error[MU5406]: the file has no kernel 'mpl'
  = help: did you mean 'mlp'?
```
""",
        status=ExitStatus.USAGE,
    ),
    "MU5407": CodeInfo(
        "a measured time is below the bound",
        """
No implementation is faster than the busiest unit of the card. A time that is more than a tenth below the
bound says that less was done than the program asks for: results that were kept from an earlier call, another
stream or thread than the one that was timed, arithmetic of fewer bits than declared, or a timer that does not
wait.

The bound takes the datasheet's rates, or what was measured where that is more, and compulsory traffic only.
Results may still be in L2 when the last kernel ends: as many bytes of them as L2 holds are not counted here.
Where inputs fit in L2 and were there before the launch, a kernel may read less than that from memory: flush
L2, or measure with inputs that are larger.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5408": CodeInfo(
        "there is no card to calibrate",
        """
`mucc device calibrate` measures the card of this machine, by PyTorch. There is none, or the installed torch
is built without CUDA.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5409": CodeInfo(
        "a part of a module has no bound",
        """
`mucc sol problem.py` bounds what mucc can say of a module, and what it can count of calls to PyTorch. What is
not understood, such as dropout with its random numbers or a singular value decomposition, is left out: the
whole takes at least what is printed, and more, so there is no gap and no score. `mucc import --list` names
each operation with the reason.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5410": CodeInfo(
        "a graph cannot be drawn",
        """
`mucc FILE -o NAME.svg` draws the graph of `--emit=graph` with `dot` of Graphviz, which is not a part of mucc:
it comes with the package `graphviz` of most systems. The graph as text needs nothing.

```
$ mucc kernel.mcu -o kernel.svg
error[MU5410]: an SVG of a graph needs Graphviz's `dot`
$ mucc kernel.mcu -o kernel.dot
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
}
