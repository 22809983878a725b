"""Convert functional graphs of Inductor to the importer's form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from mucc.torch.backend import primitives
from mucc.torch.importer.capture import Captured, Input, Ref, Source, drop_notes, torch
from mucc.torch.importer.emit import Lies, Order
from mucc.torch.importer.extents import (
    declared_ranges,
    derived_extents,
    name_extents,
    typical,
    typical_extents,
)
from mucc.torch.importer.integers import wide_integers
from mucc.torch.importer.nodes import tensor_inputs
from mucc.torch.importer.partition import Formats, Graph, readers
from mucc.torch.importer.strided_reads import is_view
from mucc.torch.importer.work import ALIASES

primitives.load()

Node = Any
_aten = torch.ops.aten

_CONVOLUTIONS = frozenset((_aten.convolution.default, _aten.convolution_backward.default))
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}

_STRIDED = frozenset((_aten.as_strided, _aten.as_strided_scatter, _aten.as_strided_copy))
"""Operations that read memory by strides."""


class Extents(NamedTuple):
    """The open extents of a graph by name: their size where it was captured, and the ranges of some."""

    sizes: dict[str, int]
    ranges: dict[str, tuple[int, int]]


def graph_of(fx: Any, module: Any, formats: Formats, anywhere: bool) -> tuple[Graph, Extents]:
    """Convert a graph of AOTAutograd for the importer; returns it with its open extents.

    `module` has the attributes of the graph. Kernels are for tensors on one CUDA device, or `anywhere`.
    """
    drop_notes(fx)
    nodes = list(fx.nodes)
    inputs: dict[str, Input] = {}
    results: list[Any] = []
    for node in nodes:
        if node.op == "placeholder":
            inputs[node.name] = Input(Source.USER, node.name, len(inputs))
        elif node.op == "get_attr" and "val" not in node.meta:
            value = attribute(module, node.target)
            if isinstance(value, torch.Tensor):
                node.meta["val"] = value
        elif node.op == "output":
            results = torch.utils._pytree.tree_leaves(node.args[0])
    structure = [Ref(r.name) if isinstance(r, torch.fx.Node) else r for r in results]
    captured = Captured(fx, inputs, structure, ())
    names = name_extents(nodes)
    derived, excluded = derived_extents(nodes, names), _excluded(captured, anywhere)
    graph = Graph(captured, formats, names=names, derived=derived, excluded=excluded, free_ends=ALIASES)
    return graph, Extents(typical_extents(nodes, names), declared_ranges(nodes, names))


def attribute(module: Any, path: str) -> Any:
    """Return what a module has at a path; None where it has nothing there."""
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


def _excluded(captured: Captured, anywhere: bool) -> Callable[[Node], str | None]:
    """Return the reason why an operation on these tensors is left to PyTorch, or None."""

    integers = wide_integers(captured)
    in_memory = _read_in_memory(captured)

    def reason(node: Node) -> str | None:
        made = tensors_of(node)
        read = [t for n in tensor_inputs(node) for t in tensors_of(n)]
        devices = {t.device for t in (*made, *read)}
        if len(devices) > 1 or not (anywhere or all(d.type == "cuda" for d in devices)):
            return f"tensors on {' and '.join(sorted(map(str, devices)))}"
        if any(t.layout != torch.strided or t.is_neg() or t.is_conj() for t in (*made, *read)):
            return "a tensor that lies in memory in a way of its own"
        if wide := integers(node):
            return wide
        if any(d == 0 for t in read for d in t.shape if isinstance(d, int)):
            return "an empty tensor"
        if node in in_memory:
            return "as_strided reads its memory"
        return None

    return reason


def _read_in_memory(captured: Captured) -> set[Node]:
    """Return the nodes whose memory `as_strided` reads, under any view of it."""
    found = set[Node]()
    for node in captured.graph.nodes:
        if getattr(node.target, "overloadpacket", None) in _STRIDED:
            source = node.args[0]
            found.add(source)
            while is_view(source) or getattr(source.target, "overloadpacket", None) in ALIASES:
                source = source.args[0]
                found.add(source)
    return found


def tensors_of(node: Node) -> list[Any]:
    """List the tensors in a node's value."""
    value = node.meta.get("val")
    values = cast("list[Any]", value) if isinstance(value, tuple | list) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def order_of(tensor: Any, fills: bool = True) -> tuple[int, ...] | None:
    """Return the axes of a tensor in memory order, outermost first; None if that is the order of the axes.

    None too where elements repeat or, with `fills`, do not fill their memory: values are the same however
    they lie there.
    """
    shape, strides = [typical(e) for e in tensor.shape], [typical(s) for s in tensor.stride()]
    axes = [a for a in range(len(shape)) if shape[a] != 1]
    ordered = sorted(axes, key=lambda a: -strides[a])
    if ordered == axes or any(strides[a] == 0 for a in axes):
        return None
    if fills and not _is_dense(shape, strides, ordered):
        return None
    return (*(a for a in range(len(shape)) if shape[a] == 1), *ordered)


def fills_memory(value: Any) -> bool:
    """Whether the elements of a tensor fill the memory that it spans; True of what is no tensor."""
    if not isinstance(value, torch.Tensor):
        return True
    shape, strides = [typical(e) for e in value.shape], [typical(s) for s in value.stride()]
    axes = sorted((a for a in range(len(shape)) if shape[a] != 1), key=lambda a: -strides[a])
    return _is_dense(shape, strides, axes)


def lies_in(graph: Graph) -> Lies:
    """Return a function that says how values of a graph lie in memory, for kernels to read and write them so.

    Where channels are last, so are those of operands of a convolution that could also be contiguous: weights
    of 1x1 windows.
    """

    def lies(node: Node) -> Order | None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        is_fixed = all(isinstance(e, int) for e in (*value.shape, *value.stride()))
        is_either = value.dim() in _CHANNELS_LAST and is_fixed and value.is_contiguous()
        if is_either and _is_convolved(graph, node):
            is_last = value.is_contiguous(memory_format=_CHANNELS_LAST[value.dim()])
            return (0, *range(2, value.dim()), 1) if is_last else None
        return order_of(value)

    return lies


def _is_convolved(graph: Graph, node: Node) -> bool:
    """Whether a value is an operand of a convolution, or its result."""
    return any(n.target in _CONVOLUTIONS for n in (node, *readers(graph, node)))


def _is_dense(shape: list[int], strides: list[int], ordered: list[int]) -> bool:
    expected = 1
    for axis in reversed(ordered):
        if strides[axis] != expected:
            return False
        expected *= shape[axis]
    return True
