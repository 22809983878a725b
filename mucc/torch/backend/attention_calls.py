"""Call `scaled_dot_product_attention` where a module in training writes attention out.

Gradients of written attention read its weights, so that forward stores a number for each pair of a query and
a key. PyTorch's fused kernels, and those of mucc, store one for each query, and compute weights again.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

from mucc.torch.backend.examples import method_call, strided_example
from mucc.torch.backend.layouts import ATTENTION
from mucc.torch.importer.capture import torch

Node = Any
_F: Any = torch.nn.functional
_operator: Any = operator

PRODUCTS = (torch.matmul, _operator.matmul, torch.bmm, "matmul", "bmm", "__matmul__")
SOFTMAXES = (_F.softmax, torch.softmax, "softmax")
SUMS = (torch.add, _operator.add, _operator.iadd, "add", "add_")
IN_PLACE = (_operator.iadd, "add_")
SCALES = (torch.mul, _operator.mul, _operator.imul, "mul", "mul_")
QUOTIENTS = (torch.div, _operator.truediv, _operator.itruediv, "div", "div_")
CASTS = ("to", "float", "type_as", "contiguous", "half", "bfloat16")

ELEMENTS = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}
"""How many elements of queries and keys are copied at once: their number must be a multiple of it."""


@dataclass
class Scores:
    """What the scores of attention are: queries and turned keys, a factor, what is added, and all nodes."""

    query: Node
    turned: Node
    scale: float = 1.0
    added: list[Node] = field(default_factory=list[Node])


def call_attention(module: Any) -> int:
    """Rewrite written attention in a graph of dynamo; returns the number of calls that are there instead.

    ```
    softmax(q @ k.transpose(-1, -2) * a + m, -1) @ v
        -> scaled_dot_product_attention(q, k, v, attn_mask=m, scale=a)
    multi_head_attention_forward(..., need_weights=True)[0]
        -> multi_head_attention_forward(..., need_weights=False)[0]
    ```

    Not where anything else reads the weights, or with dropout, for which PyTorch would draw other numbers.
    """
    graph, changed = module.graph, 0
    if any("autocast" in str(node.target) for node in graph.nodes):
        return 0
    for node in list(graph.nodes):
        if node.target is _F.multi_head_attention_forward:
            changed += _drop_weights(node)
        elif _is(node, PRODUCTS) and (scores := _weighted(node)) is not None:
            _replace(node, scores)
            changed += 1
    if changed:
        module.recompile()
    return changed


def _drop_weights(node: Node) -> bool:
    """Ask for no weights where nothing reads them."""
    reads_weights = any(u.target is not operator.getitem or u.args[1] != 0 for u in node.users)
    dropout = node.args[10] if len(node.args) > 10 else node.kwargs.get("dropout_p", 0.0)
    drops = dropout and node.kwargs.get("training", True)
    if reads_weights or drops or not node.kwargs.get("need_weights", len(node.args) <= 15):
        return False
    node.kwargs = {**node.kwargs, "need_weights": False}
    return True


def _weighted(node: Node) -> Scores | None:
    """Return the scores that a product weighs values by, if fused kernels compute their softmax."""
    if len(node.args) != 2 or node.kwargs or not all(isinstance(a, torch.fx.Node) for a in node.args):
        return None
    weights, values = node.args
    while _is(weights, CASTS) or _is_idle_dropout(weights):
        if not _is_read_once(weights):
            return None
        weights = weights.args[0]
    if not _is(weights, SOFTMAXES) or not _is_read_once(weights) or _axis(weights) != -1:
        return None
    return _of_product(weights.args[0], values)


def _of_product(node: Node, values: Node) -> Scores | None:
    """Return the parts of scores of fixed numbers that are read once, None of others."""
    shape = strided_example(node).shape if strided_example(node) is not None else None
    added: list[Node] = []
    scale = 1.0
    while not _is(node, PRODUCTS):
        if shape is None or not _is_read_once(node) or not _is_like(node, shape):
            return None
        if _is(node, CASTS):
            node = node.args[0]
        elif _is(node, SUMS) and len(node.args) == 2 and not node.kwargs and scale == 1.0:
            parts = [a for a in node.args if isinstance(a, torch.fx.Node)]
            scores = [a for a in parts if _is_like(a, shape) and _leads_to_product(a)]
            if len(parts) != 2 or len(scores) != 1 or (_is(node, IN_PLACE) and scores[0] is not parts[0]):
                return None
            added.append(parts[1 - parts.index(scores[0])])
            node = scores[0]
        elif (factor := _factor(node)) is not None:
            node, scale = node.args[0], scale * factor
        else:
            return None
    if shape is None or not _is_read_once(node) or len(node.args) != 2 or not _is_like(node, shape):
        return None
    query, turned = node.args
    return Scores(query, turned, scale, added) if _is_fused(query, turned, values, added) else None


def _leads_to_product(node: Node) -> bool:
    """Whether a value is a product behind casts, sums and factors, as scores are."""
    while _is(node, (*CASTS, *SUMS, *SCALES, *QUOTIENTS)) and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return _is(node, PRODUCTS)


def _is_fused(query: Node, turned: Node, values: Node, added: list[Node]) -> bool:
    """Whether PyTorch has fused kernels for such operands, also for gradients."""
    tensors = [strided_example(n) for n in (query, turned, values)]
    if any(t is None for t in tensors):
        return False
    q, k, v = tensors
    ranks, dtypes = {t.dim() for t in (q, k, v)}, {t.dtype for t in (q, k, v)}
    if len(ranks) != 1 or q.dim() not in (3, 4) or len(dtypes) != 1 or q.dtype not in ELEMENTS:
        return False
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2] or q.shape[-1] != v.shape[-1]:
        return False
    width = q.shape[-1]
    masks = [strided_example(n) for n in added]
    return (
        isinstance(width, int)
        and width % ELEMENTS[q.dtype] == 0
        and all(m is not None and m.dtype == q.dtype and m.dim() <= q.dim() for m in masks)
    )


def _replace(node: Node, scores: Scores) -> None:
    """Put a call of attention in the place of the product with values."""
    graph = node.graph
    with graph.inserting_before(node):
        mask: Node | None = None
        for part in reversed(scores.added):
            mask = part if mask is None else method_call(mask, "add", part)
        key = method_call(scores.turned, "transpose", -2, -1)
        if mask is not None and strided_example(mask).dim() < 2:
            mask = method_call(mask, "unsqueeze", 0)
        args = (scores.query, key, node.args[1])
        result = graph.call_function(ATTENTION, args, {"attn_mask": mask, "scale": scores.scale})
        result.meta.update(node.meta)
    node.replace_all_uses_with(result)
    unused = [node]
    while unused:
        last = unused.pop()
        if not last.users and last.op != "placeholder":
            read = last.all_input_nodes
            graph.erase_node(last)
            unused += read


def _is(node: Any, targets: tuple[Any, ...]) -> bool:
    return isinstance(node, torch.fx.Node) and node.op.startswith("call_") and node.target in targets


def _is_read_once(node: Node) -> bool:
    """Whether one node reads a value, beside those that ask only for its dtype."""
    return sum(not (_is(u, ("type_as",)) and u.args[0] is not node) for u in node.users) == 1


def _is_like(node: Node, shape: Any) -> bool:
    value = strided_example(node)
    return value is not None and value.shape == shape and value.is_floating_point()


def _is_idle_dropout(node: Node) -> bool:
    """Whether a node is dropout that drops nothing."""
    if not _is(node, (_F.dropout, torch.dropout)):
        return False
    given = {**dict(zip(("input", "p", "training"), node.args, strict=False)), **node.kwargs}
    return given.get("p", 0.5) == 0 or not given.get("training", True)


def _axis(node: Node) -> int | None:
    """Return the axis of a softmax call, counted from the end; None if the call does not tell it."""
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    value = strided_example(node)
    if not isinstance(axis, int) or value is None:
        return None
    return axis if axis < 0 else axis - value.dim()


def _factor(node: Node) -> float | None:
    """Return the number that a node multiplies its first operand by."""
    if len(node.args) != 2 or node.kwargs or not isinstance(by := node.args[1], int | float) or by == 0:
        return None
    return by if _is(node, SCALES) else 1 / by if _is(node, QUOTIENTS) else None
