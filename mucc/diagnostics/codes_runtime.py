"""Codes of the run time (MU603x and later): loading a kernel library, arguments in Python, `mucc run`."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU6030": CodeInfo(
        "the kernel library cannot be read",
        """
There is no such file, it is a folder, or reading it is not permitted.

Mend the path; `mucc kernel.mcu -o kernel.so` makes the file.
""",
    ),
    "MU6031": CodeInfo(
        "the file is not a shared library, or it is cut off",
        """
A kernel library is a 64-bit ELF shared object. This file has another format, or it ends before its own
headers say: a copy or download that broke off, a full disk.

Mend it by building or copying the file again.
""",
    ),
    "MU6032": CodeInfo(
        "the library is for another processor",
        """
The host half of a kernel library is machine code for one processor architecture (x86-64 or aarch64).

Mend it by compiling the program on the kind of machine that is to run it, or with `--host aarch64-linux-gnu`.
""",
    ),
    "MU6033": CodeInfo(
        "the library was not made by mucc",
        """
The file is a shared library but holds no mucc manifest (ELF section `.mucc_manifest`). It was not loaded:
loading runs code.

Mend it by passing a file that `mucc -o` wrote. Do not `objcopy -R` or `sstrip` it; plain `strip` is fine.
""",
    ),
    "MU6034": CodeInfo(
        "the library is of another ABI version",
        """
The number `abi` in the manifest says how arguments are passed. This mucc does not know the library's number.

Mend it by compiling the program again with this mucc, or by installing the mucc that the message names.
""",
    ),
    "MU6035": CodeInfo(
        "the manifest is corrupt",
        """
The manifest inside the library is no JSON, or lacks what every manifest holds. The file was changed after
it was built.

Mend it by building the file again.
""",
    ),
    "MU6036": CodeInfo(
        "the library cannot be loaded",
        """
The system's loader refused the file, or a function that the manifest names is not in it. The message holds
the loader's reason; a missing `libstdc++.so.6` symbol means that the library was built with a newer g++.

Mend it by building the file on this machine.
""",
    ),
    "MU6037": CodeInfo(
        "no such kernel in the library",
        """
A library holds the kernels of one program, under their names: `mod.kernels` lists them.

Mend the name; with one kernel only, `mod.kernels[0]` is it.
""",
    ),
    "MU6040": CodeInfo(
        "the arguments of a call do not fit the signature",
        """
A Python call names parameters as the source does. A name was unknown, given twice or left out, or the wrong
number of outputs came in `out=`.

```python
y = mod.linear(x, w=w, b=b)            # by position or by name
mod.linear(x, w, b, out=y)             # one output
mod.two(x, out=(y, amax))              # several
```
""",
    ),
    "MU6041": CodeInfo(
        "an argument is not a torch tensor",
        """
`kernel(...)` allocates outputs with torch and takes torch tensors. Other frameworks' arrays go through
`kernel.launch(*inputs, *outputs)`, which takes anything with `__dlpack__` on a CUDA device, and JAX's through
`kernel.jax(*inputs)`.

NumPy's arrays lie in main memory, where kernels cannot read: copy them to the GPU first.

```python
y = mod.linear(torch.from_numpy(x).cuda(), w, b).cpu().numpy()
mod.linear.launch(cupy.asarray(x), w, b, y)
```
""",
    ),
    "MU6042": CodeInfo(
        "torch is not installed",
        """
`kernel(...)` and `kernel.op` allocate with torch, which mucc does not install by itself.

Mend it with `pip install torch`, or allocate the outputs yourself and call `kernel.launch(...)`.
""",
    ),
    "MU6043": CodeInfo(
        "numbers cannot be packed",
        """
`mucc.pack_s4` puts two whole numbers from -8 to 7 into a byte, `mucc.pack_u4` two from 0 to 15, so they take
integers, and an even number of them along the last axis. `mucc.unpack_s4` and `mucc.unpack_u4` take such
bytes, uint8 or int8.

```python
w = torch.randint(-8, 8, (n, k), dtype=torch.int8)
y = mod.linear(x, mucc.pack_s4(w), scales)      # for `w: s4[N, K]`: bytes [n, k/2]
```
""",
    ),
    "MU6044": CodeInfo(
        "the lists of a call do not fit",
        """
A kernel that is declared `kernel each` takes lists: one item for each problem, in every list as many. What is
no list is the same for all problems.

```python
ys = mod.linear(xs, ws, b)             # xs and ws of one length, b for all of them
mod.linear(xs, ws, b, out=ys)
```
""",
    ),
    "MU6045": CodeInfo(
        "JAX cannot call a kernel",
        """
`kernel.jax` makes a function for JAX by way of the package jax-tvm-ffi. XLA passes arrays that are contiguous
row by row, so a kernel with numbers by value (`alpha: f32`), with `col_major`, `strides` or `sparse` cannot
be called.

Install the package (`pip install jax-tvm-ffi`); declare a number as `f32[]`, an array of one element, and a
matrix in its order of memory, with `.T` in the program.
""",
    ),
    "MU6050": CodeInfo(
        "the dims cannot be read",
        """
`--dims` is a list of `NAME=NUMBER`, separated by commas: `--dims M=4096,N=4096,K=4096`. Numbers are at
least 1; each name comes once. Where schedules are chosen, `NAME=FIRST..LAST` is a range of sizes.
""",
        status=ExitStatus.USAGE,
    ),
    "MU6051": CodeInfo(
        "a dim is missing or unknown",
        """
`mucc run` needs a value for every dim that the kernel leaves open. Everywhere else `--dims` gives typical
sizes, for as many dims as you like. Either way a name has to be a dim of a kernel.

Mend it by naming the dims that the message lists. A dim that the source binds (`K=4096`) may be left out.
""",
        status=ExitStatus.USAGE,
    ),
    "MU6052": CodeInfo(
        "the dims break a promise of the kernel",
        """
The kernel promises a condition (`where K % 8 == 0`), its schedule needs one, or the source binds the dim to
another number.

Mend it by choosing dims that keep the promise.
""",
        status=ExitStatus.USAGE,
    ),
    "MU6053": CodeInfo(
        "which kernel to run is not clear",
        """
The file holds several kernels, or none. MU5406 is for a name that no kernel of the file has.

Mend it with `--kernel NAME`.
""",
        status=ExitStatus.USAGE,
    ),
    "MU6060": CodeInfo(
        "the result differs from the interpreter",
        """
`mucc run` computed every output a second time in float64, with bounds of what kernels may lose, and found
elements beyond them, or a value that is not finite where the reference is. docs/runtime.md says how elements
are judged; the report shows the worst one.

This is a defect of mucc: please report it with the program, the dims and the seed that the run printed.
""",
    ),
    "MU6080": CodeInfo(
        "a matrix without the 2:4 pattern",
        """
`mucc.sparsify` packs a matrix of which every 4 neighbours along a row (2 of f32) have at most 2 (1) values
that are not zero; the message names the first that have more.

```python
packed = mucc.sparsify(w)                # w was pruned in training
packed = mucc.sparsify(w, prune=True)    # drops the smaller two of every four
```

Mend it by pruning the weights, which changes results: models are usually trained on after that.
""",
    ),
    "MU6081": CodeInfo(
        "an array that cannot be packed or unpacked",
        """
`mucc.sparsify` takes a matrix of 8-, 16- or 32-bit numbers with more than one row, whose columns are a
multiple of 32, 16 or 8: stored rows, half of the matrix, are multiples of 16 bytes. `mucc.densify` takes
what it gives, as it is: a copy by `.clone()`, `.contiguous()` or `.to(...)` has no metadata.

Mend it by padding the columns with zeros, in the other operand of the product too; or pack again where the
weights are to be used.
""",
    ),
    "MU6071": CodeInfo(
        "a kernel cannot be written in PyTorch",
        """
`mucc bench --against torch` writes the program in PyTorch as somebody would by hand. Some operations, and
parameters that are sparse or packed, have no short form there.

```
$ mucc bench examples/w4a16.mcu --dims M=16,N=4096,K=4096 --against torch
             µs   of mucc     error
mucc       9.10      1.00   2.1e-03
torch         -  w4a16 cannot be written in PyTorch: there is no short form for 'dequantize' as it is used
```

The other contenders are timed all the same.

A file `w4a16.torch.py` with `def w4a16(...)` beside the program takes its place.
""",
    ),
    "MU6070": CodeInfo(
        "the device that was asked for is not there",
        """
`--device cuda` needs torch with CUDA and a GPU that the kernel was compiled for.

Without `--device` the run falls back to checking the lowered program on the CPU, and says so.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
}
