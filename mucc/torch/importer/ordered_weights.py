"""Find the weights that kernels read with their axes in another order, so that drivers turn them once."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.kernels.registry import claimant
from mucc.torch.importer.capture import Captured
from mucc.torch.importer.emit import Kernel, Order
from mucc.torch.importer.fold_norms import is_state
from mucc.torch.importer.packed_weights import PACKED

Node = Any


def weight_orders(captured: Captured, kernel: Kernel, target: str) -> dict[Node, Order]:
    """Return the memory order of axes in which a kernel reads each weight of the module.

    Of a module in inference, as others change their weights at each step. What has another order, the library
    would copy at each call.
    """
    if captured.training:
        return {}
    nodes: dict[SSAValue, Node] = dict(zip(kernel.op.body.block.args, kernel.parameters, strict=True))
    found: dict[Node, Order] = {}
    for op in kernel.op.body.block.ops:
        if not isinstance(op, AnchorOp) or (kind := claimant(op, target)) is None:
            continue
        for value, order in kind.operand_orders(op, target).items():
            node = nodes.get(value)
            if node is not None and is_state(captured, node) and PACKED not in node.meta:
                found.setdefault(node, order)
    return found
