"""Run PyTorch in the narrowest arithmetic of a policy: operands of f32 products are rounded to a format.

A candidate may have the errors that this rounding alone causes. Imports torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

torch: Any = importlib.import_module("torch")
_dispatch: Any = importlib.import_module("torch.utils._python_dispatch")

TF32 = ~0x1FFF
"""The bits of an f32 that tensor cores read as tf32."""

FORMATS: dict[str, Callable[[Any], Any]] = {
    "tf32": lambda t: (t.view(torch.int32) & TF32).view(torch.float32),
    "f16": lambda t: t.half().float(),
    "bf16": lambda t: t.bfloat16().float(),
}

BF16, DIGITS_17 = ~0xFFFF, ~0x7F
"""The bits of an f32 that make a bf16, and those of 17 of its 24 binary digits. Operands of 14 to 16 digits
have the error of 17 digits and a further one, so that they are found too."""


def _truncated(t: Any, bits: int) -> Any:
    return (t.view(torch.int32) & bits).view(torch.float32)


def _terms(t: Any, rounded: Callable[[Any], Any]) -> Any:
    """Return the sum of a rounded value and its rounded rest, as products split into three have it."""
    high = rounded(t)
    return high + rounded(t - high)


NEAREST: dict[str, Callable[[Any], Any]] = {
    "tf32": lambda t: (t.view(torch.int32) + 0x1000 & TF32).view(torch.float32),
    "bf16": FORMATS["bf16"],
    "bf16x2": lambda t: _terms(t, FORMATS["bf16"]),
    "digits17": lambda t: (t.view(torch.int32) + 0x40 & DIGITS_17).view(torch.float32),
}
TRUNCATED: dict[str, Callable[[Any], Any]] = {
    "tf32": FORMATS["tf32"],
    "bf16": lambda t: _truncated(t, BF16),
    "bf16x2": lambda t: _terms(t, lambda part: _truncated(part, BF16)),
    "digits17": lambda t: _truncated(t, DIGITS_17),
}
"""Functions that round weights or inputs to a format, by its name: to the nearest number, or towards zero."""

OF_INPUTS = ("bf16x2", "digits17")
"""Formats that inputs are rounded to, too; others are found by probes."""

OPERANDS = {
    "mm": (0, 1),
    "mv": (0, 1),
    "dot": (0, 1),
    "bmm": (0, 1),
    "addmm": (1, 2),
    "addmv": (1, 2),
    "addbmm": (1, 2),
    "baddbmm": (1, 2),
    "convolution": (0, 1),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 1, 2),
    "_scaled_dot_product_efficient_attention": (0, 1, 2),
}
"""Which arguments of an ATen operation are multiplied."""


class _Rounded(_dispatch.TorchDispatchMode):  # pyright: ignore[reportUntypedBaseClass]
    rounded: Callable[[Any], Any]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = list(args)
        name = getattr(getattr(func, "overloadpacket", func), "__name__", "")
        for n in OPERANDS.get(name, ()):
            if given[n].dtype == torch.float32:
                given[n] = self.rounded(given[n].contiguous())
        return func(*given, **(kwargs or {}))


def round_weights(model: Any, rounded: Callable[[Any], Any]) -> bool:
    """Round the weights of a model that are f32 of two dimensions or more; return whether there are any."""
    found = [p for p in model.parameters() if p.dtype == torch.float32 and p.dim() > 1]
    with torch.no_grad():
        for weight in found:
            weight.copy_(rounded(weight.detach().clone(memory_format=torch.contiguous_format)))
    return bool(found)


@contextmanager
def permitted(precision: str) -> Generator[None]:
    """Let PyTorch multiply f32 in a policy's format, and add in f32, while this is entered."""
    before = torch.backends.cuda.matmul.allow_tf32
    mode: Any = _Rounded()
    mode.rounded = FORMATS[precision]
    with mode:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"  # nothing is left to be rounded
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
