"""Fold batch normalisation in inference into the weights of the product before it.

    conv(x, w, b)                  w' = w * s,  b' = (b - mean) * s + beta
    batch_norm(.., mean, var)  ->  conv(x, w', b')              with s = gamma / sqrt(var + eps)

Both are the same function of x for any weights, as s is the same for all that a channel sums up. w' and b'
are computed in float64 and rounded once, so each differs from its exact value by at most 2**-24 of its
size: less than what the normalisation alone rounds in f32. The driver computes them once for each version
of the weights.
"""

from __future__ import annotations

import operator
from typing import Any

from mucc.runtime.prepared import folded_norm
from mucc.torch.importer.capture import Captured, Source, quiet, torch

Node = Any
_aten = torch.ops.aten

PREPARED = "prepared"
"""The key of a node's `meta` where its value follows from the module's state alone, and is computed once."""


def fold_norms(captured: Captured) -> None:
    """Fold where the module is in inference, and all but x is f32 state that the graph does not change.

    A product whose result is read elsewhere too stays as it is, and so does a normalisation along another
    axis than that of the product's channels, or with an `eps` of 0, whose scale may be infinite.
    """
    if captured.training:
        return
    for node in list(captured.graph.nodes):
        if node.target is _aten._native_batch_norm_legit_no_training.default:
            _fold(captured, node)


def is_prepared(node: Node) -> bool:
    """Whether a node is computed of the module's state alone, once."""
    return PREPARED in node.meta


def _fold(captured: Captured, norm: Node) -> None:
    product, gamma, beta, mean, var, _, eps = norm.args
    readers: list[Node] = [user for user in norm.users if user.users]
    if len(readers) != 1 or readers[0].args[1:] != (0,) or eps <= 0 or list(product.users) != [norm]:
        return
    if (axis := _output_axis(product)) is None:
        return
    weight, bias = product.args[1], product.args[2] if len(product.args) > 2 else None
    state = [s for s in (weight, bias, gamma, beta, mean, var) if s is not None]
    if not all(is_state(captured, s) and s.meta["val"].dtype is torch.float32 for s in state):
        return
    graph, given = captured.graph, (weight, bias, mean, var, gamma, beta, eps)
    groups = product.args[8] if axis else 1
    with graph.inserting_before(product):
        folded = _prepared(graph, folded_norm, (*given, axis, groups), f"{weight.name}_and_shift")
        weights = _prepared(graph, operator.getitem, (folded, 0), f"{weight.name}_folded")
        shift = _prepared(graph, operator.getitem, (folded, 1), f"{weight.name}_shift")
    product.args = (product.args[0], weights, shift, *product.args[3:])
    _replace(captured, norm, readers[0], product)


def _output_axis(product: Node) -> int | None:
    """Return the axis of the weights that counts channels of the result; None for what is no such product."""
    if product.target not in (_aten.convolution.default, _aten.linear.default) or product.kwargs:
        return None
    rank, weights = product.meta["val"].dim(), product.args[1].meta["val"].dim()
    if product.target is _aten.linear.default:
        return 0 if rank == 2 else None  # the second axis is normalised
    if rank != weights:
        return None  # without a batch the second axis counts positions
    return 1 if product.args[6] else 0


def is_state(captured: Captured, node: Node) -> bool:
    """Whether a value is a parameter or buffer that the graph does not change, or computed of such."""
    given = captured.inputs.get(node.name)
    if given is None:
        return is_prepared(node)
    changes = any(mutation.target == given for mutation in captured.mutations)
    return given.source in (Source.PARAMETER, Source.BUFFER) and not changes


def _replace(captured: Captured, norm: Node, reader: Node, product: Node) -> None:
    """Have the product stand for the normalised value, under the name that results know it by."""
    name = reader.name
    reader.replace_all_uses_with(product)
    for node in (*norm.users, norm):
        captured.graph.erase_node(node)
    product.name = name


def _prepared(graph: Any, target: Any, args: tuple[Any, ...], name: str) -> Node:
    """Append a node that is computed of the module's state."""
    values = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args]
    mode = next(v.fake_mode for v in torch.utils._pytree.tree_leaves(values) if isinstance(v, torch.Tensor))
    node = graph.create_node("call_function", target, args, name=name)
    with quiet(), mode:
        node.meta |= {"val": target(*values), PREPARED: True}
    return node
