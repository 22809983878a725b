"""The operations of the `mu` dialect, one file per kind of operation.

Every file has its `OPERATIONS`, and its `ATTRIBUTES` where it has some; the dialect consists of those of the
files that `FILES` lists. `FUNCTIONS` of a file says how the language calls them. Defining an operation takes
xDSL a good part of a millisecond, so a program loads the files only whose functions it calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from xdsl.ir import Attribute, Operation

    from mucc.dialects.mu.surface import Function

FILES: dict[str, tuple[str, ...]] = {
    "elementwise": (),
    "contraction": (),
    "indexed": ("take_along",),
    "views": (),
    "shape": (
        *("reshape", "permute", "slice", "concat", "pad", "flip", "roll", "broadcast"),
        *("tril", "triu", "iota", "full"),
    ),
    "conv": ("conv", "conv_transpose"),
    "pooling": ("max_pool", "avg_pool"),
    "quantization": (),
    "reduction": (
        *("sum", "max", "min", "amax", "mean", "prod", "any", "all"),
        *("var", "argmax", "argmin"),
    ),
    "scan": ("cumsum", "cumprod"),
    "normalisation": (
        *("softmax", "log_softmax", "logsumexp"),
        *("layer_norm", "rms_norm", "batch_norm", "instance_norm", "group_norm"),
    ),
    "attention": ("attention",),
    "kernel": (),
    "stage": (),
}
"""Every file, with the names of its `FUNCTIONS`, in the order of the language's lists."""


def operations() -> tuple[type[Operation], ...]:
    """The operations of all files."""
    return tuple(op for file in FILES for op in _module(file).OPERATIONS)


def attributes() -> tuple[type[Attribute], ...]:
    """The attributes of all files."""
    return tuple(a for file in FILES for a in getattr(_module(file), "ATTRIBUTES", ()))


def functions(file: str) -> tuple[Function, ...]:
    """What the language calls the operations of one file by."""
    return getattr(_module(file), "FUNCTIONS", ())


def _module(file: str) -> ModuleType:
    return import_module(f"{__name__}.{file}")
