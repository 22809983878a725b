"""The operations of the `mu` dialect, one file per kind of operation.

Each file that `FILES` lists defines `OPERATIONS`, optionally `ATTRIBUTES`, and in `FUNCTIONS` the functions
by which the language calls the operations. Defining an operation takes xDSL up to a millisecond, so only the
files are loaded whose functions a program calls.
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
    "contraction": ("matmul", "grouped_matmul"),
    "indexed": ("gather", "scatter", "take_along"),
    "views": (),
    "shape": (
        *("reshape", "permute", "concat", "pad", "flip", "roll", "repeat", "broadcast"),
        *("tril", "triu", "iota", "full"),
    ),
    "placed": (),
    "conv": ("conv", "conv_transpose"),
    "pooling": ("max_pool", "avg_pool"),
    "quantization": ("dequantize",),
    "reduction": (
        *("sum", "max", "min", "amax", "mean", "prod", "any", "all"),
        *("var", "argmax", "argmin"),
    ),
    "scan": ("cumsum", "cumprod"),
    "sort": ("sort", "argsort", "topk", "argtopk"),
    "random": ("random", "dropout"),
    "normalisation": (
        *("softmax", "log_softmax", "logsumexp"),
        *("layer_norm", "rms_norm", "batch_norm", "instance_norm", "group_norm"),
    ),
    "attention": ("attention", "attention_logsumexp", *(f"attention_d{x}" for x in ("q", "k", "v", "mask"))),
    "kernel": (),
    "stage": (),
}
"""Every file, with the names of its `FUNCTIONS`, in the order of the language's lists."""


def operations() -> tuple[type[Operation], ...]:
    """Load all operations."""
    return tuple(op for file in FILES for op in _module(file).OPERATIONS)


def attributes() -> tuple[type[Attribute], ...]:
    """Load all attributes."""
    return tuple(a for file in FILES for a in getattr(_module(file), "ATTRIBUTES", ()))


def functions(file: str) -> tuple[Function, ...]:
    """Load the language's functions for the operations of one file."""
    return getattr(_module(file), "FUNCTIONS", ())


def _module(file: str) -> ModuleType:
    return import_module(f"{__name__}.{file}")
