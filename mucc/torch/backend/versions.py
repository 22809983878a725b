"""Versions of PyTorch: with which ones the lowering is known to work, and what differs between them."""

from __future__ import annotations

import importlib
import re
from typing import Any

KNOWN = ((2, 11), (2, 14))
"""The first and the last version of torch with which the lowering (`lowering.py`) is known to work: 2.11 on
an H100, 2.12 to 2.14 without a GPU. Classes of Inductor's that are not documented may do another thing in
others, by the same names."""

PARTS = ("example_output", "tensor_args", "non_tensor_args", "unflatten_args")
"""What Inductor finds of a call that it does not know, as torch 2.14 names it."""


def torch_version() -> str:
    """Return the version of torch, such as "2.11.0+cu130"."""
    return importlib.import_module("torch").__version__


def is_known(version: str) -> bool:
    """Whether the lowering is known to work with a version of torch."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and KNOWN[0] <= (int(found[1]), int(found[2])) <= KNOWN[1]


def parts_of(processed: Any) -> tuple[Any, Any, Any, Any]:
    """Return `PARTS` of what `FallbackKernel.process_kernel` returns.

    Up to torch 2.13 that is a tuple which begins with them. Raises AttributeError where it is neither.
    """
    values, inputs, others, unflatten = (
        processed[: len(PARTS)] if isinstance(processed, tuple) else [getattr(processed, p) for p in PARTS]
    )
    return values, inputs, others, unflatten
