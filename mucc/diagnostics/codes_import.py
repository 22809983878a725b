"""MU70: importing PyTorch modules."""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU7001": CodeInfo(
        "torch is not installed",
        """
`mucc import` runs a problem file in PyTorch, so torch has to be there. mucc does not install it by itself.

```
$ mucc import problem.py
error[MU7001]: importing from PyTorch needs torch
  = help: pip install torch
```

The CPU build is enough: `pip install torch --index-url https://download.pytorch.org/whl/cpu`.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU7010": CodeInfo(
        "a problem file is not valid Python",
        """
The file could not be parsed; the message has Python's reason and the line.

```
$ echo "class Model(" > problem.py; mucc import problem.py
error[MU7010]: problem.py is no Python file: '(' was never closed (line 1)
```
""",
    ),
    "MU7011": CodeInfo(
        "a problem file lacks a part",
        """
A problem file is in KernelBench's format: a class `Model` (a torch.nn.Module), a function `get_inputs()`
that gives a list of the arguments of a call, and a function `get_init_inputs()` that gives those of the
constructor, which may be left out where there are none.

```python
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(128, 256)]
```
""",
    ),
    "MU7012": CodeInfo(
        "a problem file raised an exception",
        """
Something in the file raised while it was loaded, while the module or its inputs were made, or while the
module was traced. The note names the line.

Tensors have shapes but no values then: it costs no memory to import a large module. Run the module on its
inputs in PyTorch to see whether it is sound.

```python
def get_inputs():
    return [torch.rand(128, 256).reshape(3, 5)]   # error[MU7012]: get_inputs() raised RuntimeError: ...
```
""",
    ),
    "MU7013": CodeInfo(
        "importing took too long",
        """
The process that runs the problem file is stopped after a time, 120 s unless `--time-limit` says otherwise.
A loop without end looks like that, and so does a module of many thousand operations: a recurrent network
that is written as a loop over time steps, for example.

```python
while True:        # error[MU7013]: problem.py was not imported within 120 s and was stopped
    pass
```
""",
    ),
    "MU7014": CodeInfo(
        "importing took too much memory",
        """
The problem file may take 8 GiB beside what torch itself takes, unless `--memory-limit` says otherwise. The
module and its inputs take none while a file is imported, whatever their size; what does is real work of the
file: NumPy arrays, lists, or tensors that were loaded. `--verify` needs real tensors; it makes them at
small sizes.

```python
table = [0] * 10**11        # error[MU7014]
```
""",
    ),
    "MU7015": CodeInfo(
        "the process of a problem file ended",
        """
The process that ran the file ended without an answer: a crash in native code, or a call that ends the
process. The note has what was printed last.

```python
import os
os._exit(3)        # error[MU7015]: the process that ran problem.py ended with status 3
```
""",
    ),
    "MU7020": CodeInfo(
        "a module cannot be captured as one graph",
        """
The importer needs the whole forward pass as one graph of operations (torch.export). Control flow that looks
at values of tensors, or shapes that depend on them, have no such graph.

```python
def forward(self, x):
    if x.sum() > 0:        # error[MU7020]
        return x
    return -x
```

Mend it with `torch.where(condition, a, b)`, or take the decision outside of the module.
""",
    ),
    "MU7021": CodeInfo(
        "a part of a module cannot be imported",
        """
The module's graph has something that a driver has no text for: an input or output that is no tensor, number,
tuple, list, dict, named tuple or dataclass of such, or a call with objects of other kinds among its
arguments.

```python
def forward(self, x):
    return Result(x)        # error[MU7021]: return tensors, tuples, lists or dicts
```

Or it changes an argument or a buffer in place that shares memory with another one.
""",
    ),
    "MU7022": CodeInfo(
        "an extent that was to stay open is fixed",
        """
`mucc import --dynamic` leaves extents open where it can. Torch fixes one where the module runs at no other
size; with `--dynamic auto` mucc fixes one where an operation has a kernel for numbers only, such as the
extents that a mean goes over. The message names the argument, the axis and the reason.

```
$ mucc import problem.py --dynamic auto -o problem.mcu
warning[MU7022]: axis 1 of 'x' is 512 in the program: aten.var_mean.correction: MU2010: ...
```

With axes named one by one (`--dynamic x:0=M,x:1=N`) mucc fixes none: such operations stay with PyTorch.
""",
    ),
    "MU7023": CodeInfo(
        "open extents of an import cannot be read",
        """
`--dynamic` takes `auto`, or axes of arguments of the module's `forward`, with the names of their dims.

```
$ mucc import problem.py --dynamic y:0=M
error[MU7023]: 'y' is no tensor among the arguments
  = help: there are: x
  = help: `x:0=M` opens the first axis of argument x, as dim M
```
""",
    ),
    "MU7031": CodeInfo(
        "nothing of a module becomes a kernel",
        """
A warning: mucc compiles none of the module's operations yet, so the driver only calls PyTorch, and no `.mcu`
file is written. `mucc import --list` gives the reason for each operation; with `--whole` the program is
written with all that the language says, for `mucc check --language` and for bounds, compiled or not.
""",
    ),
    "MU7040": CodeInfo(
        "an imported program does not compute what the module does",
        """
`mucc import --verify` runs the module in PyTorch and the imported program in the interpreter, both on the
CPU and on the same random inputs, and compares results, buffers and arguments: |a - b| may be up to 1e-4
(|b| + rms(b), at most 1) in float32, 1e-2 of it in float16, 2e-2 in bfloat16; b is PyTorch's result, or its
result in float64. Where PyTorch's own error is larger, twice that is granted, up to 5% of rms(b).
Inputs that share memory are compared as they are, and with values of their own. Where 16-bit floats are not
rounded between operations (`--round=fused`), what PyTorch gives without such rounding is right too.

A note says where PyTorch's own error is beyond that: such results tell nothing. Otherwise this is a defect of
mucc: please report it with the file.
""",
    ),
    "MU7041": CodeInfo(
        "a problem is too large to be verified",
        """
`--verify` runs large problems at smaller sizes: whole numbers that the file assigns at its top level are
reduced. Here none of the reductions that were tried gives a module that runs, so nothing was compared.

```python
x = torch.rand(32768, 32768)        # in get_inputs(): nothing to reduce
```

Mend it by names at the top level, `rows = 32768`, from which the file makes all sizes.
""",
    ),
    "MU7050": CodeInfo(
        "an argument of a driver is not what was imported",
        """
A program is imported for the shapes and dtypes that `get_inputs()` gave, and its driver checks each call.
Arguments that are neither tensors nor floats are part of the program, with their values.

```python
model = ModelNew()
model(torch.rand(64, 256))        # imported with torch.rand(128, 256): MU7050
```

Mend it by importing the module with inputs of the other shape, or with that extent left open (`--dynamic`).
Of open extents too some are refused: those at which the module would do something else.
""",
    ),
    "MU7051": CodeInfo(
        "a driver's module is in another mode",
        """
Dropout and batch normalisation do other things in training than in evaluation. A module is imported in the
mode in which it is, which is training where nobody called `eval()`, and its driver refuses to run in the
other one.

Mend it with `driver.module.train()` or `driver.module.eval()`, or import the module in the mode that you
want.
""",
    ),
    "MU7052": CodeInfo(
        "a driver has no problem file",
        """
`ModelNew(...)` makes the weights as the problem file does, so it loads that file. It is looked for where it
was at the import, relative to the driver.

Mend it by keeping the files together, or by making the driver around a module: `ModelNew.of(module)`.
""",
    ),
    "MU7053": CodeInfo(
        "a tensor that a driver changes shares memory with another one",
        """
The module changes an argument or a buffer in place. A program reads all its inputs before it changes one, so
a call in which another input lies in the same memory would give other results than PyTorch: its driver
refuses it.

```python
def forward(self, x, y):
    x.mul_(2)
    return x + y

driver(a, a)        # error[MU7053]: the module changes 'x', which shares memory with 'y'
```

Mend it with tensors that lie apart: `driver(a, a.clone())`.
""",
    ),
    "MU7060": CodeInfo(
        "Inductor compiles a graph of torch.compile without mucc, or a part of it",
        """
Something that should have become kernels could not be compiled: the message has the reason. Inductor
compiles it then, as `torch.compile` without a backend does.

```python
model = torch.compile(model, backend="mucc")
model(x)        # MuccWarning: MU7060: Inductor compiles a graph that mucc did not take: MU5101: no nvcc found
```

So it does with all graphs where the version of PyTorch is newer than mucc, and lacks something that the
backend needs: the message names it.

`torch.compile(model, backend=mucc.torch_backend(fallback="error"))` raises the reason instead. Operations
that mucc has no kernels for are no such case: `mucc.explain(model, x)` lists them.
""",
    ),
    "MU7061": CodeInfo(
        "the tensors of a graph of torch.compile are not on a GPU that mucc compiles for",
        """
Kernels run on NVIDIA GPUs, of the targets that `mucc targets` lists. Inductor alone compiles a graph whose
tensors are on the CPU, or on another GPU. It is said once.

```python
model = torch.compile(torch.nn.Linear(64, 64), backend="mucc")
model(torch.rand(8, 64))        # MuccWarning: MU7061
```

Mend it with `model.cuda()` and tensors on the GPU. `mucc.torch_backend(interpret=True)` runs kernels by
mucc's interpreter on tensors anywhere, to see whether they compute what they should.
""",
    ),
    "MU7062": CodeInfo(
        "unknown option of the backend, or a value that it does not take",
        """
The options of `mucc.torch_backend(...)`, and of `torch.compile(model, backend="mucc", options={...})`, are
`target`, `mode`, `compute`, `round`, `schedules`, `fallback`, `regions`, `margin`, `rest`, `measure`,
`verify`, `background`, `sizes`, `interpret`, and those of Inductor (`torch._inductor.list_options()`), which
may also be a dict, `inductor`.

```python
mucc.torch_backend(fallback="never")        # error[MU7062]: fallback='never' is none of 'eager', 'error'
```
""",
    ),
    "MU7063": CodeInfo(
        "PyTorch computes a kernel's result for some arguments",
        """
A kernel of `torch.compile(model, backend="mucc")` refused a call, most often since an open extent was one
that it cannot copy. mucc's interpreter computed it instead, by operations of PyTorch in float64, which is
right and slow. It is said once for each kernel.

```
MuccWarning: MU7063: PyTorch computes 'linear' for some arguments: MU6011: ... requires N % 8 == 0
```

Sizes that stay the same (`torch.compile(..., dynamic=False)`) get kernels of their own, which copy them in
another way.
""",
    ),
    "MU7064": CodeInfo(
        "mucc gains nothing in a graph of torch.compile, as it expects or has measured",
        """
A region of a graph becomes a kernel of mucc only where that is expected to take less time than what Inductor
makes of it. Here no region is: Inductor compiles the graph as `torch.compile` without a backend does.
Nothing is said of graphs that come from Inductor's cache. With the option `verify`, which
`mode="max-autotune"` turns on, the whole graph was timed with mucc and by Inductor alone; the message has
both times, and what is faster runs.

```python
model = torch.compile(model, backend="mucc")
model(x)        # MuccWarning: MU7064: mucc expects to gain nothing in the inference graph ...
```

`mucc.explain(model, x)` lists regions with both times. `mucc.torch_backend(margin=0.0)` takes those with any
gain, `mucc.torch_backend(regions="all")` all that mucc compiles. `verify=False` takes the regions without
timing the graph.
""",
    ),
}
