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
    from mucc.library.errors import MuccError, MuccRuntimeError, MuccTypeError, MuccValueError
    from mucc.library.packing import pack_s4, pack_u4, unpack_s4, unpack_u4
    from mucc.library.sparse import densify, sparsify
    from mucc.runtime.build import CompileError, MuccWarning, check, compile
    from mucc.runtime.kernel import Kernel
    from mucc.runtime.module import Module, load

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
    "mucc.runtime.build": ("CompileError", "MuccWarning", "check", "compile"),
    "mucc.runtime.kernel": ("Kernel",),
    "mucc.runtime.module": ("Module", "load"),
    "mucc.library.errors": ("MuccError", "MuccRuntimeError", "MuccTypeError", "MuccValueError"),
    "mucc.library.packing": ("pack_s4", "pack_u4", "unpack_s4", "unpack_u4"),
    "mucc.library.sparse": ("densify", "sparsify"),
}
"""By module, the names of this package that it defines; each is imported on first use."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'mucc.runtime' has no attribute {name!r}")
    home = next(module for module, names in _HOMES.items() if name in names)
    return getattr(import_module(home), name)
