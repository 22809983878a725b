"""Cache values that depend on weights alone, until the weights change. Importing this imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.library.packing import unpack_s4, unpack_u4

torch: Any = importlib.import_module("torch")


def folded_norm(
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    gamma: Any,
    beta: Any,
    eps: float,
    axis: int,
    groups: int,
) -> tuple[Any, Any]:
    """Return weights and bias `[O]` of a product that equals a product and normalisation in inference.

    `axis` of the weights counts channels of the result, with 1 those of one of `groups`: 0 for `[O, C]` and
    `[O, C/groups, ..]`, 1 for the weights `[C, O/groups, ..]` of transposed convolutions. bias, gamma and
    beta may be None. Both results are computed in float64, and rounded once to the dtype of `weight`.
    """
    scale = torch.rsqrt(var.double() + eps)
    if gamma is not None:
        scale = scale * gamma.double()
    shift = -mean.double() if bias is None else bias.double() - mean.double()
    shift = shift * scale if beta is None else shift * scale + beta.double()
    divided = weight.double().reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
    within = [-1, 1] if axis == 0 else [1, -1]
    weights = divided * scale.reshape(groups, *within, *[1] * (weight.dim() - 2))
    return weights.reshape(weight.shape).to(weight.dtype), shift.to(weight.dtype)


def unpacked(packed: Any, signed: bool, dtype: Any) -> Any:
    """Return the integers of 4 bits of bytes `[N, K/2]` as floats `[N, K]` of a dtype."""
    return (unpack_s4 if signed else unpack_u4)(packed).to(dtype)


@dataclass(frozen=True)
class Version:
    """A tensor as it was when something was computed of it.

    It is the same as long as it is the same object with the same memory, and torch's count of its changes
    has not moved. `held` keeps that memory from being used for anything else. Writes that torch does not
    count are not seen: through `.data`, and by kernels that get a pointer.
    """

    tensor: Any
    held: Any
    form: tuple[Any, ...]

    @classmethod
    def of(cls, tensor: Any) -> Version:
        return cls(tensor, tensor.detach(), _form(tensor))

    def is_of(self, tensor: Any) -> bool:
        return tensor is self.tensor and _form(tensor) == self.form


def _form(tensor: Any) -> tuple[Any, ...]:
    """Return what tells two states of a tensor apart, as long as the memory of the first is held."""
    return tensor._version, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


class Prepared:
    """Values computed of tensors, kept for each device and stream until one of the tensors changes.

    Nothing is kept while a CUDA graph is captured, which computes the values at each replay, nor of tensors
    made under `torch.inference_mode`, whose changes torch does not count.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, int], tuple[list[Version], Any]] = {}

    def __deepcopy__(self, memo: Any) -> Prepared:
        return Prepared()  # a copy has tensors of its own

    def __reduce__(self) -> tuple[type[Prepared], tuple[()]]:
        return Prepared, ()

    def clear(self) -> None:
        """Drop all values: after weights were written in a way that torch does not count."""
        self._kept.clear()

    def get(self, tensors: Sequence[Any], compute: Callable[[], Any]) -> Any:
        """Return `compute()`, or what it returned before if no tensor has changed since."""
        place = _place(tensors[0].device)
        if place is None or any(t.is_inference() for t in tensors):
            return compute()
        versions, value = self._kept.get(place, ([], None))
        if len(versions) == len(tensors) and all(v.is_of(t) for v, t in zip(versions, tensors, strict=True)):
            return value
        versions = [Version.of(t) for t in tensors]
        value = compute()
        self._kept[place] = (versions, value)
        return value


def _place(device: Any) -> tuple[Any, int] | None:
    """Return the device and the stream that computes; None where nothing may be kept."""
    if device.type != "cuda":
        return (device, 0) if device.type == "cpu" else None
    if torch.cuda.is_current_stream_capturing():
        return None
    return device, torch.cuda.current_stream(device).cuda_stream
