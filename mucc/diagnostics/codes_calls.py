"""Codes of calls (MU6001-MU6029): they come out of a kernel library itself (`mucc/host.h`), through whichever
entry point it was called.
"""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo

CODES: dict[str, CodeInfo] = {
    "MU6001": CodeInfo(
        "wrong number of arguments",
        """
A kernel takes its parameters in the order of the source, then its outputs, which the caller allocates.
Through tvm-ffi one more argument is allowed at the end: a `uint8` vector on the GPU that serves as
workspace.

```python
mod.linear.launch(x, w)        # error: y is missing
mod.linear.launch(x, w, y)     # good
y = mod.linear(x, w)           # good: allocates y itself
```

Mend it by passing what the message lists. `print(mod.linear)` shows the signature.
""",
    ),
    "MU6002": CodeInfo(
        "an argument is of the wrong kind",
        """
A tensor was expected and something else came, or a number was expected and a GPU tensor came. A parameter
without brackets (`alpha: f32`) is passed by value: a Python number, or a 0-d tensor on the CPU. A parameter
with brackets (`alpha: f32[]`) is a tensor on the GPU, even where it holds one element.

Mend it by passing a tensor for a tensor; `t.item()` makes a number of a one-element tensor, at the price of
waiting for the GPU. To keep the number on the GPU, declare the parameter as `f32[]`.
""",
    ),
    "MU6003": CodeInfo(
        "an argument has the wrong dtype",
        """
Kernels are compiled for the dtypes in the source and convert nothing silently.

Mend it by converting the tensor (`x.to(torch.bfloat16)`), or by declaring the dtype that you have.
""",
    ),
    "MU6004": CodeInfo(
        "an argument has the wrong rank",
        """
The tensor has more or fewer axes than the source declares.

Mend it with `x.reshape(...)`, `x[None]` or `x.flatten(0, 1)`; or declare the parameter with the rank you
have.
""",
    ),
    "MU6005": CodeInfo(
        "an argument is on the wrong device",
        """
All tensors of a call must be on one CUDA device; the kernel runs there. Scalars are the exception: they are
passed by value, from the CPU.

Mend it with `x.to("cuda")` or `x.to(other.device)`.
""",
    ),
    "MU6006": CodeInfo(
        "an argument has the wrong shape",
        """
A dim has one value per call. The first argument that mentions a dim binds it; a later argument with another
extent there is at fault, and so is a tensor whose extent differs from a number in the source or from a dim
that the source binds (`[M, N, K=4096]`).

```
kernel linear[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N]
# x of shape [512, 4096] binds K = 4096; w of shape [1024, 4000] is refused
```

Mend it by passing tensors that agree. A weight that is stored as [K, N] needs `w.T` in the source, not in
the call.
""",
    ),
    "MU6007": CodeInfo(
        "an extent is zero, negative or too large",
        """
Every extent must be from 1 to 2147483647: an empty tensor leaves nothing to compute (and has no address
that the GPU could be given), and CUTLASS counts extents in 32 bits.

Mend it by skipping the call where a batch is empty, or by splitting the tensor.
""",
    ),
    "MU6008": CodeInfo(
        "an argument has the wrong strides",
        """
The tensor does not lie in memory as the source declares; without a layout that is row-major and contiguous.
Slices, transposes and `expand` give views with other strides.

Mend it with `x.contiguous()`, which copies; or declare the layout that you have, which costs nothing:

```
x: bf16[M, K] col_major            // a transposed view of a contiguous [K, M]
x: bf16[M, K] strides(_, 1)        // rows any distance apart
```
""",
    ),
    "MU6009": CodeInfo(
        "an argument is not aligned",
        """
TMA and vector loads need addresses, and the strides between rows, that are multiples of 16 bytes (the
manifest says what each argument needs). Tensors from an allocator are aligned; a slice such as `x[:, 1:]`
may not be.

Mend it with `x.clone()`, or by slicing at a multiple of 8 elements (16-bit types) or 4 (f32).
""",
    ),
    "MU6010": CodeInfo(
        "the kernel cannot run this problem",
        """
CUTLASS refused the problem although every declared condition holds. That is a defect of mucc: a condition is
missing among the promises of the kernel.

Please report it with the program and the shapes. Another tile in the `schedule` may work meanwhile.
""",
    ),
    "MU6011": CodeInfo(
        "a promise about the dims does not hold",
        """
The source promised a condition (`where K % 8 == 0`), or the chosen schedule needs one, and the extents of
this call break it. The message says who asked for it.

Mend it by padding the tensors, or by compiling a variant without the promise: mucc then chooses a kernel that
does without.
""",
    ),
    "MU6012": CodeInfo(
        "the workspace is too small",
        """
In C the caller provides the workspace. `mucc_<kernel>_workspace(args, n)` tells the bytes for
these shapes; it grows with them.

Mend it by asking for the size with the same arguments and allocating that much with `cudaMalloc`.
""",
    ),
    "MU6013": CodeInfo(
        "the workspace is not aligned",
        """
A workspace must start at a multiple of 256 bytes. `cudaMalloc` and the frameworks' allocators give such
addresses; an offset into a larger buffer may not be one.

Mend it by rounding the offset up to a multiple of 256.
""",
    ),
    "MU6014": CodeInfo(
        "a workspace would have to be allocated during stream capture",
        """
A raw tvm-ffi call without a workspace uses a buffer that the library keeps per device and stream. It cannot
grow while the stream is being captured into a CUDA graph.

Mend it by passing a workspace, by one call with the same shapes before the capture, or by calling
through `mucc.load(...)`, which takes the workspace from torch's graph pool.
""",
    ),
    "MU6015": CodeInfo(
        "a data pointer is NULL",
        """
The tensor has a shape but no memory. Freed storages and tensors on torch's `meta` device look like that.

Mend it by allocating the tensor.
""",
    ),
    "MU6016": CodeInfo(
        "a CUDA call failed",
        """
The message holds what was being done and CUDA's own name for the failure. An error such as
`cudaErrorIllegalAddress` may come from earlier work on the GPU, since launches are asynchronous.

Run with `CUDA_LAUNCH_BLOCKING=1`, or under `compute-sanitizer`, to find the launch that is at fault.
""",
    ),
    "MU6017": CodeInfo(
        "the library holds no code for this GPU",
        """
A kernel for `sm_90a` runs on Hopper (H100, H200, GH200) alone: the `a` stands for instructions that other
architectures lack.

Mend it by running on such a GPU, or by compiling with another `--target` where mucc offers one.
""",
    ),
    "MU6018": CodeInfo(
        "no usable GPU or driver",
        """
CUDA found no GPU, or the driver is older than CUDA 13 needs (580).

`nvidia-smi` shows both. Inside a container, start it with `--gpus all`. `mucc run` checks a program without
a GPU.
""",
    ),
    "MU6019": CodeInfo(
        "the workspace argument is not a u8 vector",
        """
The argument after the outputs is the workspace: `torch.empty(bytes, dtype=torch.uint8, device=x.device)`,
or None.

Mend it by passing such a tensor, on the device of the other tensors; `kernel.workspace_bytes(*args)` tells
the size.
""",
    ),
    "MU6020": CodeInfo(
        "no device memory for the workspace",
        """
The workspace of this call could not be allocated.

Mend it by freeing memory, by a smaller problem, or by a schedule that needs none (no `split_k`, no
`stream_k`).
""",
    ),
    "MU6021": CodeInfo(
        "an unexpected C++ exception",
        """
Code in the library threw; its entry point caught it, and nothing was launched. That is a defect of mucc.

Please report it with the program and the message.
""",
    ),
    "MU6022": CodeInfo(
        "offsets decrease",
        """
The ends of the groups of a `grouped_matmul` must not decrease; equal neighbours are an empty group.

Index values lie on the device, so that a kernel can be launched without waiting for it: they are checked
only where the environment has `MUCC_CHECK_INDICES=1` (and always by `mucc run`), before anything is launched.
Without the check nothing outside of the tensors is touched, but rows that belong to no group, or to two,
hold anything.

```python
offsets = torch.cumsum(tokens_per_expert, 0, dtype=torch.int32)
```
""",
    ),
    "MU6023": CodeInfo(
        "offsets do not end with the rows",
        """
The last group of a `grouped_matmul` must end with the last row: `offsets[-1]` is the number of rows.

Checked as MU6022 is. Without the check, rows after the last group are left as they were.
""",
    ),
    "MU6024": CodeInfo(
        "there is no such row",
        """
The numbers in `gather(x, rows)` and `scatter(x, rows, T)` count rows from 0, those in
`take_along(x, index, axis)` elements along the axis.

Checked as MU6022 is. Without the check, gather and take_along read zeros for such a row, and scatter leaves
it out.
""",
    ),
    "MU6025": CodeInfo(
        "a row is named twice in scatter",
        """
`scatter` puts each row in a place of its own. To add up rows, gather them by an index of two axes and sum:
`sum(gather(y, places), axis=1)`.

Checked as MU6022 is. Without the check, one of the rows is stored, and which one is not determined.
""",
    ),
    "MU6026": CodeInfo(
        "results of a list of problems overlap",
        """
A call of a `kernel each` computes all problems of its lists at the same time, so that each needs memory of
its own for its results. Two of the tensors that it would write share bytes.
""",
    ),
}
