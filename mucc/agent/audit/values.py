"""Arguments as JSON: what a problem passes to a module, without pickle. Tensors are named by their number.

{"list": [{"tensor": 0}, {"value": 0.5}]} for `[x, 0.5]`. Imports torch.
"""

from __future__ import annotations

import base64
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

PLAIN = (bool, int, str, type(None))

CONTAINERS: dict[str, type[Any]] = {"list": list, "tuple": tuple}


class NotPlain(Exception):
    """A value that has no form in JSON."""


def told(value: Any, tensor: Callable[[Any], object]) -> Json:
    """Return the form of a value; `tensor` says what stands for a tensor. Raises NotPlain."""
    if isinstance(value, torch.Tensor):
        return {"tensor": tensor(value)}
    if isinstance(value, PLAIN):
        return {"value": value}
    if isinstance(value, float):
        return {"value": value} if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.Size):
        return {"tuple": [{"value": int(n)} for n in value]}
    for name, kind in CONTAINERS.items():
        if type(value) is kind:
            return {name: [told(v, tensor) for v in value]}
    if isinstance(value, dict):
        items: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        return {"dict": [[told(k, tensor), told(v, tensor)] for k, v in items.items()]}
    if isinstance(value, (torch.dtype, torch.device)):
        return {"torch": str(value)}
    raise NotPlain(type(value).__name__)


def heard(said: Json, tensor: Callable[[Any], Any]) -> Any:
    """Return the value of a form."""
    ((kind, value),) = said.items()
    match kind:
        case "tensor":
            return tensor(value)
        case "value":
            return value
        case "float":
            return float(value)
        case "complex":
            return complex(*value)
        case "dict":
            return {heard(k, tensor): heard(v, tensor) for k, v in value}
        case "torch":
            name = str(value)
            return getattr(torch, name[6:]) if name.startswith("torch.") else torch.device(name)
        case _:
            return CONTAINERS[kind](heard(v, tensor) for v in value)


def packed(value: Any) -> Json:
    """Return a small tensor as JSON, with all its bytes."""
    flat = value.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return {
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "data": base64.b64encode(data).decode(),
    }


def unpacked(said: Json) -> Any:
    """Return the tensor of `packed`."""
    shape: Sequence[int] = said["shape"]
    data = base64.b64decode(said["data"])
    dtype = getattr(torch, said["dtype"])
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)
