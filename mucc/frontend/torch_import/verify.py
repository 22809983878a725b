"""Whether an imported program means what its module does: driver and interpreter against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.types import Shaped, dtype_name
from mucc.frontend.torch_import.arguments import storage_of, tensors_of
from mucc.frontend.torch_import.attributes import state_of
from mucc.frontend.torch_import.capture import torch
from mucc.frontend.torch_import.emit import Kernel
from mucc.frontend.torch_import.precise import has_narrow, nearest, precise
from mucc.frontend.torch_import.program import Program

TOLERANCE = 1e-4
"""Relative and absolute: what KernelBench grants to float32."""

WIDER = {"float16": 1e-2, "bfloat16": 2e-2}

_TORCH = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "s32": torch.int32,
    "s8": torch.int8,
    "u8": torch.uint8,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}


@dataclass(frozen=True)
class Difference:
    """The largest difference of one result or buffer: absolute, and over what is tolerated."""

    name: str
    largest: float
    excess: float

    @property
    def is_good(self) -> bool:
        return self.excess <= 1


class Interpreted:
    """The kernels of a program as the interpreter runs them, in float64."""

    def __init__(self, kernels: Sequence[Kernel]):
        for kernel in kernels:
            setattr(self, kernel.name, interpreted(kernel))


def interpreted(kernel: Kernel) -> Any:
    """A function that runs a kernel by the interpreter; gives a tensor, or a tuple of them."""
    types = [_TORCH[dtype_name(Shaped.of(t).element_type)] for t in kernel.op.output_types]

    def call(*args: Any) -> Any:
        results = interpret_kernel(kernel.op, list(args))
        stored = [torch.as_tensor(r).to(t) for r, t in zip(results, types, strict=True)]
        return stored[0] if len(stored) == 1 else tuple(stored)

    return call


def driver_of(program: Program, source: str, module: Any) -> Any:
    """The driver's module around the interpreter."""
    kernels = Interpreted(program.kernels)
    return driver_class(source).of(module, kernels, program.graph.captured.constants)


def driver_class(source: str) -> Any:
    """The class that a driver's source defines."""
    namespace: dict[str, Any] = {"__name__": "mucc_driver"}
    exec(compile(source, "<driver>", "exec"), namespace)
    return namespace["ModelNew"]


Call = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]


def called(module: Any, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What a module gives."""
    return module(*inputs, **keywords)


def compare(
    program: Program,
    source: str,
    module: Any,
    inputs: Sequence[Any],
    seed: int,
    call: Call = called,
    keywords: Mapping[str, Any] | None = None,
) -> list[Difference]:
    """Run both on copies of the same inputs and weights; compare results, state, and changed inputs.

    Inputs that share memory are compared as they are, and then with values of their own. `call` runs the
    module, and may say in its own way what the module raises.
    """
    given = (tuple(inputs), dict(keywords or {}))
    found = _compared(program, source, module, given, seed, call)
    state = {storage_of(t) for t in tensors_of(module)}
    own = _with_own_values(given, state, seed)
    if own is not given:
        apart = _compared(program, source, module, own, seed, call)
        found += [replace(d, name=f"{d.name} of inputs that share no memory") for d in apart]
    return found


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


Given = tuple[tuple[Any, ...], dict[str, Any]]


def _compared(
    program: Program, source: str, module: Any, inputs: Given, seed: int, call: Call
) -> list[Difference]:
    theirs, their_inputs = copy.deepcopy((module, inputs))
    copied, our_inputs = copy.deepcopy((module, inputs))
    ours = driver_of(program, source, copied)
    given = (their_inputs, our_inputs)
    with torch.no_grad():
        torch.manual_seed(seed)
        expected = call(theirs, *their_inputs)
        torch.manual_seed(seed)
        got = ours(*our_inputs[0], **our_inputs[1])
    leaves = torch.utils._pytree.tree_leaves
    pairs = [
        (f"result {n}", e, g) for n, (e, g) in enumerate(zip(leaves(expected), leaves(got), strict=True))
    ]
    pairs += [
        (f"input {n}", e, g) for n, (e, g) in enumerate(zip(leaves(given[0]), leaves(given[1]), strict=True))
    ]
    state = state_of(ours.module)
    pairs += [(name, value, state[name]) for name, value in state_of(theirs).items()]
    pairs = [(n, e.detach(), _detached(g)) for n, e, g in pairs if isinstance(e, torch.Tensor)]
    found = [difference(*p) for p in pairs]
    captured = program.graph.captured
    if program.graph.formats.round == "eager" or not has_narrow(captured) or all(d.is_good for d in found):
        return found
    exact = precise(captured, *copy.deepcopy((module, inputs[0], inputs[1])), seed) or {}
    return [difference(n, nearest(g, e, exact[n]) if n in exact else e, g) for n, e, g in pairs]


def _with_own_values(given: Given, taken: Set[int | None], seed: int) -> Given:
    """The inputs, but each that lies in `taken` memory or in that of one before it is shuffled.

    The same object where none does.
    """
    leaves, spec = torch.utils._pytree.tree_flatten(given)
    generator = torch.Generator().manual_seed(seed)
    seen = set(taken)
    changed = False
    for n, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor) or (storage := storage_of(leaf)) is None or not leaf.numel():
            continue
        if storage in seen:
            order = torch.randperm(leaf.numel(), generator=generator).to(leaf.device)
            leaves[n] = leaf.detach().flatten()[order].reshape(leaf.shape)
            changed = True
        seen.add(storage)
    return spec.unflatten(leaves) if changed else given


def difference(name: str, expected: Any, got: Any) -> Difference:
    """How far a tensor is from what was expected."""
    if not isinstance(got, torch.Tensor) or expected.shape != got.shape or expected.dtype != got.dtype:
        return Difference(name, float("inf"), float("inf"))
    tolerance = WIDER.get(str(expected.dtype).removeprefix("torch."), TOLERANCE)
    e, g = expected.to(torch.float64), got.to(torch.float64)
    same = (e == g) | (torch.isnan(e) & torch.isnan(g))
    distance = torch.where(same, 0.0, (e - g).abs())
    if distance.numel() == 0:
        return Difference(name, 0.0, 0.0)
    if not expected.is_floating_point():
        return Difference(name, float(distance.max()), float("inf") if distance.max() > 0 else 0.0)
    scale = tolerance * (1 + e.abs())
    excess = torch.nan_to_num(torch.where(same, 0.0, distance / scale), nan=float("inf"), posinf=float("inf"))
    return Difference(name, float(torch.nan_to_num(distance, nan=float("inf")).max()), float(excess.max()))
