"""What tests of operations on whole tensors share: programs run by the interpreter, on NumPy and on torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from builders import kernel
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.passes import get_all_passes

SEED = np.random.default_rng(5)


def run(mcu: str, *inputs: Any) -> list[np.ndarray[Any, Any]]:
    """The results of a program's first kernel on NumPy, after it was seen that torch gives the same."""
    import torch

    found = kernel(mcu)
    results = interpret_kernel(found, inputs)
    others = interpret_kernel(found, [torch.from_numpy(np.array(v)) for v in inputs])
    for one, other in zip(results, others, strict=True):
        assert one.shape == tuple(other.shape)
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-12, atol=1e-12, equal_nan=True)
    return results


def check(expression: str, reference: Callable[..., Any], *inputs: np.ndarray[Any, Any]) -> None:
    """That an expression of `x`, `y`, `z` computes what a function of torch does, in float64."""
    import torch

    expected = reference(*(torch.from_numpy(np.array(v)) for v in inputs))
    results = run(program(expression, [v.shape for v in inputs], tuple(expected.shape)), *inputs)
    np.testing.assert_allclose(results[0], expected.double().numpy(), rtol=1e-9, atol=1e-9, equal_nan=True)


def program(
    expression: str, shapes: Sequence[Sequence[int]], result: Sequence[int], dtype: str = "f32"
) -> str:
    """A kernel over tensors `x`, `y`, `z` of fixed extents."""
    params = ", ".join(
        f"{name}: f32[{', '.join(map(str, shape))}]" for name, shape in zip("xyz", shapes, strict=False)
    )
    return f"kernel f({params}) -> {dtype}[{', '.join(map(str, result))}] {{ return {expression} }}"


def same_when_decomposed(mcu: str, *inputs: Any) -> None:
    """That `decompose` keeps what a program computes, and leaves only what has kernels."""
    found = kernel(mcu)
    expected = interpret_kernel(found, inputs)
    module = found.parent_op()
    assert isinstance(module, ModuleOp)
    for name in ("decompose", "check-lowering"):
        get_all_passes()[name]()().apply(None, module)  # type: ignore[arg-type]
    module.verify()
    for one, other in zip(expected, interpret_kernel(found, inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def random(*shape: int) -> np.ndarray[Any, Any]:
    """Normal numbers."""
    return SEED.standard_normal(shape)
