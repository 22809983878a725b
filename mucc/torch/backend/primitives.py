"""Lower primitives of Inductor, which its decompositions make in place of operations of ATen."""

from __future__ import annotations

import importlib
from typing import Any

from mucc.dialects.mu.ops import elementwise as e
from mucc.torch.importer.lowering import LOWERINGS, Builder, Built, prims


def load() -> None:
    """Register lowerings of the primitives that this version of torch has."""
    importlib.import_module("torch._inductor.inductor_prims")
    if (fma := getattr(prims, "fma", None)) is not None:
        LOWERINGS[fma.default] = multiplied_and_added


def multiplied_and_added(b: Builder, x: Any, y: Any, z: Any) -> Built:
    """`x * y + z`, of which the gradient of a softmax is made."""
    return b.call(e.AddOp, b.call(e.MulOp, x, y), z)
