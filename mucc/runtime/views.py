"""Call kernels with tensors of any strides: those that a kernel cannot read are copied. Imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from mucc.library.errors import MuccError
from mucc.target.facts import WIDEST_ACCESS

torch: Any = importlib.import_module("torch")


def call_anyhow(kernel: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a kernel with views of tensors, of which it gets copies if it cannot read the views.

    Raises MuccError where it refuses the copies too.
    """
    given = [a.contiguous() if isinstance(a, torch.Tensor) else a for a in args]
    try:
        return kernel(*given)
    except MuccError:
        if all(_begins_aligned(a) for a in given):
            raise
    return kernel(*(a if _begins_aligned(a) else a.clone() for a in given))


def _begins_aligned(value: Any) -> bool:
    """Whether kernels can read a tensor from where it begins: they copy so many bytes at a time."""
    return not isinstance(value, torch.Tensor) or value.data_ptr() % WIDEST_ACCESS == 0
