"""Whether an imported program means what its module does: driver and interpreter against PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.types import Shaped, dtype_name
from mucc.frontend.torch_import.capture import quiet, torch
from mucc.frontend.torch_import.emit import Kernel
from mucc.frontend.torch_import.program import Program
from mucc.frontend.torch_import.tolerance import in_float64, meant

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


def called(module: Any, inputs: Sequence[Any]) -> Any:
    """What a module gives."""
    return module(*inputs)


@dataclass(frozen=True)
class Observed:
    """What a call gave and changed: results, arguments and state by name, and how results are nested."""

    values: dict[str, Any]
    structure: Any


Call = Callable[[Any, Sequence[Any]], Any]


def observed(module: Any, inputs: Sequence[Any], seed: int, call: Call, state: Any = None) -> Observed:
    """Call a module, on inputs that it may change. `state` is the module whose state is meant, if another."""
    with torch.no_grad():
        torch.manual_seed(seed)
        result = call(module, inputs)
    leaves, structure = torch.utils._pytree.tree_flatten(result)
    values = {f"result {n}": leaf for n, leaf in enumerate(leaves)}
    values |= {f"input {n}": leaf for n, leaf in enumerate(torch.utils._pytree.tree_leaves(inputs))}
    return Observed(values | dict((state or module).state_dict()), structure)


def observed_exactly(module: Any, inputs: Sequence[Any], seed: int) -> Observed | None:
    """What PyTorch gives in float64; None where the module does not compute in it."""
    given = torch.utils._pytree.tree_map(in_float64, tuple(inputs))
    try:
        with quiet():
            return observed(copy.deepcopy(module).double(), given, seed, called)
    except Exception:
        return None


def compare(
    program: Program,
    source: str,
    module: Any,
    inputs: Sequence[Any],
    seed: int,
    call: Call = called,
) -> list[Difference]:
    """Run both on copies of the same inputs and weights; compare results, buffers, and changed inputs.

    `call` runs the module, and may say in its own way what the module raises.
    """
    ours = driver_of(program, source, copy.deepcopy(module))
    expected = observed(copy.deepcopy(module), copy.deepcopy(tuple(inputs)), seed, call)
    got = observed(ours, copy.deepcopy(tuple(inputs)), seed, lambda m, i: m(*i), ours.module)
    if _form(expected.structure) != _form(got.structure):
        return [Difference("the structure of the results", float("inf"), float("inf"))]
    found = [difference(name, value, got.values[name]) for name, value in expected.values.items()]
    if all(d.is_good for d in found) or (exact := observed_exactly(module, inputs, seed)) is None:
        return found
    overflows = has_narrow((inputs, [*module.parameters(), *module.buffers()]))
    return [
        difference(name, value, got.values[name], exact.values.get(name), overflows)
        for name, value in expected.values.items()
    ]


def _form(structure: Any) -> str:
    """How results are nested. torch.export takes a torch.Size for a tuple."""
    return str(structure).replace("TreeSpec(Size,", "TreeSpec(tuple,")


def has_narrow(values: Any) -> bool:
    """Whether there are floating-point tensors narrower than f32 among values."""
    leaves = torch.utils._pytree.tree_leaves(values)
    return any(isinstance(v, torch.Tensor) and v.is_floating_point() and v.itemsize < 4 for v in leaves)


def difference(name: str, expected: Any, got: Any, exact: Any = None, overflows: bool = False) -> Difference:
    """How far a value is from what was expected; `exact` is that in float64, where it is known."""
    if not isinstance(expected, torch.Tensor):
        return Difference(name, 0.0, 0.0 if type(got) is type(expected) and got == expected else float("inf"))
    if not isinstance(got, torch.Tensor) or expected.shape != got.shape or expected.dtype != got.dtype:
        return Difference(name, float("inf"), float("inf"))
    found = meant(got, expected, exact, overflows=overflows)
    return Difference(name, found.largest, found.excess, found.noise)
