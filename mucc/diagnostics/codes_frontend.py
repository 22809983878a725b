"""The codes of the frontend: MU0 syntax, MU1 names, types and shapes.

Every explanation holds a program that triggers its code and a mended one; the tests run both.
"""

from __future__ import annotations


def _entry(title: str, cause: str, wrong: str, mended: str) -> tuple[str, str]:
    """A title and an explanation in Markdown, with the two programs in fenced blocks."""
    wrong, mended = wrong.strip("\n"), mended.strip("\n")
    return title, f"{cause}\n\nWrong:\n\n```mcu\n{wrong}\n```\n\nMended:\n\n```mcu\n{mended}\n```\n"


def _body(text: str) -> str:
    """A program around one body: matrices x, y (bf16[M, K]) and w (bf16[N, K]), a vector b, a scalar s."""
    lines = "\n".join(f"    {line}" for line in text.strip().splitlines())
    signature = "x: bf16[M, K], y: bf16[M, K], w: bf16[N, K], b: bf16[M], s: f32"
    return f"kernel f[M, N, K]({signature}) -> bf16[M, K] {{\n{lines}\n}}"


_GOOD = "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x\n}"


def _schedule(setting: str, head: str = "schedule f for sm_90a") -> str:
    return f"{_GOOD}\n{head} {{\n    {setting}\n}}"


_SYNTAX: dict[str, tuple[str, str]] = {
    "MU0001": _entry(
        "unexpected token",
        "The text does not follow the grammar at the marked place; the message says what could stand there. "
        "`mucc docs --grammar` prints the whole grammar.",
        "kernel f[M](x bf16[M]) -> bf16[M] {\n    return x\n}",
        _GOOD,
    ),
    "MU0002": _entry(
        "unexpected character",
        "The character has no meaning in the language. Comments begin with `//`; statements need no `;`; "
        "names and operators are ASCII.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x;\n}",
        _GOOD,
    ),
    "MU0003": _entry(
        "malformed number",
        "Numbers are written as `12`, `0.5` or `1e-6`, and tile shapes as `128x256x64`. A name cannot begin "
        "with a digit. Integers go up to 2^63 - 1.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x * 2.5f\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x * 2.5\n}",
    ),
    "MU0004": _entry(
        "unclosed bracket",
        "A bracket is opened and the statement, the kernel or the file ends before it is closed.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return relu(x\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return relu(x)\n}",
    ),
    "MU0005": _entry(
        "reserved word used as a name",
        "`kernel`, `schedule`, `for`, `where`, `stage`, `return`, `and`, `or`, `not` and `None` have a fixed "
        "meaning and cannot name anything.",
        "kernel f[M](for: bf16[M]) -> bf16[M] {\n    return relu(x)\n}",
        _GOOD,
    ),
    "MU0006": _entry(
        "unknown type",
        "A tensor holds `bf16`, `f16`, `f32`, `e4m3`, `e5m2`, `s8`, `u8` or `s32`. A bool exists within "
        "expressions only, as the result of a "
        "comparison.",
        "kernel f[M](x: bfloat16[M]) -> bf16[M] {\n    return x\n}",
        _GOOD,
    ),
    "MU0007": _entry(
        "setting given twice",
        "A schedule gives each setting once.",
        _schedule("stages = 3\n    stages = 4"),
        _schedule("stages = 4"),
    ),
    "MU0008": _entry(
        "missing return",
        "A kernel ends with `return` and its results.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    y = relu(x)\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return relu(x)\n}",
    ),
    "MU0009": _entry(
        "chained comparison",
        "A comparison compares two values. Join two of them with `and`.",
        _body("return where(0 < x < 1, x, y)"),
        _body("return where(0 < x and x < 1, x, y)"),
    ),
    "MU0010": _entry(
        "expression nests too deeply",
        "Brackets, signs and `not` nest at most 64 deep, and a chain of operators is at most 128 long. Give "
        "parts of the expression names.",
        _body("return " + "(" * 70 + "x" + ")" * 70),
        _body("return x"),
    ),
    "MU0011": _entry(
        "statement after return",
        "`return` is the last statement of a kernel. Several results are separated by commas.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x\n    y = x\n}",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    y = x\n    return y\n}",
    ),
    "MU0012": _entry(
        "shape with spaces",
        "A shape such as `128x256x64` is one word, without spaces.",
        _schedule("tile = 128 x 256 x 64"),
        _schedule("tile = 128x256x64"),
    ),
    "MU0013": _entry(
        "unsupported index",
        "An index holds one `:` for each axis, and `None` where an axis of extent 1 is added. Elements and "
        "slices cannot be taken.",
        _body("return x + b[0]"),
        _body("return x + b[:, None]"),
    ),
    "MU0014": _entry(
        "positional argument after a keyword argument",
        "Arguments by position come first, then the ones with a keyword.",
        _body("return clamp(lo=0, x, hi=1)"),
        _body("return clamp(x, lo=0, hi=1)"),
    ),
}

_NAMES: dict[str, tuple[str, str]] = {
    "MU1001": _entry(
        "unknown name",
        "The name is neither a parameter nor a value that was named earlier in the kernel.",
        _body("return z"),
        _body("return x"),
    ),
    "MU1002": _entry(
        "unknown function",
        "There is no function of this name; `mucc docs --card` lists them all.",
        _body("return swish(x)"),
        _body("return silu(x)"),
    ),
    "MU1003": _entry(
        "name defined twice",
        "Dims, parameters and values of a kernel share one set of names, and each is defined once; so "
        "are the "
        "kernels of a program.",
        _body("x = relu(x)\nreturn x"),
        _body("h = relu(x)\nreturn h"),
    ),
    "MU1004": _entry(
        "dim used as a value",
        "A dim is known at run time only, and expressions compute with values. A bound dim may be used as a "
        "number; otherwise pass the number as a scalar parameter.",
        "kernel f[M, N](x: f32[M, N]) -> f32[M] {\n    return sum(x, axis=1) / N\n}",
        "kernel f[M, N=1024](x: f32[M, N]) -> f32[M] {\n    return sum(x, axis=1) / N\n}",
    ),
    "MU1005": _entry(
        "undeclared dim",
        "Every dim stands in the list behind the kernel's name.",
        "kernel f[M](x: bf16[M, N]) -> bf16[M, N] {\n    return x\n}",
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N] {\n    return x\n}",
    ),
    "MU1006": _entry(
        "dim that no parameter has",
        "The value of a run-time dim is read off the arguments, so some parameter must have it as an extent.",
        "kernel f[M, N](x: bf16[M]) -> bf16[M] {\n    return x\n}",
        _GOOD,
    ),
    "MU1007": _entry(
        "wrong number of arguments",
        "The call has too few or too many arguments; the note shows the signature.",
        _body("return relu(x, y)"),
        _body("return relu(x)"),
    ),
    "MU1008": _entry(
        "unknown keyword argument",
        "The function has no parameter of this name. The note gives its signature.",
        _body("return x - max(x, dim=1, keepdims=on)"),
        _body("return x - max(x, axis=1, keepdims=on)"),
    ),
    "MU1009": _entry(
        "argument given twice",
        "A parameter is given by position and by keyword, or twice by keyword.",
        _body("return clamp(x, 0, lo=1, hi=2)"),
        _body("return clamp(x, lo=1, hi=2)"),
    ),
    "MU1010": _entry(
        "unfitting argument",
        "The parameter takes something else: a number known at compile time, one of a few words, an axis, or "
        "a value. 16-bit operands of a contraction compute in their own format, f32 operands in tf32, tf32x3 "
        "or f32.",
        _body("return leaky_relu(x, slope=s)"),
        _body("return leaky_relu(x, slope=0.2)"),
    ),
    "MU1011": _entry(
        "wrong number of results",
        "`return` gives as many values as the signature declares results.",
        _body("return x, y"),
        _body("return x + y"),
    ),
    "MU1012": _entry(
        "shape differs from the declared one",
        "A returned value must have exactly the shape that the signature declares for it, and a value with a "
        "type must have the shape of that type. Nothing is broadcast here.",
        _body("return b[:, None]"),
        _body("return x + b[:, None]"),
    ),
    "MU1013": _entry(
        "unused parameter",
        "A warning: nothing in the kernel reads the parameter. A name that begins with `_` is not reported.",
        "kernel f[M](x: bf16[M], y: bf16[M]) -> bf16[M] {\n    return x\n}",
        "kernel f[M](x: bf16[M], _y: bf16[M]) -> bf16[M] {\n    return x\n}",
    ),
    "MU1014": _entry(
        "unused value",
        "A warning: the value is computed and never read. A name that begins with `_` is not reported.",
        _body("h = relu(x)\nreturn x"),
        _body("h = relu(x)\nreturn h"),
    ),
    "MU1015": _entry(
        "scalar in place of a tensor, or the other way round",
        "A type without brackets is a scalar that is passed by value; it has the type f32. Results and "
        "stages "
        "are stored and therefore tensors: `f32[]` is a tensor that holds one number.",
        "kernel f[M](x: f32[M]) -> f32 {\n    return sum(x)\n}",
        "kernel f[M](x: f32[M]) -> f32[] {\n    return sum(x)\n}",
    ),
    "MU1016": _entry(
        "unfitting layout",
        "`col_major` swaps the last two axes and needs two; `strides(...)` gives one stride per axis. Only "
        "parameters have a layout: results are row-major, and what lies between is the compiler's choice.",
        "kernel f[M](x: bf16[M] strides(_, 1)) -> bf16[M] {\n    return x\n}",
        "kernel f[M](x: bf16[M] strides(1)) -> bf16[M] {\n    return x\n}",
    ),
    "MU1017": _entry(
        "bool where a number is stored",
        "Tensors in memory hold numbers. Make one of a condition with `where(c, 1, 0)` or `cast(c, f32)`.",
        _body("return x > y"),
        _body("return where(x > y, 1, 0)"),
    ),
    "MU1018": _entry(
        "wrong number of axes in an index",
        "An index has one `:` for each axis of the value, and any number of `None`.",
        _body("return x + b[:, :, None]"),
        _body("return x + b[:, None]"),
    ),
    "MU1019": _entry(
        "name of a type",
        "`bf16`, `f16`, `f32` and `bool` are types and cannot name a dim, a parameter or a value.",
        _body("f32 = relu(x)\nreturn f32"),
        _body("h = relu(x)\nreturn h"),
    ),
}

_SHAPES: dict[str, tuple[str, str]] = {
    "MU1020": _entry(
        "shapes do not broadcast",
        "Shapes are aligned at their last axes, as in NumPy. Two extents agree when they are the same "
        "dim, the "
        "same number, or one of them is 1. A vector with one element per row needs a new axis: `b[:, None]`.",
        _body("return x + b"),
        _body("return x + b[:, None]"),
    ),
    "MU1021": _entry(
        "arithmetic on a bool",
        "A comparison gives a bool, which `where`, `and`, `or` and `not` take. To compute with it, make a "
        "number of it.",
        _body("return (x > 0) * x"),
        _body("return where(x > 0, x, 0)"),
    ),
    "MU1022": _entry(
        "number in place of a bool",
        "`and`, `or`, `not` and the first argument of `where` take bools, which comparisons give.",
        _body("return where(x, x, y)"),
        _body("return where(x != 0, x, y)"),
    ),
    "MU1023": _entry(
        "contraction of a vector",
        "The operands of `@` have at least two axes. `v[:, None]` makes a column of a vector, `v[None, "
        ":]` a row.",
        _body("return x @ b"),
        _body("return x * b[:, None]"),
    ),
    "MU1024": _entry(
        "inner extents of a contraction differ",
        "In `a @ b` the last extent of `a` is the second-last one of `b`. A weight stored as `[N, K]` is "
        "transposed with `.T`.",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w.T\n}",
    ),
    "MU1025": _entry(
        "operands of a contraction have different dtypes",
        "The tensor cores multiply operands of one dtype; e4m3 with e5m2, s8 with u8, and "
        "bf16 or f16 with all of these besides. Convert one of them with `cast`.",
        "kernel f[M, N, K](x: bf16[M, K], w: f16[K, N]) -> bf16[M, N] {\n    return x @ w\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: f16[K, N]) -> bf16[M, N] {\n    return x @ cast(w, bf16)\n}",
    ),
    "MU1060": _entry(
        "dtype that cannot be multiplied",
        "Tensor cores multiply bf16, f16, f32 (as tf32), e4m3, e5m2, s8 and u8. s32 is what products of "
        "integers are added up in.",
        "kernel f[M, N, K](x: s32[M, K], w: s32[N, K]) -> s32[M, N] {\n    return x @ w.T\n}",
        "kernel f[M, N, K](x: s32[M, K], w: s32[N, K]) -> s32[M, N] {\n"
        "    return cast(x, f32) @ cast(w.T, f32)\n}",
    ),
    "MU1061": _entry(
        "sums that cannot be had",
        "`acc=fast` leaves the sums of products of e4m3 and e5m2 to the tensor cores, which keep fewer bits "
        "than f32 has. Products of other floats have one way to be added up, in f32, and products of "
        "integers one, in s32.",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n"
        "    return matmul(x, w.T, acc=fast)\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return matmul(x, w.T)\n}",
    ),
    "MU1062": _entry(
        "scales do not fit",
        "Scales and zeros of quantised weights `[N, K]` have the rows of the weights, and one column for "
        "each group of their columns: `[N, K/128]`. `K/128` is an extent of its own; every call is checked "
        "for K being 128 times as large. Where K is bound the groups must fill it.",
        "kernel f[M, N, K, G](x: bf16[M, K], w: s8[N, K], s: bf16[N, G]) -> bf16[M, N] {\n"
        "    return x @ dequantize(w, s).T\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: s8[N, K], s: bf16[N, K/128]) -> bf16[M, N] {\n"
        "    return x @ dequantize(w, s).T\n}",
    ),
    "MU1063": _entry(
        "extent does not divide",
        "An extent such as `K/128` is a whole number: a dim that is bound must be a multiple of the divisor.",
        "kernel f[N, K=100](w: s8[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
        "kernel f[N, K=128](w: s8[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
    ),
    "MU1064": _entry(
        "these weights cannot be dequantised",
        "`dequantize(w, scales, zeros)` takes row-major weights of e4m3, e5m2, s8, u8 or s4, and scales of "
        "bf16, f16 or f32; the result has the dtype of the scales.",
        "kernel f[N, K](w: bf16[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
        "kernel f[N, K](w: s8[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
    ),
    "MU1066": _entry(
        "numbers that share bytes are parameters only",
        "Two s4 share a byte along the last axis of a parameter, the first one in its low half, so that axis "
        "is contiguous and of even extent. Kernels read such numbers, as f32 or as weights, but write none.",
        "kernel f[N, K](w: s4[N, K]) -> s4[N, K] {\n    return w\n}",
        "kernel f[N, K](w: s4[N, K]) -> s8[N, K] {\n    return w\n}",
    ),
    "MU1070": _entry(
        "operands of a grouped product have other axes",
        "`grouped_matmul(x, w, offsets)` takes the rows of all groups one after the other, `[T, K]`, a "
        "matrix for each group, `[E, K, N]`, and the ends of the groups, `[E]`.",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[N, K], o: s32[E]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
    ),
    "MU1071": _entry(
        "another number of offsets than of matrices",
        "`offsets[g]` is the end of group g, as in `torch._grouped_mm`: group g has the rows from "
        "`offsets[g-1]` (0 for the first) up to `offsets[g]`, and the matrix `w[g]`.",
        "kernel f[T, E, F, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[F]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
    ),
    "MU1072": _entry(
        "index that is no s32",
        "Offsets and numbers of rows are tensors of s32.",
        "kernel f[T, M, N](x: bf16[T, N], rows: f32[M]) -> bf16[M, N] {\n    return gather(x, rows)\n}",
        "kernel f[T, M, N](x: bf16[T, N], rows: s32[M]) -> bf16[M, N] {\n    return gather(x, rows)\n}",
    ),
    "MU1073": _entry(
        "no rows to gather or to scatter",
        "gather and scatter move what lies along the first axis of a tensor of numbers.",
        "kernel f[T, M, N](x: bf16[T, N], rows: s32[M]) -> bf16[M, N] {\n"
        "    return cast(gather(x > 0, rows), bf16)\n}",
        "kernel f[T, M, N](x: bf16[T, N], rows: s32[M]) -> bf16[M, N] {\n"
        "    return cast(gather(x, rows) > 0, bf16)\n}",
    ),
    "MU1074": _entry(
        "scatter of other rows than it has numbers for",
        "`scatter(x, rows, T)` gives T rows: row i of x becomes row `rows[i]`, the others are zero. So there "
        "is one number for each row of x.",
        "kernel f[T=64, M, P, N](x: bf16[M, N], rows: s32[P]) -> bf16[T, N] {\n"
        "    return scatter(x, rows, T)\n}",
        "kernel f[T=64, M, N](x: bf16[M, N], rows: s32[M]) -> bf16[T, N] {\n"
        "    return scatter(x, rows, T)\n}",
    ),
    "MU1075": _entry(
        "scale or bias of groups does not fit",
        "`grouped_matmul(x, w, offsets, scale=s, bias=b)` takes a number for each group, `s: f32[E]`, and a "
        "row for each group, `b: bf16[E, N]`. What holds for all groups or for single rows is plain "
        "arithmetic on the product.",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E], b: bf16[N]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o, bias=b)\n}",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E], b: bf16[N]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o) + b\n}",
    ),
    "MU1065": _entry(
        "block scales do not fit",
        "Products of e4m3 and e5m2 take f32 scales for blocks of both operands: each scale holds for 128 "
        "elements along K, and for one row or 128 rows of A, one column or 128 columns of B.",
        "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/64], b: f32[N/128, K/64])\n"
        "    -> bf16[M, N]\n{\n    return matmul(x, w.T, scale_a=a, scale_b=b)\n}",
        "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128], b: f32[N/128, K/128])\n"
        "    -> bf16[M, N]\n{\n    return matmul(x, w.T, scale_a=a, scale_b=b)\n}",
    ),
    "MU1080": _entry(
        "sparse matrix beyond a product",
        "Of a `sparse` parameter only the values that the 2:4 pattern leaves are in memory, in the order in "
        "which matrix instructions want them. Nothing but `@` reads that, directly or through `.T`.",
        "kernel f[N, K](w: bf16[N, K] sparse) -> bf16[N, K] {\n    return relu(w)\n}",
        "kernel f[N, K](w: bf16[N, K]) -> bf16[N, K] {\n    return relu(w)\n}",
    ),
    "MU1081": _entry(
        "product of a sparse matrix that there is not",
        "A sparse matrix is one of the two operands of a product of two matrices of one dtype. The pattern "
        "lies along its rows, and these along K: `x @ w.T` with `w: bf16[N, K] sparse`, or `w @ x` with "
        "`w: bf16[M, K] sparse`.",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[K, N] sparse) -> bf16[M, N] {\n    return x @ w\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K] sparse) -> bf16[M, N] {\n    return x @ w.T\n}",
    ),
    "MU1082": _entry(
        "tensor that cannot be sparse",
        "A sparse tensor is a matrix of more than one row, of numbers of 8, 16 or 32 bits. Stored rows, half "
        "of the matrix, are multiples of 16 bytes: its columns are a multiple of 32 (8 bits), 16 (16 bits) "
        "or 8 (f32). A dim that is known only at run time becomes a promise.",
        "kernel f[M, N](x: bf16[M, 40], w: bf16[N, 40] sparse) -> bf16[M, N] {\n    return x @ w.T\n}",
        "kernel f[M, N](x: bf16[M, 48], w: bf16[N, 48] sparse) -> bf16[M, N] {\n    return x @ w.T\n}",
    ),
    "MU1090": _entry(
        "reshape to another number of elements",
        "`reshape(x, (M, 8))` keeps the elements, in row-major order. That there are as many of them must "
        "show: both shapes have the same run-time dims, and the products of their numbers are equal.",
        "kernel f[M](x: bf16[M, 4, 6]) -> bf16[M, 20] {\n    return reshape(x, (M, 20))\n}",
        "kernel f[M](x: bf16[M, 4, 6]) -> bf16[M, 24] {\n    return reshape(x, (M, 24))\n}",
    ),
    "MU1091": _entry(
        "extent that must be a number",
        "The extent of the result follows from the operand's by a formula, so the operand's must be a "
        "number, written as one, or a dim that is bound to one.",
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, 8] {\n    return slice(x, 1, 0, 8)\n}",
        "kernel f[M, N=64](x: bf16[M, N]) -> bf16[M, 8] {\n    return slice(x, 1, 0, 8)\n}",
    ),
    "MU1092": _entry(
        "operand with too few axes",
        "The function works along axes of a tensor, and its operand does not have as many; or it is of s4, "
        "whose elements share bytes.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return tril(x)\n}",
        "kernel f[M](x: bf16[M, M]) -> bf16[M, M] {\n    return tril(x)\n}",
    ),
    "MU1093": _entry(
        "slice that does not fit",
        "`slice(x, axis, start, stop, step=1)` takes the elements from `start` on, before `stop`: at least "
        "one, and none beyond the end.",
        "kernel f[M](x: bf16[M, 8]) -> bf16[M, 6] {\n    return slice(x, 1, 4, 10)\n}",
        "kernel f[M](x: bf16[M, 8]) -> bf16[M, 4] {\n    return slice(x, 1, 4, 8)\n}",
    ),
    "MU1094": _entry(
        "tensors that cannot be concatenated",
        "Tensors lie one after the other along one axis; all their other extents are the same.",
        "kernel f[M](x: bf16[M, 8], y: bf16[8, M]) -> bf16[M, 16] {\n    return concat(x, y, axis=1)\n}",
        "kernel f[M](x: bf16[M, 8], y: bf16[8, M]) -> bf16[M, 16] {\n    return concat(x, y.T, axis=1)\n}",
    ),
    "MU1095": _entry(
        "wrong number of integers",
        "The argument has one integer for each axis that it is about.",
        "kernel f[M](x: bf16[M, 4, 8]) -> bf16[M, 8, 4] {\n    return permute(x, (0, 2))\n}",
        "kernel f[M](x: bf16[M, 4, 8]) -> bf16[M, 8, 4] {\n    return permute(x, (0, 2, 1))\n}",
    ),
    "MU1096": _entry(
        "padding that does not fit",
        "A tensor is padded by 0 elements or more on each side; `reflect` takes them from its inside, so "
        "that there are fewer of them than elements, and `circular` from its other end.",
        "kernel f[M](x: bf16[M, 4]) -> bf16[M, 9] {\n    return pad(x, 5, 0, mode=reflect)\n}",
        "kernel f[M](x: bf16[M, 4]) -> bf16[M, 7] {\n    return pad(x, 3, 0, mode=reflect)\n}",
    ),
    "MU1100": _entry(
        "operands of a convolution or pooling do not fit",
        "`conv(x, w)` takes x `[N, C, ...]` with 1 to 3 spatial axes and w `[O, C/groups, ...]` with as "
        "many; both numbers of channels divide into groups. `conv_transpose` takes w `[C, O/groups, ...]`.",
        "kernel f[N](x: bf16[N, 8, 16], w: bf16[4, 4, 3]) -> bf16[N, 4, 14] {\n    return conv(x, w)\n}",
        "kernel f[N](x: bf16[N, 8, 16], w: bf16[4, 8, 3]) -> bf16[N, 4, 14] {\n    return conv(x, w)\n}",
    ),
    "MU1101": _entry(
        "window that does not fit",
        "A window of k elements, d apart, reaches over d * (k - 1) + 1 elements, and the axis with its "
        "padding has fewer; or padding is more than half of a pooling window.",
        "kernel f[N](x: bf16[N, 8, 4]) -> bf16[N, 8, 1] {\n    return max_pool(x, 5)\n}",
        "kernel f[N](x: bf16[N, 8, 4]) -> bf16[N, 8, 1] {\n    return max_pool(x, 4)\n}",
    ),
    "MU1102": _entry(
        "convolution of dtypes that do not fit",
        "Both operands of a convolution are bf16, f16 or f32, and of one dtype. The result is of that dtype "
        "too; sums are f32.",
        "kernel f[N](x: f32[N, 8, 9], w: bf16[4, 8, 3]) -> f32[N, 4, 7] {\n    return conv(x, w)\n}",
        "kernel f[N](x: f32[N, 8, 9], w: bf16[4, 8, 3]) -> f32[N, 4, 7] {\n"
        "    return conv(x, cast(w, f32))\n}",
    ),
    "MU1103": _entry(
        "operands of attention do not fit",
        "`attention(q, k, v)` takes queries `[.., M, D]`, keys `[.., N, D]` and values `[.., N, E]` of one "
        "dtype (bf16, f16 or f32); a mask broadcasts to `[.., M, N]`.",
        "kernel f[M, N](q: f16[M, 64], k: f16[N, 32], v: f16[N, 64]) -> f16[M, 64] {\n"
        "    return attention(q, k, v)\n}",
        "kernel f[M, N](q: f16[M, 64], k: f16[N, 64], v: f16[N, 64]) -> f16[M, 64] {\n"
        "    return attention(q, k, v)\n}",
    ),
    "MU1104": _entry(
        "index that does not lie along the axis",
        "`take_along(x, index, axis)` picks one element of x for each of the index, in the same row: all "
        "extents but that of the axis are the same.",
        "kernel f[M](x: f32[M, 8], i: s32[M]) -> f32[M, 1] {\n    return take_along(x, i, axis=1)\n}",
        "kernel f[M](x: f32[M, 8], i: s32[M]) -> f32[M, 1] {\n"
        "    return take_along(x, i[:, None], axis=1)\n}",
    ),
    "MU1026": _entry(
        "batch extents of a contraction differ",
        "The axes before the last two broadcast against each other: equal, or 1.",
        "kernel f[B, C, M, N, K](x: bf16[B, M, K], w: bf16[C, K, N]) -> bf16[B, M, N] {\n    return x @ w\n}",
        "kernel f[B, M, N, K](x: bf16[B, M, K], w: bf16[B, K, N]) -> bf16[B, M, N] {\n    return x @ w\n}",
    ),
    "MU1027": _entry(
        "transpose of a vector",
        "`.T` swaps the last two axes, so there must be two.",
        _body("return x + b.T"),
        _body("return x + b[:, None]"),
    ),
    "MU1028": _entry(
        "axis out of range",
        "Axes count from 0, or from the end as -1, -2; each is named once.",
        _body("return x - sum(x, axis=2)"),
        _body("return x - sum(x, axis=1)[:, None]"),
    ),
}

_PROGRAM: dict[str, tuple[str, str]] = {
    "MU1040": _entry(
        "schedule for an unknown kernel",
        "A schedule names a kernel of the same file.",
        _schedule("stages = 4", "schedule g for sm_90a"),
        _schedule("stages = 4"),
    ),
    "MU1041": _entry(
        "schedule for an unknown stage",
        "`schedule f.h` schedules the stage that `stage h = ...` pins in the kernel f. A stage that "
        "is not pinned is called as the result that it writes, `out` where that has no name.",
        _schedule("stages = 4", "schedule f.h for sm_90a"),
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[K, N], v: bf16[N, K]) -> bf16[M, K] {\n"
        "    stage h = relu(x @ w)\n    return h @ v\n}\nschedule f.h for sm_90a {\n    stages = 4\n}",
    ),
    "MU1042": _entry(
        "schedule for an unknown target",
        "`mucc targets` lists the targets.",
        _schedule("stages = 4", "schedule f for sm_90b"),
        _schedule("stages = 4"),
    ),
    "MU1043": _entry(
        "unknown setting",
        "The settings are `tile`, `cluster`, `mainloop`, `stages` and `scheduler`.",
        _schedule("tiles = 128x128x64"),
        _schedule("tile = 128x128x64"),
    ),
    "MU1044": _entry(
        "unfitting value of a setting",
        "`tile` takes MxNxK, `cluster` MxN, `stages` a number or `auto`, `mainloop` a word, and `scheduler` "
        "`persistent(raster=..., swizzle=...)`, `stream_k(splits=n)` or `split_k(n)`.",
        _schedule("tile = 128x128"),
        _schedule("tile = 128x128x64"),
    ),
    "MU1045": _entry(
        "scheduled twice",
        "A kernel or stage has at most one schedule for each target.",
        _schedule("stages = 4") + "\nschedule f for sm_90a {\n    cluster = 2x1\n}",
        _schedule("stages = 4\n    cluster = 2x1"),
    ),
    "MU1046": _entry(
        "promise that is not affine",
        "A promise adds dims and multiplies them by numbers; `%` and `/` have a positive number on "
        "their right.",
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N]\n    where M * N <= 4096\n{\n    return x\n}",
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N]\n    where M <= 64, N <= 64\n{\n    return x\n}",
    ),
    "MU1047": _entry(
        "promise that never holds",
        "With the values of the bound dims the promise is false for every caller.",
        "kernel f[M=12](x: bf16[M]) -> bf16[M]\n    where M % 8 == 0\n{\n    return x\n}",
        "kernel f[M=16](x: bf16[M]) -> bf16[M]\n    where M % 8 == 0\n{\n    return x\n}",
    ),
    "MU1048": _entry(
        "program without a kernel",
        "The file holds no kernel, so there is nothing to compile.",
        "// only a comment",
        _GOOD,
    ),
    "MU1049": _entry(
        "extent of zero",
        "Every extent is at least 1.",
        "kernel f(x: bf16[0]) -> bf16[8] {\n    return x\n}",
        "kernel f(x: bf16[8]) -> bf16[8] {\n    return x\n}",
    ),
    "MU1050": _entry(
        "clash of symbols",
        "A library exports `mucc_NAME` and `mucc_NAME_workspace` for each kernel, `mucc_last_error` and "
        "`mucc_manifest`. The name of this kernel would give one of these symbols a second meaning.",
        "kernel manifest[M](x: bf16[M]) -> bf16[M] {\n    return x\n}",
        _GOOD,
    ),
}

CODES: dict[str, tuple[str, str]] = {**_SYNTAX, **_NAMES, **_SHAPES, **_PROGRAM}
"""Title and explanation of every code."""
