"""The codes of programs as texts: MU0 syntax; MU1040 to MU1053 schedules, promises, functions.

Every explanation holds a program that triggers its code and a mended one; the tests run both.
"""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.examples import GOOD, body, entry, functions, schedule

_SYNTAX: dict[str, CodeInfo] = {
    "MU0001": entry(
        "unexpected token",
        "The text does not follow the grammar at the marked place; the message says what could stand there. "
        "`mucc docs --grammar` prints the whole grammar.",
        "kernel f[M](x bf16[M]) -> bf16[M] {\n    return x\n}",
        GOOD,
    ),
    "MU0002": entry(
        "unexpected character",
        "The character has no meaning in the language. Comments begin with `//`; statements need no `;`; "
        "names and operators are ASCII.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x;\n}",
        GOOD,
    ),
    "MU0003": entry(
        "malformed number",
        "Numbers are written as `12`, `0.5` or `1e-6`, and tile shapes as `128x256x64`. A name cannot begin "
        "with a digit. Integers go up to 2^63 - 1.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x * 2.5f\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x * 2.5\n}",
    ),
    "MU0004": entry(
        "unclosed bracket",
        "A bracket is opened and the statement, the kernel or the file ends before it is closed.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return relu(x\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return relu(x)\n}",
    ),
    "MU0005": entry(
        "reserved word used as a name",
        "`kernel`, `schedule`, `for`, `where`, `stage`, `return`, `and`, `or`, `not` and `None` have a fixed "
        "meaning and cannot name anything.",
        "kernel f[M](for: bf16[M]) -> bf16[M] {\n    return relu(x)\n}",
        GOOD,
    ),
    "MU0006": entry(
        "unknown type",
        "A tensor holds `bf16`, `f16`, `f32`, `e4m3`, `e5m2`, `s8`, `u8` or `s32`. A bool exists within "
        "expressions only, as the result of a "
        "comparison.",
        "kernel f[M](x: bfloat16[M]) -> bf16[M] {\n    return x\n}",
        GOOD,
    ),
    "MU0007": entry(
        "setting given twice",
        "A schedule gives each setting once.",
        schedule("stages = 3\n    stages = 4"),
        schedule("stages = 4"),
    ),
    "MU0008": entry(
        "missing return",
        "A kernel ends with `return` and its results.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    y = relu(x)\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return relu(x)\n}",
    ),
    "MU0009": entry(
        "chained comparison",
        "A comparison compares two values. Join two of them with `and`.",
        body("return where(0 < x < 1, x, y)"),
        body("return where(0 < x and x < 1, x, y)"),
    ),
    "MU0010": entry(
        "expression nests too deeply",
        "Brackets, signs and `not` nest at most 64 deep, and a chain of operators is at most 128 long. Give "
        "parts of the expression names.",
        body("return " + "(" * 70 + "x" + ")" * 70),
        body("return x"),
    ),
    "MU0011": entry(
        "statement after return",
        "`return` is the last statement of a kernel. Several results are separated by commas.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x\n    y = x\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    y = x\n    return y\n}",
    ),
    "MU0012": entry(
        "shape with spaces",
        "A shape such as `128x256x64` is one word, without spaces.",
        schedule("tile = 128 x 256 x 64"),
        schedule("tile = 128x256x64"),
    ),
    "MU0013": entry(
        "unsupported index",
        "An index holds integers, slices such as `2:8`, `::2` and `:`, `None` where an axis of extent 1 is "
        "added, and `...` for the axes that are not written. Integers are arithmetic on numbers and bound "
        "dims. Rows by number are `gather(x, rows)`, elements of an axis `take_along(x, index, axis=1)`.",
        body("return x + b[0.5]"),
        body("return x + b[:, None]"),
    ),
    "MU0014": entry(
        "positional argument after a keyword argument",
        "Arguments by position come first, then the ones with a keyword.",
        body("return clamp(lo=0, x, hi=1)"),
        body("return clamp(x, lo=0, hi=1)"),
    ),
    "MU0015": CodeInfo(
        "too many errors",
        "A hundred problems are reported at a time: mend these, or the one that the others follow from, and "
        "run mucc again.\n",
    ),
    "MU0016": entry(
        "type, stage or second result in a function",
        "A function `fn name(x, y) { ... }` has lines `name = expression` and returns one value. It has no "
        "types, because it is typed anew at each call, by its arguments. Stages are pinned in kernels.",
        functions("fn double(x) {\n    stage y = 2 * x\n    return y\n}", "double(x)"),
        functions("fn double(x) {\n    y = 2 * x\n    return y\n}", "double(x)"),
    ),
    "MU0017": entry(
        "comment in place of a division",
        "`//` begins a comment, so that `x // 2` is x. `floor_divide(x, 2)` rounds a quotient down, `x / 2` "
        "does not. This is a warning; a comment with words is none.",
        body("return x // 2"),
        body("return floor_divide(x, 2)"),
    ),
}


def _fourfold(body: str) -> str:
    """Build eight functions, each but the first with a body that calls the one before (`f`)."""
    steps = (body.replace("f(", f"{called}(") for called in "abcdegh")
    bodies = zip("abcdeghi", ("return x * x", *steps), strict=True)
    return functions("\n\n".join(f"fn {name}(x) {{\n    {text}\n}}" for name, text in bodies), "i(x)")


_PROGRAM: dict[str, CodeInfo] = {
    "MU1040": entry(
        "schedule for an unknown kernel",
        "A schedule names a kernel of the same file.",
        schedule("stages = 4", "schedule g for sm_90a"),
        schedule("stages = 4"),
    ),
    "MU1041": entry(
        "schedule for an unknown stage",
        "`schedule f.h` schedules the stage that `stage h = ...` pins in the kernel f. A stage that "
        "is not pinned is called as the result that it writes, `out` where that has no name.",
        schedule("stages = 4", "schedule f.h for sm_90a"),
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[K, N], v: bf16[N, K]) -> bf16[M, K] {\n"
        "    stage h = relu(x @ w)\n    return h @ v\n}\nschedule f.h for sm_90a {\n    stages = 4\n}",
    ),
    "MU1042": entry(
        "schedule for an unknown target",
        "`mucc targets` lists the targets.",
        schedule("stages = 4", "schedule f for sm_90b"),
        schedule("stages = 4"),
    ),
    "MU1043": entry(
        "unknown setting",
        "The settings are `tile`, `cluster`, `mainloop`, `stages`, `scheduler`, `exchange`, "
        "`reproducible`, `epilogue` and `pdl`.",
        schedule("tiles = 128x128x64"),
        schedule("tile = 128x128x64"),
    ),
    "MU1044": entry(
        "unfitting value of a setting",
        "`tile` takes MxNxK, `cluster` MxN, `stages` a number or `auto`, `mainloop` a word, and `scheduler` "
        "`persistent(raster=..., swizzle=...)`, `stream_k(splits=n)` or `split_k(n)`.",
        schedule("tile = 128x128"),
        schedule("tile = 128x128x64"),
    ),
    "MU1045": entry(
        "scheduled twice",
        "A kernel or stage has at most one schedule for each target.",
        schedule("stages = 4") + "\nschedule f for sm_90a {\n    cluster = 2x1\n}",
        schedule("stages = 4\n    cluster = 2x1"),
    ),
    "MU1046": entry(
        "arithmetic on dims that is not affine",
        "A promise or an index adds dims and multiplies them by numbers; `%` and `/` have a positive number "
        "on their right.",
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N]\n    where M * N <= 4096\n{\n    return x\n}",
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N]\n    where M <= 64, N <= 64\n{\n    return x\n}",
    ),
    "MU1047": entry(
        "promise that never holds",
        "With the values of the bound dims the promise is false for every caller.",
        "kernel f[M=12](x: bf16[M]) -> bf16[M]\n    where M % 8 == 0\n{\n    return x\n}",
        "kernel f[M=16](x: bf16[M]) -> bf16[M]\n    where M % 8 == 0\n{\n    return x\n}",
    ),
    "MU1048": entry(
        "program without a kernel",
        "The file holds no kernel, so there is nothing to compile.",
        "// only a comment",
        GOOD,
    ),
    "MU1049": entry(
        "extent out of range",
        "Every extent is at least 1, and those of tensors in memory are at most 2147483647.",
        "kernel f(x: bf16[0]) -> bf16[8] {\n    return x\n}",
        "kernel f(x: bf16[8]) -> bf16[8] {\n    return x\n}",
    ),
    "MU1050": entry(
        "clash of symbols",
        "A library exports `mucc_NAME` and `mucc_NAME_workspace` for each kernel, `mucc_last_error`, "
        "`mucc_manifest` and `mucc_on_launch`. This kernel would give one of them a second meaning.",
        "kernel manifest[M](x: bf16[M]) -> bf16[M] {\n    return x\n}",
        GOOD,
    ),
    "MU1051": entry(
        "recursive function",
        "Each call of a function is replaced by its body, so that no function can call itself, nor one that "
        "calls it. The message shows the way round.",
        functions("fn power(x) {\n    return x * power(x)\n}", "power(x)"),
        functions("fn power(x) {\n    return x * x\n}", "power(power(x))"),
    ),
    "MU1052": entry(
        "function that is never called",
        "No kernel calls the function, and no other function does. A name that begins with `_` says that "
        "this is meant. It is a warning.",
        functions("fn double(x) {\n    return 2 * x\n}", "relu(x)"),
        functions("fn double(x) {\n    return 2 * x\n}", "relu(double(x))"),
    ),
    "MU1053": entry(
        "calls that expand to too much",
        "Each call of a function is replaced by its body. Functions that call each other several times "
        "multiply what a program has at each step; 20,000 operations and calls are the most.",
        _fourfold("return f(x) + f(x) + f(x) + f(x)"),
        _fourfold("y = f(x)\n    return y + y + y + y"),
    ),
    "MU1054": entry(
        "not an extent",
        "Extents are arithmetic on dims: sums, differences, products, and quotients by a number: `2*N`, "
        "`H*D`, `(M+N)/2`. A quotient is exact, which every call is checked for. Remainders and quotients "
        "of dims are no extents.",
        "kernel f[M, N](x: f32[M, N], y: f32[M/N]) -> f32[M, N] {\n    return x + sum(y)\n}",
        "kernel f[M, N](x: f32[M, N], y: f32[M/4]) -> f32[M, N] {\n    return x + sum(y)\n}",
    ),
}

CODES: dict[str, CodeInfo] = {**_SYNTAX, **_PROGRAM}
"""Title and explanation of every code."""
