"""The manifest of a library: its kernels, their parameters and dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.library.dims import parse_dims
    from mucc.library.errors import MuccError
    from mucc.library.signature import ITEM_BYTES, PACKED, Arg, KernelInfo, Manifest, ManifestError
    from mucc.measure.dims import complete_dims
    from mucc.measure.indices import draw_indices
    from mucc.runtime.elf import read_manifest
    from mucc.runtime.kernel import Kernel
    from mucc.runtime.module import Module, load

__all__ = [
    "ITEM_BYTES",
    "PACKED",
    "Arg",
    "Kernel",
    "KernelInfo",
    "Manifest",
    "ManifestError",
    "Module",
    "MuccError",
    "complete_dims",
    "draw_indices",
    "load",
    "parse_dims",
    "read_manifest",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.library.dims": ("parse_dims",),
        "mucc.library.errors": ("MuccError",),
        "mucc.library.signature": (
            "ITEM_BYTES",
            "PACKED",
            "Arg",
            "KernelInfo",
            "Manifest",
            "ManifestError",
        ),
        "mucc.measure.dims": ("complete_dims",),
        "mucc.runtime.elf": ("read_manifest",),
        "mucc.measure.indices": ("draw_indices",),
        "mucc.runtime.kernel": ("Kernel",),
        "mucc.runtime.module": ("Module", "load"),
    },
)
