"""How an odd module is stated: a forward pass or a class, with its inputs as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c64": torch.complex64,
    "s8": torch.int8,
    "s16": torch.int16,
    "s32": torch.int32,
    "s64": torch.int64,
    "u8": torch.uint8,
    "bool": torch.bool,
}

INPUT = re.compile(r"(?:(\w+):)?([\d,]*)(?:<(\d+))?(?:>(\w+))?")
"""`dtype:extents<bound>layout`; f32 where there is no dtype, integers below the bound and not negative."""


@dataclass(frozen=True)
class Odd:
    """A module, its arguments, and what the importer refuses it with, if it does.

    `gradients` are compared too where the backend runs it.
    """

    name: str
    make: Callable[[], Any]
    inputs: tuple[Any, ...]
    refused: str | None = None
    gradients: bool = False
    keywords: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def shares(self) -> bool:
        """Whether a tensor is given more than once: a text of an input that begins with '='."""
        return any(isinstance(value, str) and value.startswith("=") for value in self.inputs)

    def arguments(self, seed: int, *, apart: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments of a call, the same for the same seed; `apart` makes each tensor its own."""
        torch.manual_seed(seed)
        shared: dict[str, Any] = {}

        def made(value: Any) -> Any:
            if isinstance(value, str) and value.startswith("="):
                if apart:
                    return tensor(value[1:])
                if value not in shared:
                    shared[value] = tensor(value[1:])
                return shared[value]
            if isinstance(value, str):
                return tensor(value) if INPUT.fullmatch(value) else value
            if isinstance(value, tuple | list):
                return type(value)(made(v) for v in value)
            if isinstance(value, dict):
                return {k: made(v) for k, v in value.items()}
            return value() if callable(value) else value

        return tuple(made(v) for v in self.inputs), {k: made(v) for k, v in self.keywords.items()}


def tensor(text: str) -> Any:
    """The tensor of an input's text: `f16:3,4>t` is a transposed view of halves, `s64:5<3` has 0 to 2."""
    matched = INPUT.fullmatch(text)
    assert matched, text
    name, extents, bound, layout = matched.groups()
    dtype = DTYPES[name or "f32"]
    shape = [int(n) for n in extents.split(",") if n]
    if layout == "t":
        shape[-2:] = shape[:-3:-1]
    if layout == "steps":
        shape[-1] *= 2
    if dtype == torch.bool:
        made = torch.rand(shape) > 0.4
    elif bound or (not dtype.is_floating_point and not dtype.is_complex):
        low = 0 if bound or name == "u8" else -9
        made = torch.randint(low, int(bound or 10), shape).to(dtype)
    else:
        made = torch.randn(shape, dtype=dtype if dtype.is_complex else None).to(dtype)
    match layout:
        case "t":
            return made.transpose(-1, -2)
        case "steps":
            return made[..., ::2]
        case "last":
            return made.contiguous(memory_format=torch.channels_last)
        case "wide":
            return made[..., :1].expand(shape)
        case _:
            return made


ODD: dict[str, Odd] = {}


def odd(*inputs: Any, name: str = "", **options: Any) -> Callable[[Any], Any]:
    """Register a class of modules that takes no arguments, or the `forward(self, ...)` of one."""

    def register(what: Any) -> Any:
        called = name or what.__name__
        assert called not in ODD, called
        make = what if isinstance(what, type) else type(called, (torch.nn.Module,), {"forward": what})
        ODD[called] = Odd(called, make, inputs, **options)
        return what

    return register


def each(inputs: tuple[Any, ...], prefix: str, functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register modules that each call one function on like inputs."""
    for name, function in functions.items():

        def forward(self: Any, *args: Any, function: Any = function) -> Any:
            return function(*args)

        odd(*inputs, name=f"{prefix}_{name}")(forward)
