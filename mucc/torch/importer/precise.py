"""Run a captured graph in float64 by PyTorch, without rounding between operations."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from mucc.torch.importer.arguments import Arguments
from mucc.torch.importer.attributes import state_of
from mucc.torch.importer.capture import Captured, FakeTensor, Ref, Source, quiet, torch

NARROW = (torch.float16, torch.bfloat16)

_CONVERSIONS = (torch.ops.aten._to_copy, torch.ops.aten.to)


def has_narrow(captured: Captured) -> bool:
    """Whether a graph has values of 16-bit floats."""
    values = (v for n in captured.graph.nodes for v in torch.utils._pytree.tree_leaves(n.meta.get("val")))
    return any(isinstance(v, torch.Tensor) and v.dtype in NARROW for v in values)


def precise(
    captured: Captured, module: Any, args: Sequence[Any], keywords: Mapping[str, Any], seed: int
) -> dict[str, Any] | None:
    """Results, arguments and state after a call, in float64, rounded only where the module converts.

    They are called as `verify` calls them. None where PyTorch does not compute the graph in float64.
    """
    leaves, state = Arguments.of(module, args, keywords).leaves, state_of(module)

    def value(given: Any) -> Any:
        if given.is_argument:
            leaf = leaves[given.position]
            return torch.tensor(leaf, dtype=torch.float64) if isinstance(leaf, float) else leaf
        found: Any = (
            captured.constants.get(given.path) if given.source is Source.CONSTANT else state[given.path]
        )
        return found.constant if isinstance(found, FakeTensor) else found

    inputs = [_wide(copy.deepcopy(value(i))) for i in captured.inputs.values()]
    by_name = dict(zip(captured.inputs, inputs, strict=True))
    runner = _Wide(torch.fx.GraphModule({}, captured.graph))
    try:
        with quiet(), torch.no_grad():
            torch.manual_seed(seed)
            runner.run(
                *(
                    by_name[n.name]
                    for n in captured.graph.nodes
                    if n.op == "placeholder" and n.name in by_name
                )
            )
    except Exception:
        return None
    results = torch.utils._pytree.tree_leaves(captured.structure)
    found = {f"result {n}": runner.seen[r.node] for n, r in enumerate(results) if isinstance(r, Ref)}
    for mutation in captured.mutations:
        target = mutation.target
        name = f"input {target.position}" if target.is_argument else target.path
        found[name] = runner.seen[mutation.node]
    return found


def nearest(got: Any, expected: Any, exact: Any) -> Any:
    """Return the expected result, with the exact value for each element that is closer to the exact one."""
    if exact is None or exact.shape != expected.shape or not expected.is_floating_point():
        return expected
    far = (got.double() - expected.double()).abs().nan_to_num(nan=torch.inf)
    near = (got.double() - exact.double()).abs().nan_to_num(nan=torch.inf)
    both = torch.isnan(got) & torch.isnan(expected)
    return torch.where((near < far) & ~both, exact.to(expected.dtype), expected)


_Interpreter: Any = torch.fx.Interpreter


class _Wide(_Interpreter):
    """Interpreter of a graph with all floats in float64."""

    def __init__(self, module: Any):
        _Interpreter.__init__(self, module, garbage_collect_values=False)
        self.seen: dict[str, Any] = {}

    def run_node(self, n: Any) -> Any:
        result = torch.utils._pytree.tree_map(_wide, _Interpreter.run_node(self, n))
        packet = getattr(n.target, "overloadpacket", None)
        made = n.meta.get("val")
        if packet in _CONVERSIONS and isinstance(made, torch.Tensor) and made.dtype in NARROW:
            result = result.to(made.dtype).double()
        self.seen[n.name] = result
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        kwargs = {k: _wider(v) for k, v in kwargs.items()}
        return _Interpreter.call_function(self, target, torch.utils._pytree.tree_map(_wider, args), kwargs)


def _wider(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


def _wide(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
