"""`--emit=header`: a C header for the kernels of one library."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from mucc.library.entries import guards_text
from mucc.library.signature import PACKED, Arg, KernelInfo, Manifest

_ROLES = {"input": "in", "scalar": "by value", "output": "out"}


def header_text(manifest: Mapping[str, Any]) -> str:
    """Generate a self-contained header: C types, and each kernel's functions with a comment per argument.

    It is C99 and C++. Raises `ManifestError` where `manifest` is none.
    """
    m = Manifest.parse(manifest)
    names = ", ".join(k.name for k in m.kernels)
    guard = f"MUCC_KERNELS_{m.digest[:16].upper()}_H_"
    abi = files("mucc").joinpath("support/include/mucc/abi.h").read_text(encoding="utf-8")
    parts = [
        _comment(f"Made by `mucc --emit=header` ({m.version}) for {m.target}. Kernels: {names}."),
        f"#ifndef {guard}\n#define {guard}\n",
        abi.rstrip() + "\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        *(_kernel(k) for k in m.kernels),
        _comment("Why the last failing call of this thread failed: \"MU6006: argument 'w' of ...\"."),
        "const char* mucc_last_error(void);\n",
        _comment("The library's manifest, as JSON."),
        "const char* mucc_manifest(void);\n",
        _comment(
            "For profilers: lets a function be called before each launch, with the name of the stage and the",
            "stream; null for none.",
        ),
        "void mucc_on_launch(void (*hook)(const char* stage, void* stream));\n",
        "#ifdef __cplusplus\n}\n#endif\n",
        f"#endif /* {guard} */",
    ]
    return "\n".join(parts) + "\n"


def _comment(*lines: str) -> str:
    body = "\n * ".join(line.replace("*/", "* /").replace("/*", "/ *") for line in lines)
    return f"/* {body} */"


def _arg(index: int, arg: Arg) -> str:
    text = f"  args[{index}]  {arg.signature:<32} {_ROLES[arg.role]}"
    if arg.role == "scalar":
        return f"{text}, a 0-d f32 or f64 tensor on the CPU"
    packed = f", bytes that hold two {arg.dtype} each" * (arg.dtype in PACKED)
    return f"{text}, {arg.align}-byte aligned{packed}"


def _kernel(k: KernelInfo) -> str:
    lines = [k.signature, "", *(_arg(i, a) for i, a in enumerate(k.args)), ""]
    if k.each:
        lines[-1:] = [
            f"  args[{len(k.args)}]  and so on: the same of further problems, as many as there are",
            "",
        ]
    lines += [f"  needs {text} ({why})" for text, why in k.promises]
    result = "It returns 0, or non-zero: nothing was launched."
    lines += [
        f"The call is asynchronous on `stream` (a cudaStream_t). {result}",
        "The workspace must stay alive until the stream has passed the call."
        if k.workspace
        else "It needs no workspace: pass NULL and 0.",
    ]
    entry = ""
    if k.entries:
        chosen = [f"  {i}: {guards_text(e.guards)}" for i, e in enumerate(k.entries)]
        entry = (
            _comment("Which schedule computes this call, or -1 where its arguments are wrong:", *chosen)
            + f"\nint {k.symbol}_entry(const MuccTensor* args, int n);\n"
        )
    return (
        _comment(*lines).replace(" \n", "\n")
        + f"\nint {k.symbol}(const MuccTensor* args, int n, void* workspace, size_t bytes, void* stream);\n"
        + _comment("The bytes of workspace that this call needs, or -1 where its arguments are wrong.")
        + f"\nint64_t {k.symbol}_workspace(const MuccTensor* args, int n);\n"
        + entry
    )
