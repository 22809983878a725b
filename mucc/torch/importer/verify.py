"""Verify an imported program: compare driver and interpreter with PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.types import Shaped, dtype_name
from mucc.torch.importer.arguments import storage_of, tensors_of
from mucc.torch.importer.attributes import state_of
from mucc.torch.importer.capture import quiet, torch
from mucc.torch.importer.emit import Kernel
from mucc.torch.importer.precise import has_narrow, nearest, precise
from mucc.torch.importer.program import Program
from mucc.torch.importer.request import BEARABLE
from mucc.torch.importer.tolerance import in_float64, meant, meant_in_float64

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
    """The largest difference of one result or buffer: absolute, and over what is tolerated.

    `noise` is PyTorch's own error over the rms of the result, where something differs.
    """

    name: str
    largest: float
    excess: float
    noise: float = 0.0

    @property
    def is_good(self) -> bool:
        return self.excess <= 1


class Interpreted:
    """The kernels of a program as the interpreter runs them, in float64.

    Their results are of their dtypes; with `wide` those of f32 stay in float64.
    """

    def __init__(self, kernels: Sequence[Kernel], *, wide: bool = False):
        for kernel in kernels:
            setattr(self, kernel.name, interpreted(kernel, wide=wide))


def interpreted(kernel: Kernel, *, wide: bool = False) -> Any:
    """Return a function that runs a kernel by the interpreter; it returns a tensor, or a tuple of them.

    Its results are contiguous, as those of kernels are.
    """
    dtypes = _TORCH | {"f32": torch.float64} if wide else _TORCH
    types = [dtypes[dtype_name(Shaped.of(t).element_type)] for t in kernel.op.output_types]

    def call(*args: Any) -> Any:
        results = interpret_kernel(kernel.op, list(args))
        stored = [torch.as_tensor(r).to(t).contiguous() for r, t in zip(results, types, strict=True)]
        return stored[0] if len(stored) == 1 else tuple(stored)

    return call


def driver_of(program: Program, source: str, module: Any) -> Any:
    """Return the driver's module around the interpreter."""
    kernels = Interpreted(program.kernels)
    return driver_class(source).of(module, kernels, program.graph.captured.constants)


def driver_in_float64(program: Program, source: str, module: Any) -> Any:
    """Return the driver's module around the interpreter, all f32 in float64; `module` is in it already."""
    constants = {name: in_float64(c) for name, c in program.graph.captured.constants.items()}
    source = source.replace(str(torch.float32), str(torch.float64))
    return driver_class(source).of(module, Interpreted(program.kernels, wide=True), constants)


def driver_class(source: str) -> Any:
    """Execute a driver's source, and return the class it defines."""
    namespace: dict[str, Any] = {"__name__": "mucc_driver"}
    exec(compile(source, "<driver>", "exec"), namespace)
    return namespace["ModelNew"]


Call = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]


def called(module: Any, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Run a module, and return its results."""
    return module(*inputs, **keywords)


Given = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments by position and by name."""


@dataclass(frozen=True)
class Observed:
    """What a call gave and changed: results, arguments and state by name, and how results are nested."""

    values: dict[str, Any]
    structure: Any


def observed(module: Any, given: Given, seed: int, call: Call, state: Any = None) -> Observed:
    """Call a module, on inputs that it may change. `state` is the module whose state is meant, if another."""
    with torch.no_grad():
        torch.manual_seed(seed)
        result = call(module, *given)
    leaves, structure = torch.utils._pytree.tree_flatten(result)
    values = {f"result {n}": leaf for n, leaf in enumerate(leaves)}
    values |= {f"input {n}": leaf for n, leaf in enumerate(torch.utils._pytree.tree_leaves(given))}
    own = state_of(state or module).items()
    return Observed(values | {name: value.detach() for name, value in own}, structure)


def observed_exactly(
    module: Any, given: Given, seed: int, driver: Callable[[Any], Any] | None = None
) -> Observed | None:
    """Return PyTorch's results in float64; None if the module does not compute in it.

    With `driver`, which makes a driver of the module in float64, return those of the driver.
    """
    try:
        copied, inputs = copy.deepcopy((module, given))
        copied = copied.double()
        with quiet():
            run = driver(copied) if driver else copied
            return observed(run, torch.utils._pytree.tree_map(in_float64, inputs), seed, called, copied)
    except Exception:
        return None


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


def _compared(
    program: Program, source: str, module: Any, given: Given, seed: int, call: Call
) -> list[Difference]:
    theirs, their_inputs = copy.deepcopy((module, given))
    copied, our_inputs = copy.deepcopy((module, given))
    ours = driver_of(program, source, copied)
    expected = observed(theirs, their_inputs, seed, call)
    got = observed(ours, our_inputs, seed, called, ours.module)
    if _form(expected.structure) != _form(got.structure):
        return [Difference("the structure of the results", float("inf"), float("inf"))]
    wanted = expected.values
    found = [difference(name, value, got.values[name]) for name, value in wanted.items()]
    captured = program.graph.captured
    narrow = has_narrow(captured)
    if narrow and program.graph.formats.round != "eager" and not all(d.is_good for d in found):
        exact = precise(captured, *copy.deepcopy((module, *given)), seed) or {}
        wanted = {name: _nearest(got.values[name], value, exact.get(name)) for name, value in wanted.items()}
        found = [difference(name, value, got.values[name]) for name, value in wanted.items()]
    if all(d.is_good for d in found) or (double := observed_exactly(module, given, seed)) is None:
        return found
    found = [
        difference(name, value, got.values[name], double.values.get(name), narrow)
        for name, value in wanted.items()
    ]
    if narrow or not any(map(_is_decided_by_rounding, found)):
        return found
    ours_in_float64 = observed_exactly(module, given, seed, partial(driver_in_float64, program, source))
    if ours_in_float64 is None:
        return found
    return [
        _judged_in_float64(
            d, double.values.get(d.name), ours_in_float64.values[d.name], (wanted[d.name], got.values[d.name])
        )
        for d in found
    ]


def _is_decided_by_rounding(d: Difference) -> bool:
    """Whether a difference says nothing, as PyTorch's own error in f32 is too large."""
    return not d.is_good and d.noise > BEARABLE


def _judged_in_float64(found: Difference, exact: Any, got: Any, in_f32: tuple[Any, Any]) -> Difference:
    """Return a difference that rounding decides as it is in float64, if it is good there."""
    if not _is_decided_by_rounding(found) or exact is None or exact.shape != got.shape:
        return found
    judged = meant_in_float64(got, exact, *in_f32)
    return Difference(found.name, judged.largest, judged.excess) if judged.excess <= 1 else found


def _nearest(got: Any, expected: Any, exact: Any) -> Any:
    """Return the reference of a value: PyTorch's own, or the nearer one with intermediates in f32."""
    return expected if exact is None else nearest(got, expected, exact)


def _with_own_values(given: Given, taken: Set[int | None], seed: int) -> Given:
    """Shuffle each input that lies in `taken` memory, or in that of an input before it.

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


def _form(structure: Any) -> str:
    """How results are nested. torch.export takes a torch.Size for a tuple."""
    return str(structure).replace("TreeSpec(Size,", "TreeSpec(tuple,")


def difference(name: str, expected: Any, got: Any, exact: Any = None, overflows: bool = False) -> Difference:
    """How far a value is from what was expected; `exact` is that in float64, where it is known."""
    if not isinstance(expected, torch.Tensor):
        return Difference(name, 0.0, 0.0 if type(got) is type(expected) and got == expected else float("inf"))
    if not isinstance(got, torch.Tensor) or expected.shape != got.shape or expected.dtype != got.dtype:
        return Difference(name, float("inf"), float("inf"))
    found = meant(got, expected, exact, overflows=overflows)
    return Difference(name, found.largest, found.excess, found.noise)
