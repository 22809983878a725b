"""Lay out masks of attention so that PyTorch's fused kernels take them.

They read masks whose last axis is contiguous. For others, such as expanded ones, PyTorch takes attention
apart into products and a softmax in f32, which take several times as long as a fused kernel and a copy of the
mask.
"""

from __future__ import annotations

from typing import Any

from mucc.torch.backend.examples import method_call, strided_example
from mucc.torch.importer.capture import torch

ATTENTION: Any = torch.nn.functional.scaled_dot_product_attention

PLACE, NAME = 3, "attn_mask"
"""Where a call of attention has its mask."""


def lay_out_masks(module: Any) -> int:
    """Copy masks of attention in a graph of dynamo that fused kernels do not take; returns their number.

    A mask that is known, or that is laid out by itself, costs nothing: later passes drop both.
    """
    graph, copies = module.graph, dict[Any, Any]()
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not ATTENTION:
            continue
        mask: Any = node.args[PLACE] if len(node.args) > PLACE else node.kwargs.get(NAME)
        value = strided_example(mask)
        if value is None or not _is_spread(value):
            continue
        if mask not in copies:
            with graph.inserting_before(node):  # the first call that reads it
                copies[mask] = method_call(mask, "contiguous")
        node.replace_input_with(mask, copies[mask])
    if copies:
        module.recompile()
    return len(copies)


def _is_spread(mask: Any) -> bool:
    """Whether neighbours along the last axis are not neighbours in memory."""
    stride = mask.stride()[-1] if mask.dim() else 1
    return isinstance(stride, int) and stride != 1 and mask.shape[-1] != 1
