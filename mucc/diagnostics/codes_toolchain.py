"""MU51xx and MU52xx: the toolchain, the environment and the cache; MU52xx are warnings. MU9xxx: defects of
mucc.
"""

from __future__ import annotations

from mucc.diagnostics.code_info import CodeInfo
from mucc.diagnostics.core import ExitStatus

CODES: dict[str, CodeInfo] = {
    "MU5101": CodeInfo(
        "nvcc was not found",
        """
Making a `.so`, PTX or a cubin that is not in the cache needs NVIDIA's compiler. It is looked for, in this
order, at `--nvcc` and MUCC_NVCC, among the pip packages of this Python, at CUDA_HOME and CUDA_PATH, on PATH,
and under `/usr/local/cuda*`.

```
$ mucc kernel.mcu -o kernel.so
error[MU5101]: nvcc was not found
```

`pip install 'mucc[nvcc]'` brings it; nothing needs root. `mucc check` and `--emit=cu` work without it.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5102": CodeInfo(
        "the CUTLASS headers were not found",
        """
The C++ that mucc makes includes CUTLASS 4.2. Its headers are looked for at MUCC_CUTLASS and in the
pip package `nvidia-cutlass`, wherever this Python finds packages (also what PYTHONPATH names).

```
$ MUCC_CUTLASS= mucc kernel.mcu -o kernel.so
error[MU5102]: the CUTLASS headers were not found
```

Mend it with `pip install 'mucc[nvcc]'`, or set MUCC_CUTLASS to a checkout of CUTLASS.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5103": CodeInfo(
        "no host C++ compiler was found",
        """
nvcc leaves the host half of a kernel to a C++ compiler. It is looked for at MUCC_CXX and
NVCC_CCBIN, then as `g++` and `c++` on PATH.

```
$ mucc kernel.mcu -o kernel.so
error[MU5103]: no host C++ compiler was found: nvcc needs one
```

Mend it with `apt-get install g++`, `dnf install gcc-c++` or the like.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5104": CodeInfo(
        "the compilers on this machine cannot build the kernel",
        """
Something was found, but it is incomplete or does not fit together: a header or library of the CUDA
toolchain is missing, nvcc does not know the target, or does not accept the version of the host
compiler; or a tool fails without a word. The notes quote what it said.

```
error[MU5104]: the compilers found on this machine cannot build the kernel
  = note: nvcc fatal   : Unsupported gpu architecture 'compute_90a'
```

`mucc doctor` shows the versions. `pip install 'mucc[nvcc]'` brings a set that fits together;
MUCC_CXX chooses another host compiler.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5105": CodeInfo(
        "a tool that a setting names does not exist",
        """
`--nvcc`, MUCC_NVCC, MUCC_CUTLASS, MUCC_CXX or NVCC_CCBIN was set, but what it names is not there.
mucc does not go on to look elsewhere then: you asked for this one.

```
$ mucc kernel.mcu -o kernel.so --nvcc /opt/cuda
error[MU5105]: --nvcc says '/opt/cuda', but there is no nvcc
```

Mend the path, or remove the setting to let mucc look for itself.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5106": CodeInfo(
        "the compiler ran out of memory",
        """
One CUTLASS kernel takes about 4 GB of main memory to compile. The system ended the compiler because
there was less, or a container's limit was lower.

Mend it by building one kernel at a time, by raising the limit of the container, or on a larger
machine. A `.so` made elsewhere can be copied: it needs nothing of the machine that made it.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5107": CodeInfo(
        "temporary files cannot be written",
        """
The compilers need a directory for temporary files (TMPDIR, else `/tmp`) with about 1 GB free.

```
$ TMPDIR=/nowhere mucc kernel.mcu -o kernel.so --no-cache
```

Mend it by freeing space, or by setting TMPDIR to another directory.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5108": CodeInfo(
        "the compiler took too long",
        """
nvcc did not end within the seconds given with `--timeout`. It was stopped with all its children,
and nothing was written.

```
$ mucc kernel.mcu -o kernel.so --no-cache --timeout 1
error[MU5108]: nvcc did not end within 1 s and was stopped
```

A kernel takes about a minute on a small machine. Mend it by giving more time.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5109": CodeInfo(
        "mucc ran out of memory",
        """
mucc itself, not a compiler that it runs (MU5106), got no more memory. Mostly that is the interpreter, which
computes every element in float64 on the CPU: `mucc run` without a GPU, or with `--device cpu`. It shows as
much with small sizes.

```
$ mucc run kernel.mcu --dims M=100000,N=100000,K=100000 --device cpu
error[MU5109]: interpreting takes 224 GiB and more, and 20 GiB are free
  = help: smaller sizes check the program as well: --dims M=6250,N=6250,K=6250
```
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5110": CodeInfo(
        "a compiler rejected what mucc generated",
        """
Everything that a program can get wrong should be found before nvcc, ptxas or the host compiler
runs. If it was not, that is a defect of mucc, or the versions of nvcc and CUTLASS are not those that
mucc is made for (`mucc doctor` shows them: CUTLASS 4.2, CUDA 13).

`--save-temps` keeps the generated `.cu` and the whole log, `--verbose` prints all of it. Please
report it with the program.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5111": CodeInfo(
        "a compiler crashed",
        """
A signal ended nvcc, ptxas, the host compiler or one of their parts, or a compiler reported an internal
error of its own. The message names it.

```
error[MU5111]: ptxas crashed (SIGSEGV)
  = note: while building gelu.mcu: machine code
```

Run it again: a crash that does not come back points at the machine (memory, disk). One that does is a
defect of that tool, which another version may not have: `mucc doctor` shows the versions.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5112": CodeInfo(
        "the parts of the CUDA compiler are of different releases",
        """
nvcc (with ptxas), its headers (crt), its code generator (nvvm) and the run-time library (cudart) are pip
packages of their own and have to be of one release of CUDA. Installing or upgrading PyTorch changes cudart
alone, since that is all that PyTorch needs: then nvcc stays behind.

```
$ pip install 'mucc[nvcc]' && pip install torch==2.15.0
$ mucc kernel.mcu -o kernel.so
error[MU5112]: the parts of the CUDA compiler are of different releases: nvcc 13.0, …, cudart 13.2
  = help: pip install 'cuda-toolkit[cccl,crt,cudart,nvcc,nvrtc,nvvm]==13.2.*'
```

Run the command of the help. Installing both at once, `pip install 'mucc[nvcc]' torch`, makes them fit from
the start. `mucc doctor` shows the releases.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5119": CodeInfo(
        "a signal interrupted the command",
        """
Ctrl-C (SIGINT), SIGTERM or SIGHUP arrived. The command ended every process that it had started, removed what
was not whole, and wrote nothing more. Its exit status is 128 and the number of the signal: 130, 143 or 129.

```
error[MU5119]: interrupted by SIGINT
```

What was built until then is in the cache, so the same command goes on from there.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5196": CodeInfo(
        "there is no C++ compiler for the other host",
        """
A library for another processor needs a cross compiler for its host half: `aarch64-linux-gnu-g++` for
`--host aarch64-linux-gnu`, on PATH. nvcc needs nothing, since code of the GPU is the same for every host.

```
$ mucc kernel.mcu --host aarch64-linux-gnu -o kernel.so
error[MU5196]: there is no C++ compiler for aarch64-linux-gnu
```

Mend it with `apt-get install g++-aarch64-linux-gnu` or the like.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5197": CodeInfo(
        "there is no CUDA runtime for the other host",
        """
Libraries contain the CUDA runtime, `libcudart_static.a`, and the installed one is for this machine's
processor.

```
$ mucc kernel.mcu --host aarch64-linux-gnu -o kernel.so
error[MU5197]: there is no CUDA runtime for aarch64-linux-gnu: libcudart_static.a is linked into libraries
```

Mend it with the wheel for that host, which is 2 MB: `pip download --no-deps --only-binary=:all: --platform
manylinux2014_aarch64 nvidia-cuda-runtime`, unzip it, and set MUCC_CROSS_CUDART to its `nvidia/cu13/lib`. CUDA
toolkits have it in `targets/sbsa-linux/lib` where their cross packages are installed.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5198": CodeInfo(
        "this build cannot be for another host",
        """
Libraries for another host are built from parts on this machine. nvcc compiles whole programs (`--plain-nvcc`,
`--lineinfo`) for this machine's processor only, and machines of a cluster build for their own.

```
$ mucc kernel.mcu --host aarch64-linux-gnu --plain-nvcc
error[MU5198]: this build cannot be for aarch64-linux-gnu: nvcc compiles a whole program for the processor …
```

Leave out these options, or build on a machine of that kind.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5201": CodeInfo(
        "registers are spilled to memory",
        """
The kernel needs more registers than a thread can have, so ptxas keeps some of its values in local
memory. The result is right, but slow. It happens with a large tile beside an epilogue that holds
many values.

Mend it by choosing a smaller `tile` or `mainloop = cooperative` in the schedule, or by ending the
stage earlier with `stage name = …`.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5202": CodeInfo(
        "ptxas undid an optimisation",
        """
ptxas reported that it serialised `wgmma` instructions or ignored `setmaxnreg` (its codes C7504 to
C7510). The result is right, but the tensor cores wait. mucc avoids what is known to cause it, so
this is worth reporting.

Mend it by choosing another `tile` or `mainloop` in the schedule. A build with device asserts
(without `-DNDEBUG`) always does this.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5203": CodeInfo(
        "the cache cannot be used",
        """
The directory of the cache cannot be read, written or made, or the disk is full. Compiling goes on, but
nothing is kept. A cache that can only be read is used without a word until something is to be stored.

```
$ MUCC_CACHE_DIR=/proc/mucc mucc kernel.mcu -o kernel.so
warning[MU5203]: the cache cannot be written, so nothing is kept
```

Mend it by setting MUCC_CACHE_DIR to a directory that can be written; `--no-cache` says that you
want none. A cache of others that you may only read belongs into MUCC_CACHE_SHARED.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5204": CodeInfo(
        "a damaged cache entry was dropped",
        """
An entry's checksum is wrong: the machine lost power, or something else wrote into the cache. The entry
was removed and is made again, so the output is right. In a cache of MUCC_CACHE_SHARED it is only
passed over.

If it comes again, look for a failing disk; `mucc cache verify` checks every entry, and `mucc cache
clear` starts afresh.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5205": CodeInfo(
        "the size of the cache cannot be used",
        """
MUCC_CACHE_SIZE cannot be understood, and the cache may hold 4 GiB as if it were not set; or it is less
than one entry, which is not kept then.

```
$ MUCC_CACHE_SIZE=lots mucc kernel.mcu -o kernel.so
warning[MU5205]: MUCC_CACHE_SIZE says 'lots', which is no size above 0; the cache may hold 4 GiB
```

Mend it with a number and a unit, such as 500M or 2G (powers of 1024). `--no-cache` keeps nothing.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5206": CodeInfo(
        "a shared cache cannot be read",
        """
MUCC_CACHE_SHARED names a directory that is not there, or that may not be read. Compiling goes on
without it.

```
$ MUCC_CACHE_SHARED=/mnt/mucc mucc kernel.mcu -o kernel.so
warning[MU5206]: MUCC_CACHE_SHARED names '/mnt/mucc', which is no directory
```

Mend the path, mount what should be there, or remove the setting. Several directories are separated by `:`.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5207": CodeInfo(
        "there is no NVRTC that fits nvcc",
        """
A kernel that differs from an earlier one in its pointwise work only is built from what is in the cache and
a few lines of new code. NVRTC, nvcc's compiler as a library, compiles these in 0.03 s. Where it is missing,
or is of another release than nvcc, nvcc does so in about 0.5 s, with the same result. nvcc is also taken
where NVCC_PREPEND_FLAGS or NVCC_APPEND_FLAGS is set.

```
note[MU5207]: new bodies are compiled by nvcc instead of NVRTC, which takes longer
  = note: the Python package cuda-bindings is not installed
```

`pip install 'mucc[nvcc]'` brings nvcc and NVRTC in one release.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5209": CodeInfo(
        "a program takes the full build",
        """
A program is usually built from parts, most of which are in the cache: its pointwise work is compiled alone
and put into machine code that is there already. The work of this program cannot be cut out, for the reason
that the message gives, so nvcc compiled all of it in one piece. The result is right and as fast; only the
build takes about a minute.

```
$ mucc kernel.mcu -o kernel.so
warning[MU5209]: this program takes the full build by nvcc, about a minute: stage out: …
```

`--plain-nvcc` asks for that build without the warning. Please report such a program.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU5213": CodeInfo(
        "an extra of mucc is not installed",
        """
What was asked for needs Python packages that a plain installation of mucc does not bring: `mucc lsp` needs
pygls, for example.

```
$ mucc lsp
error[MU5213]: the language server needs pygls
  = help: pip install 'mucc[lsp]'
```

The help names the extra that brings them.
""",
        status=ExitStatus.TOOLCHAIN,
    ),
    "MU9002": CodeInfo(
        "a pass made IR that is not legal",
        """
The IR is checked at each boundary between passes. One of them left something behind that must not
be there; the message names the pass, and the span the part of the program.

Please report it with the program. `mucc FILE --emit=cutlass --print-ir-after-all` shows the IR up to
that point.
""",
        status=ExitStatus.INTERNAL,
    ),
    "MU9001": CodeInfo(
        "an internal error of mucc",
        """
mucc met a state that its authors held to be impossible. The program may be right or wrong: mucc
does not know. No output was written.

Please report it, with the program and the output of the same command with `--verbose` (or
MUCC_DEBUG=1), which shows where it happened.
""",
        status=ExitStatus.INTERNAL,
    ),
}
