"""mucc: a compiler from a compact text language to fused CUTLASS GPU kernels.

    import mucc

    module = mucc.compile(open("linear_gelu.mcu").read())
    y = module.linear_gelu(x, w, b)  # torch tensors; `launch` takes arrays of any DLPack framework

Everything here is imported on first use, so that `import mucc` costs nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mucc.version import __version__

if TYPE_CHECKING:
    from mucc.editor.notebook import Shell
    from mucc.runtime import (
        check,
        compile,
        densify,
        load,
        pack_s4,
        pack_u4,
        sparsify,
        unpack_s4,
        unpack_u4,
    )
    from mucc.torch.backend import explain, torch_backend
    from mucc.torch.importer import from_torch

__all__ = [
    "__version__",
    "check",
    "compile",
    "densify",
    "explain",
    "from_torch",
    "load",
    "pack_s4",
    "pack_u4",
    "sparsify",
    "torch_backend",
    "unpack_s4",
    "unpack_u4",
]

_LAZY: dict[str, str] = {
    **dict.fromkeys(__all__[1:], "mucc.runtime"),
    **dict.fromkeys(("explain", "torch_backend"), "mucc.torch.backend"),
    "from_torch": "mucc.torch.importer",
}


def __getattr__(name: str) -> object:
    if (module := _LAZY.get(name)) is None:
        raise AttributeError(f"module 'mucc' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)


def load_ipython_extension(shell: Shell) -> None:
    """Define the cell magic `%%mucc`: what `%load_ext mucc` calls in Jupyter and IPython."""
    from mucc.editor.notebook import register

    register(shell)


def __dir__() -> list[str]:
    return sorted(__all__)


if sys.version_info < (3, 12):
    import os

    def _before_fork() -> None:
        from mucc.files.process_lock import find_properties

        find_properties()

    def _after_fork() -> None:
        from mucc.files.process_lock import renew_properties

        renew_properties()

    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
