"""The codes of the frontend: MU1 names, types and shapes.

Every explanation holds a program that triggers its code and a mended one; the tests run both.
"""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.examples import GOOD, body, entry

_NAMES: dict[str, CodeInfo] = {
    "MU1001": entry(
        "unknown name",
        "The name is neither a parameter nor a value that was named earlier in the kernel. A function sees "
        "its own parameters and values only.",
        body("return z"),
        body("return x"),
    ),
    "MU1002": entry(
        "unknown function",
        "There is no function of this name in the language, which `mucc docs --card` lists, and the program "
        "defines none (`fn`).",
        body("return swish(x)"),
        body("return silu(x)"),
    ),
    "MU1003": entry(
        "name defined twice",
        "Dims, parameters and values of a kernel share one set of names, and each is defined once; so "
        "are the kernels and functions of a program.",
        body("x = relu(x)\nreturn x"),
        body("h = relu(x)\nreturn h"),
    ),
    "MU1005": entry(
        "undeclared dim",
        "Every dim stands in the list behind the kernel's name.",
        "kernel f[M](x: bf16[M, N]) -> bf16[M, N] {\n    return x\n}",
        "kernel f[M, N](x: bf16[M, N]) -> bf16[M, N] {\n    return x\n}",
    ),
    "MU1006": entry(
        "dim that no parameter has",
        "The value of a run-time dim is read off the arguments, so some parameter must have it as an extent.",
        "kernel f[M, N](x: bf16[M]) -> bf16[M] {\n    return x\n}",
        GOOD,
    ),
    "MU1007": entry(
        "wrong number of arguments",
        "The call has too few or too many arguments; the note shows the signature.",
        body("return relu(x, y)"),
        body("return relu(x)"),
    ),
    "MU1008": entry(
        "unknown keyword argument",
        "The function has no parameter of this name. The note gives its signature.",
        body("return x - max(x, dim=1, keepdims=on)"),
        body("return x - max(x, axis=1, keepdims=on)"),
    ),
    "MU1009": entry(
        "argument given twice",
        "A parameter is given by position and by keyword, or twice by keyword.",
        body("return clamp(x, 0, lo=1, hi=2)"),
        body("return clamp(x, lo=1, hi=2)"),
    ),
    "MU1010": entry(
        "unfitting argument",
        "The parameter takes something else: a number known at compile time, one of a few words, an axis, or "
        "a value. 16-bit operands of a contraction compute in their own format, f32 operands in tf32, tf32x3 "
        "or f32.",
        body("return leaky_relu(x, slope=s)"),
        body("return leaky_relu(x, slope=0.2)"),
    ),
    "MU1011": entry(
        "wrong number of results",
        "`return` gives as many values as the signature declares results.",
        body("return x, y"),
        body("return x + y"),
    ),
    "MU1012": entry(
        "shape differs from the declared one",
        "A returned value must have exactly the shape that the signature declares for it, and a value with a "
        "type must have the shape of that type. Nothing is broadcast here.",
        body("return b[:, None]"),
        body("return x + b[:, None]"),
    ),
    "MU1013": entry(
        "unused parameter",
        "A warning: nothing in the kernel reads the parameter. A name that begins with `_` is not reported.",
        "kernel f[M](x: bf16[M], y: bf16[M]) -> bf16[M] {\n    return x\n}",
        "kernel f[M](x: bf16[M], _y: bf16[M]) -> bf16[M] {\n    return x\n}",
    ),
    "MU1014": entry(
        "unused value",
        "A warning: the value is computed and never read. A name that begins with `_` is not reported.",
        body("h = relu(x)\nreturn x"),
        body("h = relu(x)\nreturn h"),
    ),
    "MU1015": entry(
        "scalar in place of a tensor, or the other way round",
        "A type without brackets is a scalar that is passed by value; it has the type f32. Results and "
        "stages "
        "are stored and therefore tensors: `f32[]` is a tensor that holds one number.",
        "kernel f[M](x: f32[M]) -> f32 {\n    return sum(x)\n}",
        "kernel f[M](x: f32[M]) -> f32[] {\n    return sum(x)\n}",
    ),
    "MU1016": entry(
        "unfitting layout",
        "`col_major` swaps the last two axes and needs two; `strides(...)` gives one stride per axis. Only "
        "parameters have a layout: results are row-major, and what lies between is the compiler's choice.",
        "kernel f[M](x: bf16[M] strides(_, 1)) -> bf16[M] {\n    return x\n}",
        "kernel f[M](x: bf16[M] strides(1)) -> bf16[M] {\n    return x\n}",
    ),
    "MU1017": entry(
        "bool where a number is stored",
        "Tensors in memory hold numbers. Make one of a condition with `where(c, 1, 0)` or `cast(c, f32)`.",
        body("return x > y"),
        body("return where(x > y, 1, 0)"),
    ),
    "MU1018": entry(
        "too many indices",
        "An index has one integer or slice for each axis of the value at most, `...` once at most, and any "
        "number of `None`.",
        body("return x + b[:, :, None]"),
        body("return x + b[:, None]"),
    ),
    "MU1019": entry(
        "name of a type or function",
        "`bf16`, `f16`, `f32` and the others are types and cannot name a dim, a parameter or a value. A "
        "function that a program defines has a name that no function of the language has.",
        body("f32 = relu(x)\nreturn f32"),
        body("h = relu(x)\nreturn h"),
    ),
}

_SHAPES: dict[str, CodeInfo] = {
    "MU1020": entry(
        "shapes do not broadcast",
        "Shapes are aligned at their last axes, as in NumPy. Two extents agree when they are the same "
        "dim, the "
        "same number, or one of them is 1. A vector with one element per row needs a new axis: `b[:, None]`.",
        body("return x + b"),
        body("return x + b[:, None]"),
    ),
    "MU1021": entry(
        "arithmetic on a bool",
        "A comparison gives a bool, which `where`, `and`, `or` and `not` take. To compute with it, make a "
        "number of it.",
        body("return (x > 0) * x"),
        body("return where(x > 0, x, 0)"),
    ),
    "MU1022": entry(
        "number in place of a bool",
        "`and`, `or`, `not` and the first argument of `where` take bools, which comparisons give.",
        body("return where(x, x, y)"),
        body("return where(x != 0, x, y)"),
    ),
    "MU1023": entry(
        "contraction of a vector",
        "The operands of `@` have at least two axes. `v[:, None]` makes a column of a vector, `v[None, "
        ":]` a row.",
        body("return x @ b"),
        body("return x * b[:, None]"),
    ),
    "MU1024": entry(
        "inner extents of a contraction differ",
        "In `a @ b` the last extent of `a` is the second-last one of `b`. A weight stored as `[N, K]` is "
        "transposed with `.T`.",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w.T\n}",
    ),
    "MU1025": entry(
        "operands of a contraction have different dtypes",
        "The tensor cores multiply operands of one dtype; e4m3 with e5m2, s8 with u8, and "
        "bf16 or f16 with all of these besides. Convert one of them with `cast`.",
        "kernel f[M, N, K](x: bf16[M, K], w: f16[K, N]) -> bf16[M, N] {\n    return x @ w\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: f16[K, N]) -> bf16[M, N] {\n    return x @ cast(w, bf16)\n}",
    ),
    "MU1060": entry(
        "dtype that cannot be multiplied",
        "Tensor cores multiply bf16, f16, f32 (as tf32), e4m3, e5m2, s8 and u8. s32 is what products of "
        "integers are added up in.",
        "kernel f[M, N, K](x: s32[M, K], w: s32[N, K]) -> s32[M, N] {\n    return x @ w.T\n}",
        "kernel f[M, N, K](x: s32[M, K], w: s32[N, K]) -> s32[M, N] {\n"
        "    return cast(x, f32) @ cast(w.T, f32)\n}",
    ),
    "MU1061": entry(
        "unsupported accumulation format",
        "`acc=fast` leaves the sums of products of e4m3 and e5m2 to the tensor cores, which keep fewer bits "
        "than f32 has. Products of other floats have one way to be added up, in f32, and products of "
        "integers one, in s32.",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n"
        "    return matmul(x, w.T, acc=fast)\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return matmul(x, w.T)\n}",
    ),
    "MU1062": entry(
        "scales do not fit",
        "Scales and zeros of quantised weights `[N, K]` have the rows of the weights, and one column for "
        "each group of their columns: `[N, K/128]`. `K/128` is an extent of its own; every call is checked "
        "for K being 128 times as large. Where K is bound the groups must fill it.",
        "kernel f[M, N, K, G](x: bf16[M, K], w: s8[N, K], s: bf16[N, G]) -> bf16[M, N] {\n"
        "    return x @ dequantize(w, s).T\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: s8[N, K], s: bf16[N, K/128]) -> bf16[M, N] {\n"
        "    return x @ dequantize(w, s).T\n}",
    ),
    "MU1063": entry(
        "extent does not divide",
        "An extent such as `K/128` is a whole number: dims that are bound must make it one.",
        "kernel f[N, K=100](w: s8[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
        "kernel f[N, K=128](w: s8[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
    ),
    "MU1064": entry(
        "these weights cannot be dequantised",
        "`dequantize(w, scales, zeros)` takes row-major weights of e4m3, e5m2, s8, u8, s4 or u4, and scales "
        "of bf16, f16 or f32; the result has the dtype of the scales.",
        "kernel f[N, K](w: bf16[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
        "kernel f[N, K](w: s8[N, K], s: bf16[N, K/64]) -> bf16[N, K] {\n    return dequantize(w, s)\n}",
    ),
    "MU1066": entry(
        "numbers that share bytes are parameters only",
        "Two s4, or u4, share a byte along the last axis of a parameter, the first one in its low half, so "
        "that axis is contiguous and of even extent. Kernels read such numbers, as f32 or as weights, but "
        "write none.",
        "kernel f[N, K](w: s4[N, K]) -> s4[N, K] {\n    return w\n}",
        "kernel f[N, K](w: s4[N, K]) -> s8[N, K] {\n    return w\n}",
    ),
    "MU1070": entry(
        "operands of a grouped product have other axes",
        "`grouped_matmul(x, w, offsets)` takes the rows of all groups one after the other, `[T, K]`, a "
        "matrix for each group, `[E, K, N]`, and the ends of the groups, `[E]`.",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[N, K], o: s32[E]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
    ),
    "MU1071": entry(
        "another number of offsets than of matrices",
        "`offsets[g]` is the end of group g, as in `torch._grouped_mm`: group g has the rows from "
        "`offsets[g-1]` (0 for the first) up to `offsets[g]`, and the matrix `w[g]`.",
        "kernel f[T, E, F, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[F]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o)\n}",
    ),
    "MU1072": entry(
        "index is not s32",
        "Offsets and numbers of rows are tensors of s32.",
        "kernel f[T, M, N](x: bf16[T, N], rows: f32[M]) -> bf16[M, N] {\n    return gather(x, rows)\n}",
        "kernel f[T, M, N](x: bf16[T, N], rows: s32[M]) -> bf16[M, N] {\n    return gather(x, rows)\n}",
    ),
    "MU1073": entry(
        "no rows to gather or to scatter",
        "gather and scatter move what lies along the first axis of a tensor of numbers, take_along elements "
        "along any axis.",
        "kernel f[T, M, N](x: bf16[T, N], rows: s32[M]) -> bf16[M, N] {\n"
        "    return cast(gather(x > 0, rows), bf16)\n}",
        "kernel f[T, M, N](x: bf16[T, N], rows: s32[M]) -> bf16[M, N] {\n"
        "    return cast(gather(x, rows) > 0, bf16)\n}",
    ),
    "MU1074": entry(
        "scatter of other rows than it has numbers for",
        "`scatter(x, rows, T)` gives T rows: row i of x becomes row `rows[i]`, the others are zero. So there "
        "is one number for each row of x.",
        "kernel f[T=64, M, P, N](x: bf16[M, N], rows: s32[P]) -> bf16[T, N] {\n"
        "    return scatter(x, rows, T)\n}",
        "kernel f[T=64, M, N](x: bf16[M, N], rows: s32[M]) -> bf16[T, N] {\n"
        "    return scatter(x, rows, T)\n}",
    ),
    "MU1075": entry(
        "scale or bias of groups does not fit",
        "`grouped_matmul(x, w, offsets, scale=s, bias=b)` takes a number for each group, `s: f32[E]`, and a "
        "row for each group, `b: bf16[E, N]`. What holds for all groups or for single rows is plain "
        "arithmetic on the product.",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E], b: bf16[N]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o, bias=b)\n}",
        "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E], b: bf16[N]) -> bf16[T, N] {\n"
        "    return grouped_matmul(x, w.T, o) + b\n}",
    ),
    "MU1065": entry(
        "block scales do not fit",
        "Products of e4m3 and e5m2 take f32 scales for blocks of both operands: each scale holds for 128 "
        "elements along K, and for one row or 128 rows of A, one column or 128 columns of B.",
        "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/64], b: f32[N/128, K/64])\n"
        "    -> bf16[M, N]\n{\n    return matmul(x, w.T, scale_a=a, scale_b=b)\n}",
        "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128], b: f32[N/128, K/128])\n"
        "    -> bf16[M, N]\n{\n    return matmul(x, w.T, scale_a=a, scale_b=b)\n}",
    ),
    "MU1080": entry(
        "sparse matrix beyond a product",
        "Of a `sparse` parameter only the values that the 2:4 pattern leaves are in memory, in the order in "
        "which matrix instructions want them. Nothing but `@` reads that, directly or through `.T`.",
        "kernel f[N, K](w: bf16[N, K] sparse) -> bf16[N, K] {\n    return relu(w)\n}",
        "kernel f[N, K](w: bf16[N, K]) -> bf16[N, K] {\n    return relu(w)\n}",
    ),
    "MU1081": entry(
        "unsupported product of a sparse matrix",
        "A sparse matrix is one of the two operands of a product of two matrices of one dtype. The pattern "
        "lies along its rows, and these along K: `x @ w.T` with `w: bf16[N, K] sparse`, or `w @ x` with "
        "`w: bf16[M, K] sparse`.",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[K, N] sparse) -> bf16[M, N] {\n    return x @ w\n}",
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K] sparse) -> bf16[M, N] {\n    return x @ w.T\n}",
    ),
    "MU1082": entry(
        "tensor that cannot be sparse",
        "A sparse tensor is a matrix of more than one row, of numbers of 8, 16 or 32 bits. Stored rows, half "
        "of the matrix, are multiples of 16 bytes: its columns are a multiple of 32 (8 bits), 16 (16 bits) "
        "or 8 (f32). A dim that is known only at run time becomes a promise.",
        "kernel f[M, N](x: bf16[M, 40], w: bf16[N, 40] sparse) -> bf16[M, N] {\n    return x @ w.T\n}",
        "kernel f[M, N](x: bf16[M, 48], w: bf16[N, 48] sparse) -> bf16[M, N] {\n    return x @ w.T\n}",
    ),
    "MU1090": entry(
        "reshape to another number of elements",
        "`reshape(x, (M, 8))` keeps the elements, in row-major order. That there are as many of them must "
        "show: both shapes have the same run-time dims, and the products of their numbers are equal.",
        "kernel f[M](x: bf16[M, 4, 6]) -> bf16[M, 20] {\n    return reshape(x, (M, 20))\n}",
        "kernel f[M](x: bf16[M, 4, 6]) -> bf16[M, 24] {\n    return reshape(x, (M, 24))\n}",
    ),
    "MU1091": entry(
        "extent that must be a number",
        "The extent of the result follows from the operand's by a formula that rounds, so the operand's must "
        "be a number, written as one, or a dim that is bound to one.",
        "kernel f[M, N](x: bf16[M, 8, N]) -> bf16[M, 8, 32] {\n    return max_pool(x, 2)\n}",
        "kernel f[M, N=64](x: bf16[M, 8, N]) -> bf16[M, 8, 32] {\n    return max_pool(x, 2)\n}",
    ),
    "MU1092": entry(
        "operand with too few axes",
        "The function works along axes of a tensor, and its operand does not have as many; or it is of 4 "
        "bits, whose elements share bytes.",
        "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return tril(x)\n}",
        "kernel f[M](x: bf16[M, M]) -> bf16[M, M] {\n    return tril(x)\n}",
    ),
    "MU1093": entry(
        "index that does not fit",
        "An integer is one of the extent, from 0, or from the end as -1, -2. A slice takes at least one "
        "element: `start:stop:step` begins at `start`, ends before `stop`, and cuts off what is beyond the "
        "ends, as in NumPy; its step is not 0.",
        "kernel f[M](x: bf16[M, 8]) -> bf16[M] {\n    return x[:, 8]\n}",
        "kernel f[M](x: bf16[M, 8]) -> bf16[M] {\n    return x[:, 7]\n}",
    ),
    "MU1097": entry(
        "index that is a value",
        "An index is an integer that is known at compile time. Where a tensor says what is taken, "
        "`gather(x, rows)` takes rows by number, and `take_along(x, index, axis=1)` elements of an axis.",
        "kernel f[M, T](x: bf16[M, 8], rows: s32[T]) -> bf16[T, 8] {\n    return x[rows]\n}",
        "kernel f[M, T](x: bf16[M, 8], rows: s32[T]) -> bf16[T, 8] {\n    return gather(x, rows)\n}",
    ),
    "MU1094": entry(
        "tensors that cannot be concatenated",
        "Tensors lie one after the other along one axis; all their other extents are the same.",
        "kernel f[M](x: bf16[M, 8], y: bf16[8, M]) -> bf16[M, 16] {\n    return concat(x, y, axis=1)\n}",
        "kernel f[M](x: bf16[M, 8], y: bf16[8, M]) -> bf16[M, 16] {\n    return concat(x, y.T, axis=1)\n}",
    ),
    "MU1095": entry(
        "wrong number of integers",
        "The argument has one integer for each axis that it is about.",
        "kernel f[M](x: bf16[M, 4, 8]) -> bf16[M, 8, 4] {\n    return permute(x, (0, 2))\n}",
        "kernel f[M](x: bf16[M, 4, 8]) -> bf16[M, 8, 4] {\n    return permute(x, (0, 2, 1))\n}",
    ),
    "MU1096": entry(
        "padding that does not fit",
        "A tensor is padded by 0 elements or more on each side; `reflect` takes them from its inside, so "
        "that there are fewer of them than elements, and `circular` from its other end.",
        "kernel f[M](x: bf16[M, 4]) -> bf16[M, 9] {\n    return pad(x, 5, 0, mode=reflect)\n}",
        "kernel f[M](x: bf16[M, 4]) -> bf16[M, 7] {\n    return pad(x, 3, 0, mode=reflect)\n}",
    ),
    "MU1100": entry(
        "operands of a convolution or pooling do not fit",
        "`conv(x, w)` takes x `[N, C, ...]` with 1 to 3 spatial axes and w `[O, C/groups, ...]` with as "
        "many; both numbers of channels divide into groups. `conv_transpose` takes w `[C, O/groups, ...]`.",
        "kernel f[N](x: bf16[N, 8, 16], w: bf16[4, 4, 3]) -> bf16[N, 4, 14] {\n    return conv(x, w)\n}",
        "kernel f[N](x: bf16[N, 8, 16], w: bf16[4, 8, 3]) -> bf16[N, 4, 14] {\n    return conv(x, w)\n}",
    ),
    "MU1101": entry(
        "window that does not fit",
        "A window of k elements, d apart, reaches over d * (k - 1) + 1 elements, and the axis with its "
        "padding has fewer; or padding is more than half of a pooling window; or an axis with its padding "
        "and a few strides behind it has more positions than 32 bits hold.",
        "kernel f[N](x: bf16[N, 8, 4]) -> bf16[N, 8, 1] {\n    return max_pool(x, 5)\n}",
        "kernel f[N](x: bf16[N, 8, 4]) -> bf16[N, 8, 1] {\n    return max_pool(x, 4)\n}",
    ),
    "MU1102": entry(
        "convolution of dtypes that do not fit",
        "Both operands of a convolution are bf16, f16, f32, e4m3 or s8, and of one dtype. The result is of "
        "that dtype too, or f32 where operands are e4m3 or s8; sums are f32.",
        "kernel f[N](x: f32[N, 8, 9], w: bf16[4, 8, 3]) -> f32[N, 4, 7] {\n    return conv(x, w)\n}",
        "kernel f[N](x: f32[N, 8, 9], w: bf16[4, 8, 3]) -> f32[N, 4, 7] {\n"
        "    return conv(x, cast(w, f32))\n}",
    ),
    "MU1103": entry(
        "operands of attention do not fit",
        "`attention(q, k, v)` takes queries `[.., M, D]`, keys `[.., N, D]` and values `[.., N, E]` of one "
        "dtype (bf16, f16 or f32); a mask broadcasts to `[.., M, N]`.",
        "kernel f[M, N](q: f16[M, 64], k: f16[N, 32], v: f16[N, 64]) -> f16[M, 64] {\n"
        "    return attention(q, k, v)\n}",
        "kernel f[M, N](q: f16[M, 64], k: f16[N, 64], v: f16[N, 64]) -> f16[M, 64] {\n"
        "    return attention(q, k, v)\n}",
    ),
    "MU1104": entry(
        "index that does not lie along the axis",
        "`take_along(x, index, axis)` picks one element of x for each of the index, in the same row: all "
        "extents but that of the axis are the same.",
        "kernel f[M](x: f32[M, 8], i: s32[M]) -> f32[M, 1] {\n    return take_along(x, i, axis=1)\n}",
        "kernel f[M](x: f32[M, 8], i: s32[M]) -> f32[M, 1] {\n"
        "    return take_along(x, i[:, None], axis=1)\n}",
    ),
    "MU1105": entry(
        "topk of more elements than there are",
        "`topk(x, k, axis)` and `argtopk` take at least 1 element, and at most all along the axis.",
        "kernel f[M](x: f32[M, 8]) -> f32[M, 9] {\n    return topk(x, 9)\n}",
        "kernel f[M](x: f32[M, 8]) -> f32[M, 8] {\n    return topk(x, 8)\n}",
    ),
    "MU1106": entry(
        "dropout probability out of range",
        "`dropout(x, p, seed)` drops the share p of the elements, 0 <= p < 1, and divides the others by "
        "1 - p.",
        "kernel f[M](x: f32[M], s: s32[]) -> f32[M] {\n    return dropout(x, 1, s)\n}",
        "kernel f[M](x: f32[M], s: s32[]) -> f32[M] {\n    return dropout(x, 0.1, s)\n}",
    ),
    "MU1107": entry(
        "seed is not an integer of 32 bits",
        "Random numbers depend on a seed and a stream, which are words of 32 bits. A seed that callers give "
        "is a tensor on the device, so that a CUDA graph draws new numbers when it changes.",
        "kernel f[M](x: f32[M], s: f32) -> f32[M] {\n    return dropout(x, 0.1, s)\n}",
        "kernel f[M](x: f32[M], s: s32[]) -> f32[M] {\n    return dropout(x, 0.1, s)\n}",
    ),
    "MU1026": entry(
        "batch extents of a contraction differ",
        "The axes before the last two broadcast against each other: equal, or 1.",
        "kernel f[B, C, M, N, K](x: bf16[B, M, K], w: bf16[C, K, N]) -> bf16[B, M, N] {\n    return x @ w\n}",
        "kernel f[B, M, N, K](x: bf16[B, M, K], w: bf16[B, K, N]) -> bf16[B, M, N] {\n    return x @ w\n}",
    ),
    "MU1027": entry(
        "transpose of a vector",
        "`.T` swaps the last two axes, so there must be two.",
        body("return x + b.T"),
        body("return x + b[:, None]"),
    ),
    "MU1028": entry(
        "axis out of range",
        "Axes count from 0, or from the end as -1, -2; each is named once.",
        body("return x - sum(x, axis=2)"),
        body("return x - sum(x, axis=1)[:, None]"),
    ),
    "MU1029": entry(
        "quotient of integers",
        "The quotient of two integers is no integer. `floor_divide(x, 2)` rounds it down. Where an f32 is "
        "meant, make one of either operand; stored as an integer it is rounded to the nearest one, ties to "
        "even.",
        "kernel f[M](x: s32[M]) -> s32[M] {\n    return x / 2\n}",
        "kernel f[M](x: s32[M]) -> s32[M] {\n    return floor_divide(x, 2)\n}",
    ),
    "MU1030": entry(
        "bits of a value that is no integer",
        "`bitwise_and` and the other functions of bits take integers, and give s32. Floats are converted by "
        "`cast(x, s32)`, which rounds to the nearest integer; conditions are joined by `and`, `or` and "
        "`not`.",
        "kernel f[M](x: f32[M]) -> s32[M] {\n    return bitwise_and(x, 7)\n}",
        "kernel f[M](x: f32[M]) -> s32[M] {\n    return bitwise_and(cast(x, s32), 7)\n}",
    ),
}

CODES: dict[str, CodeInfo] = {**_NAMES, **_SHAPES}
"""Title and explanation of every code."""
