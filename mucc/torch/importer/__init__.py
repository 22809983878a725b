"""Import PyTorch modules as `.mcu` programs: capture by torch.export, lowering, partition, driver.

`sandbox` runs a problem file in a child process and needs no torch; `importer` and what it uses import
torch, and nothing else in mucc's front end does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.torch.importer.python import ImportedModule, from_torch

__all__ = ["ImportedModule", "from_torch"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("mucc.torch.importer.python"), name)
