"""Lay out activations of convolutions channels last in graphs of dynamo, as Inductor does in lowering them.

mucc's pass runs before that, and has to see the order of axes in which tensors will lie: convolutions of both
compilers take them so, and regions that read them copy nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

from mucc.torch.importer.capture import torch

_CONVOLUTIONS = {torch.conv2d: torch.channels_last, torch.conv3d: torch.channels_last_3d}
_fake: Any = importlib.import_module("torch.fx.passes.fake_tensor_prop")
_fake_tensor: Any = importlib.import_module("torch._subclasses.fake_tensor")

Node = Any


def lay_out_convolutions(module: Any) -> int:
    """Copy inputs of convolutions to channels last, results of the graph back; returns the copies before.

    Graphs stay as they are that have convolutions in groups of several channels, which PyTorch computes more
    slowly so, and graphs with views that need the order before or with `as_strided`, which reads memory.
    """
    calls = [n for n in module.graph.nodes if n.op == "call_function" and n.target in _CONVOLUTIONS]
    values = [n.meta.get("example_value") for n in module.graph.nodes if n.op == "placeholder"]
    mode = next((v.fake_mode for v in values if isinstance(v, _fake_tensor.FakeTensor)), None)
    reads_memory = any("as_strided" in str(n.target) for n in module.graph.nodes)
    if not calls or mode is None or reads_memory or any(_stands_against(n) for n in calls):
        return 0
    graph, copies = module.graph, dict[Node, Node]()
    for node in calls:
        source = node.args[0]
        if source not in copies:
            with graph.inserting_before(node):
                order = {"memory_format": _CONVOLUTIONS[node.target]}
                copies[source] = graph.call_method("contiguous", (source,), order)
        node.replace_input_with(source, copies[source])
    try:
        module.recompile()
        _fake.FakeTensorProp(module, mode).propagate_dont_convert_inputs(*values)
        _restore(graph)
    except (RuntimeError, ValueError):  # a view of what lies in another order now
        for source, laid in copies.items():
            laid.replace_all_uses_with(source)
            graph.erase_node(laid)
        copies.clear()
    for node in graph.nodes:
        found = node.meta.pop("val", None)
        if copies and node.op in ("call_function", "call_method"):
            node.meta["example_value"] = found
    module.recompile()
    return len(copies)


def _stands_against(node: Node) -> bool:
    """Whether a convolution is called otherwise than modules do, has groups of channels, or open extents."""
    if len(node.args) < 2 or not all(isinstance(a, torch.fx.Node) for a in node.args[:2]):
        return True
    given, weight = (a.meta.get("example_value") for a in node.args[:2])
    if not all(isinstance(v, torch.Tensor) for v in (given, weight)) or given.dim() != weight.dim():
        return True
    groups = node.args[6] if len(node.args) > 6 else node.kwargs.get("groups", 1)
    is_open = not all(isinstance(e, int) for v in (given, weight) for e in v.shape)
    return is_open or (groups > 1 and weight.shape[1] > 1)


def _restore(graph: Any) -> None:
    """Copy results that lie in another order than before to the order that they had."""
    (output,) = (n for n in graph.nodes if n.op == "output")
    for node in dict.fromkeys(output.all_input_nodes):
        before, now = node.meta.get("example_value"), node.meta.get("val")
        if not isinstance(before, torch.Tensor) or not isinstance(now, torch.Tensor):
            continue
        if before.stride() != now.stride():
            with graph.inserting_before(output):
                back = _laid_out(graph, node, before)
            output.replace_input_with(node, back)


def _laid_out(graph: Any, node: Node, like: Any) -> Node:
    """Copy a value to memory that is laid out as another tensor's."""
    if like.is_contiguous():
        return graph.call_method("contiguous", (node,))
    options = {"dtype": like.dtype, "device": like.device}
    place = graph.call_function(torch.empty_strided, (tuple(like.shape), like.stride()), options)
    return graph.call_method("copy_", (place, node))
