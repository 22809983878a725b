"""Take apart layers of `nn.TransformerEncoder` in inference, which PyTorch runs as one opaque operation."""

from __future__ import annotations

from typing import Any

from mucc.torch.backend.examples import strided_example
from mucc.torch.importer.capture import torch

LAYER: Any = getattr(torch, "_transformer_encoder_layer_fwd", None)
ARGUMENTS = 20
"""How many arguments `nn.TransformerEncoderLayer` gives; another version of torch may give others."""

_f: Any = torch.nn.functional


def take_apart_layers(module: Any) -> int:
    """Replace encoder layers in a graph of dynamo by what they compute; returns their number."""
    graph = module.graph
    layers = [n for n in graph.nodes if n.op == "call_function" and n.target is LAYER and _is_plain(n)]
    for node in layers:
        tracer = torch.fx.proxy.GraphAppendingTracer(graph)
        given = [torch.fx.Proxy(a, tracer) if isinstance(a, torch.fx.Node) else a for a in node.args]
        with graph.inserting_before(node):
            result = _layer(*given).node
        result.meta.update(node.meta)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
    if layers:
        module.recompile()
    return len(layers)


def _is_plain(node: Any) -> bool:
    value = strided_example(node)
    return value is not None and value.dim() == 3 and len(node.args) == ARGUMENTS and not node.kwargs


def _layer(
    x: Any,
    width: int,
    heads: int,
    *given: Any,
) -> Any:
    """Compute an encoder layer. A mask is true, or not 0, where positions are hidden."""
    packed, packed_bias, out, out_bias, has_gelu, norms_first, eps, *weights, mask, kind = given
    w1, b1, w2, b2, up, up_bias, down, down_bias = weights

    def norm(value: Any, weight: Any, bias: Any) -> Any:
        return _f.layer_norm(value, (width,), weight, bias, eps)

    def attended(value: Any) -> Any:
        parts = _f.linear(value, packed, packed_bias).unflatten(-1, (3, heads, width // heads))
        q, k, v = (parts.select(2, part).transpose(1, 2) for part in range(3))
        y = _f.scaled_dot_product_attention(q, k, v, attn_mask=_seen(mask, kind))
        return _f.linear(y.transpose(1, 2).flatten(2), out, out_bias)

    def fed(value: Any) -> Any:
        inner = _f.linear(value, up, up_bias)
        return _f.linear(_f.gelu(inner) if has_gelu else _f.relu(inner), down, down_bias)

    if norms_first:
        x = x + attended(norm(x, w1, b1))
        return x + fed(norm(x, w2, b2))
    x = norm(x + attended(x), w1, b1)
    return norm(x + fed(x), w2, b2)


def _seen(mask: Any, kind: int | None) -> Any:
    """Return which positions are seen, by a mask of rows and columns (0), of keys (1), or of all axes (2)."""
    if mask is None:
        return None
    seen = mask.to(torch.bool).logical_not()
    return seen[:, None, None, :] if kind == 1 else seen
