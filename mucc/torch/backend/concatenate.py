"""Concatenate the weights of products of one operand in frozen graphs: q, k and v, or gate and up.

Inductor does so for weights of one shape as it freezes a graph (`torch._inductor.config.freezing`). This does
it for any widths, where the predicted time of the whole graph becomes less. The products become one, and what
read them reads slices of its columns. It is done before Inductor makes the key of its cache, and the new
weights are frozen parameters as the others are, so that a graph from the cache gets those of its own model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from mucc.torch.backend.copies import copied
from mucc.torch.importer.capture import torch
from mucc.torch.importer.work import ALIASES

_aten = torch.ops.aten
_inductor: Any = importlib.import_module("torch._inductor.compile_fx")
_folding: Any = importlib.import_module("torch._inductor.constant_folding")
_freezing: Any = importlib.import_module("torch._inductor.freezing_utils")
_fake_tensor: Any = importlib.import_module("torch._subclasses.fake_tensor")
_guards: Any = importlib.import_module("torch._guards")

Node = Any
Seconds = Callable[[Any], float]
"""Predicts the time of a graph module."""


@dataclass(frozen=True)
class Group:
    """Products of one operand with frozen weights `[K, N]` each, with or without a bias, in order."""

    calls: tuple[Node, ...]

    @property
    def form(self) -> tuple[object, ...]:
        """Equal forms gain the same."""
        return tuple((str(c.target), *map(_shape, c.args)) for c in self.calls)

    @property
    def weights(self) -> tuple[Node, ...]:
        return tuple(c.args[-1] for c in self.calls)

    @property
    def biases(self) -> tuple[Node, ...]:
        return tuple(c.args[0] for c in self.calls if c.target is _aten.addmm.default)


def concatenate(module: Any, inputs: Sequence[Any], seconds: Seconds) -> int:
    """Join products in a graph of AOTAutograd where that is expected to be faster; returns how many groups.

    `seconds` predicts a graph's time. Groups of one form are decided about together.
    """
    forms = dict.fromkeys(g.form for g in groups(module.graph))
    if not forms:
        return 0
    wanted: set[tuple[object, ...]] = set()
    best = seconds(module)
    for form in forms:
        trial = copied(module)
        found = [g for g in groups(trial.graph) if g.form in {*wanted, form}]
        _join(trial, inputs, found, _fakes(inputs))
        if (expected := seconds(trial)) < best:
            best = expected
            wanted.add(form)
    found = [g for g in groups(module.graph) if g.form in wanted]
    if found:
        _join(module, inputs, found, None)
    return len(found)


def groups(graph: Any) -> list[Group]:
    """Find products of one operand, of which several have frozen weights of one dtype and order of memory."""
    found: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if node.op != "call_function" or node.kwargs:
            continue
        if node.target is _aten.mm.default:
            x, weight = node.args
            fixed = (weight,)
        elif node.target is _aten.addmm.default:
            bias, x, weight = node.args
            fixed = (weight, bias)
        else:
            continue
        if all(n.op == "get_attr" for n in fixed) and all(_lies_plainly(n.meta.get("val")) for n in fixed):
            value = weight.meta["val"]
            key = x, node.target, value.dtype, value.stride(0) == 1
            found.setdefault(key, []).append(node)
    return [Group(tuple(calls)) for calls in found.values() if len(calls) > 1]


def _lies_plainly(value: Any) -> bool:
    """Whether a weight is a matrix that fills its memory by rows or by columns, or a bias a vector."""
    if not isinstance(value, torch.Tensor) or value.dim() not in (1, 2):
        return False
    return value.is_contiguous() or (value.dim() == 2 and value.t().is_contiguous())


def _shape(node: Node) -> tuple[str, ...]:
    value = node.meta["val"]
    return (*map(str, value.shape), str(value.dtype))


def _fakes(inputs: Sequence[Any]) -> Any:
    """Return the mode of fake tensors of a graph's inputs."""
    return _guards.detect_fake_mode(inputs)


def _join(module: Any, inputs: Sequence[Any], found: Sequence[Group], mode: Any) -> None:
    """Join groups in a module; with a `mode` of fake tensors the new weights are fakes, for a prediction."""
    made = [_constants(module, group, mode) for group in found]
    graph = module.graph
    names = dict.fromkeys(n.target for group in found for n in (*group.weights, *group.biases))
    for group, (weight, bias) in zip(found, made, strict=True):
        first = group.calls[0]
        x = first.args[-2]
        with graph.inserting_before(first):
            one = graph.call_function(_aten.cat.default, (list(group.weights), 1))
            args = [x, one]
            extra = None
            if bias is not None:
                extra = graph.call_function(_aten.cat.default, (list(group.biases), 0))
                args.insert(0, extra)
            joined = graph.call_function(first.target, tuple(args))
        ends = [0, *accumulate(w.meta["val"].shape[1] for w in group.weights)]
        with graph.inserting_after(joined):
            for call, (begin, end) in zip(group.calls, pairwise(ends), strict=True):
                part = graph.call_function(_aten.slice.Tensor, (joined, 1, begin, end))
                if _leaves(call):  # results of the graph have memory of their own, as eager PyTorch's
                    with graph.inserting_after(part):
                        own = {"memory_format": torch.contiguous_format}
                        part = graph.call_function(_aten.clone.default, (part,), own)
                call.replace_all_uses_with(part)
        with _freezing.enter_freezing():
            _folding.replace_node_with_constant(module, one, weight)
            if extra is not None:
                _folding.replace_node_with_constant(module, extra, bias)
    graph.eliminate_dead_code()
    _drop_unused(module, names)
    graph.lint()
    module.recompile()
    _inductor.view_to_reshape(module)
    _inductor.fake_tensor_prop(module, inputs, True)


def _leaves(node: Node) -> bool:
    """Whether a value, or a view of it, is a result of the graph."""

    def is_view(user: Node) -> bool:
        return getattr(user.target, "overloadpacket", None) in ALIASES

    return any(u.op == "output" or (is_view(u) and _leaves(u)) for u in node.users)


def _constants(module: Any, group: Group, mode: Any) -> tuple[Any, Any]:
    """Return the weights of a group side by side, in their order of memory, and its biases, or None."""
    if mode is not None:
        with mode:
            weights, biases = ([n.meta["val"] for n in nodes] for nodes in (group.weights, group.biases))
            return _side_by_side(weights), torch.cat(biases) if biases else None
    weights, biases = ([getattr(module, n.target) for n in nodes] for nodes in (group.weights, group.biases))
    with torch.no_grad(), _fake_tensor.unset_fake_temporarily():
        return _side_by_side(weights), torch.cat(biases) if biases else None


def _side_by_side(weights: Sequence[Any]) -> Any:
    """Concatenate matrices along their columns; the result lies by columns if they do."""
    if all(w.t().is_contiguous() for w in weights):
        return torch.cat([w.t() for w in weights]).t()
    return torch.cat(list(weights), 1)


def _drop_unused(module: Any, names: Iterable[str]) -> None:
    """Let go of those attributes of a module that its graph reads no more."""
    used = {n.target for n in module.graph.nodes if n.op == "get_attr"}
    for name in names:
        if name not in used and hasattr(module, name):
            delattr(module, name)
