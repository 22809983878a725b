"""Times and errors of a layer, all contenders on the same tensors. Imports torch where it is called."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from bench.gemm.measure import captured, timed
from bench.layers.forms import Form, Input
from bench.layers.rivals import rivals

Values = dict[str, Any]
Call = Callable[[], Any]

CHUNK = 1 << 26
"""Elements that are compared at a time."""

ROUNDOFF = {"float32": 2.0**-22, "bfloat16": 2.0**-7, "float16": 2.0**-10}
"""Relative errors that are good whatever PyTorch's is."""

TF32 = 2.0**-9
"""The same of products whose operands are rounded to tf32."""

SLACK = 4
"""An error is good up to so many times that of PyTorch."""


def draw(torch: Any, wanted: Input, device: str = "cuda") -> Any:
    """Make the tensor that a program takes."""
    shape = wanted.shape
    match wanted.draw:
        case "labels":
            return torch.randint(wanted.below, shape, device=device, dtype=torch.int32)
        case "ends":
            return torch.arange(1, shape[0] + 1, device=device, dtype=torch.int32) * wanted.below
        case "mask":
            return torch.randint(2, shape, device=device, dtype=torch.uint8)
        case "signs":
            made = torch.randint(2, shape, device=device).float() * 2 - 1
        case "positive":
            made = torch.rand(shape, device=device) + 0.1
        case "near_one":
            made = 1 + 1e-4 * torch.randn(shape, device=device)
        case "shares":
            made = torch.randn(shape, device=device).softmax(-1)
        case "weight":
            made = torch.randn(shape, device=device) * shape[-1] ** -0.5
        case "filter":
            made = torch.randn(shape, device=device) * math.prod(shape[1:]) ** -0.5
        case _:
            made = torch.randn(shape, device=device)
    if wanted.dtype == "s8":
        # Numbers up to 7 standard deviations fit.
        return (made * (16 / made.std())).round().clamp(-128, 127).to(torch.int8)
    types = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn}
    return made.to(types[wanted.dtype])


def as_pytorch(torch: Any, given: Any) -> Any:
    """Return an input as functions of PyTorch take it: numbers of classes and rows in 64 bits."""
    return given.long() if given.dtype == torch.int32 else given


def each(results: Any) -> Sequence[Any]:
    return cast(Sequence[Any], results) if isinstance(results, tuple) else (results,)


def error_of(torch: Any, result: Any, exact: Any) -> float:
    """The largest relative Frobenius distance; infinite where a NaN or an infinity is not in both."""
    worst = 0.0
    for got, wanted in zip(each(result), each(exact), strict=True):
        if tuple(got.shape) != tuple(wanted.shape):
            return float("inf")
        distance = size = 0.0
        for a, b in zip(got.reshape(-1).split(CHUNK), wanted.reshape(-1).split(CHUNK), strict=True):
            a, b = a.double(), b.double()
            good = torch.isfinite(b)
            if not bool((torch.isfinite(a) == good).all()):
                return float("inf")
            distance += float(torch.where(good, a - b, 0).square().sum())
            size += float(torch.where(good, b, 0).square().sum())
        worst = max(worst, (distance / size) ** 0.5 if size else float(distance > 0))
    return worst


def exact_results(torch: Any, form: Form, inputs: Sequence[Any]) -> Any | None:
    """Compute a layer in float64; None where the GPU has no room for that."""
    try:
        return form.in_pytorch(torch)(*(x.double() if x.is_floating_point() else x for x in inputs))
    except torch.OutOfMemoryError:
        return None
    finally:
        torch.cuda.empty_cache()


@contextlib.contextmanager
def in_tf32(torch: Any, on: bool) -> Generator[None]:
    """Let PyTorch multiply f32 in tf32, or not."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = on
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def others(torch: Any, form: Form, inputs: Sequence[Any], compiled: Sequence[str]) -> Mapping[str, Call]:
    """Return PyTorch's contenders by name; `compiled` are those of torch.compile."""
    layer = form.in_pytorch(torch)

    def call() -> Any:
        return layer(*inputs)

    found: dict[str, Call] = {"eager": call}
    if form.has_product and any(x.dtype == torch.float32 for x in inputs):
        found["tf32"] = call
    for name, mode in (("compile", None), ("autotune", "max-autotune-no-cudagraphs")):
        if name in compiled:
            torch._dynamo.reset()
            found[name] = partial(torch.compile(layer, mode=mode, dynamic=False), *inputs)
    return found


def measure(torch: Any, kernel: Any, form: Form, compiled: Sequence[str], rounds: int, copy: float) -> Values:
    """One row: errors, times in ms, and the share of a copy's bandwidth, `copy` in bytes per second.

    A contender that cannot be run is named in `failed`.
    """
    torch.manual_seed(0)
    given = [draw(torch, i) for i in form.inputs]
    inputs = [as_pytorch(torch, x) for x in given]
    results = kernel(*given)
    for y in each(results):
        y.fill_(float("nan") if y.is_floating_point() else -1)
    kernel(*given, out=results)
    moved = form.moved or sum(x.nbytes for x in (*given, *each(results)))
    failed: dict[str, str] = {}
    row: Values = {"bytes": moved, "failed": failed, **_judged(torch, form, inputs, results)}
    calls: dict[str, Call] = {"mucc": captured(torch, lambda: kernel(*given, out=results))}
    candidates = {**others(torch, form, inputs, compiled), **rivals(torch, form, inputs)}
    for name, call in candidates.items():
        try:
            with in_tf32(torch, name in ("tf32", "compile", "autotune")):
                calls[name] = captured(torch, call)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:200]
    times = timed(torch, calls, rounds)
    row |= {f"{name}_ms": round(ms, 6) for name, ms in times.items()}
    row["of_copy"] = moved / times["mucc"] * 1e3 / copy
    return row | {f"over_{name}": ms / times["mucc"] for name, ms in times.items() if name != "mucc"}


def _judged(torch: Any, form: Form, inputs: Sequence[Any], results: Any) -> Values:
    """The error of a result, that of PyTorch, and whether the first is good."""
    eager = form.in_pytorch(torch)(*inputs)
    exact = exact_results(torch, form, inputs)
    known = exact is not None
    found, theirs = error_of(torch, results, exact if known else eager), 0.0
    if known:
        theirs = error_of(torch, eager, exact)
    least = max(ROUNDOFF.get(str(y.dtype).removeprefix("torch."), 0.0) for y in each(results))
    if form.has_product:
        least = max(least, TF32)
    return {
        "error": found,
        "torch_error": theirs,
        "exact": "float64" if known else "eager",
        "good": found <= max(SLACK * theirs, least * form.condition),
    }
