"""The run time: loads kernel libraries, checks and launches calls, and gives torch its operators.

    module = mucc.load("linear_gelu.so")
    y = module.linear_gelu(x, w, b)

Importing this package imports neither torch nor tvm-ffi: `load` needs tvm-ffi, a call with torch tensors
needs torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.runtime.build import CompileError, MuccWarning, check, compile
    from mucc.runtime.errors import MuccError, MuccRuntimeError, MuccTypeError, MuccValueError
    from mucc.runtime.kernel import Kernel
    from mucc.runtime.module import Module, load
    from mucc.runtime.packing import pack_s4, pack_u4, unpack_s4, unpack_u4
    from mucc.runtime.sparse import densify, sparsify

__all__ = [
    "CompileError",
    "Kernel",
    "Module",
    "MuccError",
    "MuccRuntimeError",
    "MuccTypeError",
    "MuccValueError",
    "MuccWarning",
    "check",
    "compile",
    "densify",
    "load",
    "pack_s4",
    "pack_u4",
    "sparsify",
    "unpack_s4",
    "unpack_u4",
]

_HOMES = {
    "CompileError": "build",
    "Kernel": "kernel",
    "Module": "module",
    "MuccWarning": "build",
    "check": "build",
    "compile": "build",
    "densify": "sparse",
    "load": "module",
    "pack_s4": "packing",
    "pack_u4": "packing",
    "unpack_s4": "packing",
    "unpack_u4": "packing",
    "sparsify": "sparse",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'mucc.runtime' has no attribute {name!r}")
    return getattr(import_module(f"mucc.runtime.{_HOMES.get(name, 'errors')}"), name)
